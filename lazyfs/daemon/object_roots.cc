// SPDX-License-Identifier: Apache-2.0
#include "daemon/object_roots.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/mounts.h"
#include "rootfs/object_root.h"

namespace dsec::daemon {

namespace fs = std::filesystem;

namespace {

// The kernel takes an opaque root for any other, so the layers below one are left out. Of a layer that is there twice
// the lower one never shows, and overlayfs refuses it.
Result<std::vector<const store::Layer*>> shown_layers(const tree::EnvTree& env) {
  std::vector<const store::Layer*> shown;
  std::set<Digest> seen;
  for (auto it = env.layers().rbegin(); it != env.layers().rend(); ++it) {
    const store::Layer& one = **it;
    if (seen.insert(one.digest()).second) shown.push_back(&one);
    const auto inode = TRY(one.view().inode(one.view().root_nid()));
    if (TRY(one.view().is_opaque(inode))) break;
  }
  return shown;
}

bool is_object_directory(std::string_view name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Before it looks for "/ab/..." in the directory of objects, overlayfs looks in all layers below that of the file
// (fs/overlayfs/namei.c, ovl_lookup()), and what it found there would be the content.
Result<void> check_names(const std::vector<const store::Layer*>& shown) {
  for (std::size_t i = 1; i < shown.size(); ++i) {
    const format::ErofsView& view = shown[i]->view();
    std::string taken;
    TRY(view.for_each_entry(TRY(view.inode(view.root_nid())), [&](const format::DirentView& entry) {
      if (is_object_directory(entry.name)) taken = entry.name;
      return taken.empty();
    }));
    if (taken.empty()) continue;
    return fail(ErrorCode::unsupported, "overlayfs would take /{} of layer {} for a directory of objects", taken,
                shown[i]->digest().hex());
  }
  return {};
}

}  // namespace

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

Result<std::vector<std::shared_ptr<const Fd>>> ObjectRoots::layers_of(const tree::EnvTree& env) {
  const auto shown = TRY(shown_layers(env));
  TRY(check_names(shown));
  std::vector<std::shared_ptr<const Fd>> layers;
  for (const store::Layer* one : shown) layers.push_back(TRY(layer(*one)));
  return layers;
}

Result<ObjectRoots::Root> ObjectRoots::make(std::vector<std::shared_ptr<const Fd>> layers) const {
  std::vector<const Fd*> lowers;
  for (const auto& mount : layers) lowers.push_back(mount.get());
  const Fd objects = TRY(copy_mount(objects_));
  auto mount = std::make_shared<const Fd>(TRY(rootfs::mount_object_root(lowers, objects)));
  return Root{std::move(layers), std::move(mount)};
}

// Whether a merged image would make another root than there is. A single layer is as good as merged.
Result<bool> ObjectRoots::wants_merged(const tree::EnvTree& env) {
  if (merged_ == nullptr) return false;
  const std::lock_guard lock(mutex_);
  const auto found = roots_.find(env.digest());
  if (found != roots_.end() && found->second.is_merged) {
    merged_->mark_used(env.digest());
    return false;
  }
  TRY(check(env));
  return TRY(shown_layers(env)).size() > 1;
}

Result<std::shared_ptr<const Fd>> ObjectRoots::root(const tree::EnvTree& env) {
  std::shared_ptr<const Fd> image;
  if (TRY(wants_merged(env))) image = merged_->find(env);  // may take its time, so nothing is locked
  const std::lock_guard lock(mutex_);
  const auto found = roots_.find(env.digest());
  const bool is_merged = found != roots_.end() && found->second.is_merged;
  if (image && !is_merged) {
    auto root = make({image});
    if (root) {
      root->is_merged = true;
      root->layers.clear();  // nobody shares it, and the overlayfs has it
      return (roots_[env.digest()] = std::move(*root)).mount;
    }
    merged_->give_up(env.digest(), root.error().message);
  }
  if (found != roots_.end()) return found->second.mount;
  TRY(check(env));
  Root root = TRY(make(TRY(layers_of(env))));
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
