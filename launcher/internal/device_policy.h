// SPDX-License-Identifier: Apache-2.0
// Which devices a sandbox may open: Docker's default list, for cgroup v1 as text and for v2 as a BPF program.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec::launcher {

struct DeviceRule {
  char type = 'c';                     // 'c' or 'b'
  std::optional<std::uint32_t> major;  // not set: any
  std::optional<std::uint32_t> minor;
  const char* access = "rwm";  // of r(ead), w(rite), m(knod)
};

// Any node may be made; only those that Docker lets through may be opened.
std::span<const DeviceRule> default_device_rules();

// As devices.allow takes it: "c 1:3 rwm".
std::string v1_device_rule(const DeviceRule& rule);

// A program of type BPF_PROG_TYPE_CGROUP_DEVICE that returns 1 when all of the access that is asked for is allowed by
// one rule, else 0. The context is struct bpf_cgroup_dev_ctx (include/uapi/linux/bpf.h).
std::vector<struct bpf_insn> device_program(std::span<const DeviceRule> rules);

// Loads the program and attaches it to a cgroup v2 directory. It goes with the directory.
Result<void> attach_device_policy(const Fd& cgroup, std::span<const DeviceRule> rules);

}  // namespace dsec::launcher
