// SPDX-License-Identifier: Apache-2.0
// Environments as file systems of the kernel's own: what object mode mounts, and for how long.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "tree/env_tree.h"

namespace dsec::daemon {

// Makes one detached read-only overlayfs for each environment and one EROFS mount for each layer, shared by all
// environments with it. They are in no mount namespace; clients get descriptors of them. What is dropped here lives on
// in the kernel for as long as somebody uses it. Thread-safe; one is made at a time.
class ObjectRoots {
 public:
  // `objects` is the directory of objects of a mount that is being served.
  explicit ObjectRoots(std::filesystem::path objects) : objects_(std::move(objects)) {}

  // The root of an environment, made now if there is none. `unsupported` says why this kernel, this host or this
  // environment cannot have one; what the kernel cannot do is found out once.
  Result<std::shared_ptr<const Fd>> root(const tree::EnvTree& env);
  void drop(const Digest& env);
  // Whether the kernel can; nothing before anybody asked.
  [[nodiscard]] std::optional<Result<void>> verdict() const;

 private:
  struct Root {
    std::vector<std::shared_ptr<const Fd>> layers;  // top first
    std::shared_ptr<const Fd> mount;
  };
  Result<void> check(const tree::EnvTree& env);
  Result<std::shared_ptr<const Fd>> layer(const store::Layer& layer);
  Result<Root> make(const tree::EnvTree& env);

  std::filesystem::path objects_;
  mutable std::mutex mutex_;  // for all below; held across mounting
  std::optional<Result<void>> verdict_;
  std::map<Digest, std::weak_ptr<const Fd>> layers_;
  std::map<Digest, Root> roots_;
};

}  // namespace dsec::daemon
