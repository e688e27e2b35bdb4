// SPDX-License-Identifier: Apache-2.0
#include "daemon/object_roots.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/mounts.h"
#include "rootfs/object_root.h"

namespace dsec::daemon {

namespace fs = std::filesystem;

// What an overlayfs cannot show, and what the kernel cannot do where our copies of the layers are.
Result<void> ObjectRoots::check(const tree::EnvTree& env) {
  for (const auto& layer : env.layers()) {
    if (layer->view().has_escapes()) {
      return fail(ErrorCode::unsupported,
                  "layer {} has 0:0 devices or xattrs of overlayfs, which would act on the overlayfs above",
                  layer->digest().hex());
    }
    if (layer->image_path().empty()) {
      return fail(ErrorCode::unsupported, "there is no local copy of layer {}: see the log of lazyfsd",
                  layer->digest().hex());
    }
  }
  if (!verdict_) {
    verdict_ = rootfs::try_object_mode(env.layers().front()->image_path().parent_path().parent_path() / "tmp");
    log(LogLevel::info, "object_mode", {{"works", *verdict_ ? "yes" : verdict_->error().message}});
  }
  if (!*verdict_) return fail(ErrorCode::unsupported, "{}", verdict_->error().message);
  return {};
}

Result<std::shared_ptr<const Fd>> ObjectRoots::layer(const store::Layer& layer) {
  auto& known = layers_[layer.digest()];
  if (auto mount = known.lock()) return mount;
  auto mount = std::make_shared<const Fd>(TRY(rootfs::mount_layer(layer.image_path())));
  known = mount;
  return mount;
}

// The kernel takes an opaque root for any other, so the layers below one are left out. Of a layer that is there twice
// the lower one never shows, and overlayfs refuses it.
Result<ObjectRoots::Root> ObjectRoots::make(const tree::EnvTree& env) {
  Root root;
  std::set<Digest> seen;
  for (auto it = env.layers().rbegin(); it != env.layers().rend(); ++it) {
    const store::Layer& one = **it;
    if (seen.insert(one.digest()).second) root.layers.push_back(TRY(layer(one)));
    const auto inode = TRY(one.view().inode(one.view().root_nid()));
    if (TRY(one.view().is_opaque(inode))) break;
  }
  std::vector<const Fd*> lowers;
  for (const auto& mount : root.layers) lowers.push_back(mount.get());
  const Fd objects = TRY(copy_mount(objects_));
  root.mount = std::make_shared<const Fd>(TRY(rootfs::mount_object_root(lowers, objects)));
  return root;
}

Result<std::shared_ptr<const Fd>> ObjectRoots::root(const tree::EnvTree& env) {
  const std::lock_guard lock(mutex_);
  const auto found = roots_.find(env.digest());
  if (found != roots_.end()) return found->second.mount;
  TRY(check(env));
  Root root = TRY(make(env));
  return roots_.emplace(env.digest(), std::move(root)).first->second.mount;
}

void ObjectRoots::drop(const Digest& env) {
  const std::lock_guard lock(mutex_);
  roots_.erase(env);
  std::erase_if(layers_, [](const auto& layer) { return layer.second.expired(); });
}

std::optional<Result<void>> ObjectRoots::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

}  // namespace dsec::daemon
