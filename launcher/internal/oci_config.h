// SPDX-License-Identifier: Apache-2.0
// A sandbox as the configuration of an OCI bundle (github.com/opencontainers/runtime-spec, config.md, 1.0.2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/internal/cgroup.h"
#include "launcher/internal/image_user.h"
#include "launcher/sandbox.h"

namespace dsec::launcher {

// All that the document depends on besides the specification.
struct OciInputs {
  ImageUser user;
  std::filesystem::path root;        // the mounted overlay
  std::filesystem::path init;        // dsec-init on the host
  std::filesystem::path etc;         // directory with hosts, hostname and resolv.conf for this sandbox
  std::filesystem::path cgroup_top;  // cgroup v1: a directory with one empty directory for each view
  std::vector<CgroupView> cgroup_views;
  std::string seccomp_base64;           // compiled filter, for runtimes that take it
  std::uint64_t max_open_files = 1024;  // what we may ask for at most
  unsigned rows = 0;                    // of the terminal, when there is one
  unsigned columns = 0;
};

// Where dsec-init is inside: in the tmpfs of /dev, so that it never shows in the writable layer.
inline constexpr const char* kInitInside = "/dev/.dsec-init";

// The document. Equal inputs give equal bytes; of the file system it asks only which volumes are directories. `invalid`
// when a text is no UTF-8.
Result<std::string> oci_config(const SandboxSpec& spec, const OciInputs& inputs);

// The environment of the command: Docker's PATH, HOSTNAME, HOME and, with a terminal, TERM, then the specification's,
// which win.
std::vector<std::string> command_environment(const SandboxSpec& spec, const ImageUser& user);

}  // namespace dsec::launcher
