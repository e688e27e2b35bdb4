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
#include "daemon/merged_images.h"
#include "tree/env_tree.h"

namespace dsec::daemon {

// Makes one detached read-only overlayfs for each environment, of its merged image or of one EROFS mount for each
// layer, which all environments with the layer share. They are in no mount namespace; clients get descriptors of them.
// What is dropped here lives on in the kernel for as long as somebody uses it. Thread-safe; one is made at a time.
class ObjectRoots {
 public:
  // `objects` is the directory of objects of a mount that is being served. `merged` lives longer; null: every root is
  // of layers.
  explicit ObjectRoots(std::filesystem::path objects, MergedImages* merged = nullptr)
      : objects_(std::move(objects)), merged_(merged) {}

  // The root of an environment, made now if there is none, and made anew when there was no merged image before.
  // `unsupported` says why this kernel, this host or this environment cannot have one; what the kernel cannot do is
  // found out once.
  Result<std::shared_ptr<const Fd>> root(const tree::EnvTree& env);
  void drop(const Digest& env);
  // Whether the kernel can; nothing before anybody asked.
  [[nodiscard]] std::optional<Result<void>> verdict() const;

 private:
  struct Root {
    std::vector<std::shared_ptr<const Fd>> layers;  // top first; none of a merged image
    std::shared_ptr<const Fd> mount;
    bool is_merged = false;
  };
  Result<void> check(const tree::EnvTree& env);
  Result<bool> wants_merged(const tree::EnvTree& env);
  Result<std::shared_ptr<const Fd>> layer(const store::Layer& layer);
  Result<std::vector<std::shared_ptr<const Fd>>> layers_of(const tree::EnvTree& env);
  Result<Root> make(std::vector<std::shared_ptr<const Fd>> layers) const;

  std::filesystem::path objects_;
  MergedImages* merged_;
  mutable std::mutex mutex_;  // for all below; held across mounting
  std::optional<Result<void>> verdict_;
  std::map<Digest, std::weak_ptr<const Fd>> layers_;
  std::map<Digest, Root> roots_;
};

}  // namespace dsec::daemon
