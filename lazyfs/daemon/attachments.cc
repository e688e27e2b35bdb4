// SPDX-License-Identifier: Apache-2.0
#include "daemon/attachments.h"

#include <algorithm>

#include "base/log.h"

namespace dsec::daemon {

using format::XattrView;

Attachments::Attachments(store::Store store, store::LayerCache layers, std::unique_ptr<tree::SlotTable> slots,
                         MountedNames plain, MountedNames with_xattrs)
    : store_(std::move(store)),
      layers_(std::move(layers)),
      slots_(std::move(slots)),
      plain_(std::move(plain)),
      with_xattrs_(std::move(with_xattrs)) {}

namespace {

std::string name_of(const Digest& env, XattrView view) {
  return view == XattrView::overlay ? env.hex() + "-overlay" : env.hex();
}

}  // namespace

Result<std::shared_ptr<const tree::EnvTree>> Attachments::load(const Digest& env, XattrView view) {
  const format::Env document = TRY(layers_.load_env(env));
  std::vector<std::shared_ptr<const store::Layer>> layers;
  bool has_escapes = false;
  for (const Digest& digest : document.layers) {
    std::shared_ptr<const store::Layer> layer = loaded_[digest].lock();
    if (!layer) {
      layer = TRY(layers_.load(digest));
      loaded_[digest] = layer;
    }
    has_escapes = has_escapes || layer->view().has_escapes();
    layers.push_back(std::move(layer));
  }
  // Without escapes the two views are the same tree, with the same cached pages.
  return tree::EnvTree::create(env, has_escapes ? view : XattrView::plain, std::move(layers), *slots_);
}

Attachment Attachments::add_owner(State& state, Shown& shown, const std::string& name, const std::string& owner) {
  shown.owners.insert(owner);
  shown.last_used = ++state.clock;
  return {shown.mount->path / name, shown.tree->has_xattrs()};
}

Result<Attachment> Attachments::attach(const Digest& env, XattrView view, const std::string& owner) {
  const auto find_shown = [&](State& state) -> std::map<std::string, Shown>::iterator {
    auto found = state.shown.find(name_of(env, view));
    if (found != state.shown.end() || view == XattrView::plain) return found;
    found = state.shown.find(name_of(env, XattrView::plain));  // shown once when both views are the same
    const bool same = found != state.shown.end() &&
                      std::none_of(found->second.tree->layers().begin(), found->second.tree->layers().end(),
                                   [](const auto& layer) { return layer->view().has_escapes(); });
    return same ? found : state.shown.end();
  };
  {
    auto state = state_.lock();
    if (const auto found = find_shown(*state); found != state->shown.end()) {
      return add_owner(*state, found->second, found->first, owner);
    }
  }
  const std::lock_guard loading(loading_);
  {
    auto state = state_.lock();
    if (const auto found = find_shown(*state); found != state->shown.end()) {
      return add_owner(*state, found->second, found->first, owner);
    }
  }
  auto tree = TRY(load(env, view));
  const std::string name = name_of(env, tree->xattr_view());
  MountedNames& mount = tree->has_xattrs() ? with_xattrs_ : plain_;
  mount.names->attach(name, tree);
  std::vector<std::pair<MountedNames*, std::string>> dropped;
  auto state = state_.lock();
  Shown& shown = state->shown[name];
  shown.tree = std::move(tree);
  shown.mount = &mount;
  const Attachment attachment = add_owner(*state, shown, name, owner);
  drop_idle(*state, dropped);
  state.unlock();
  for (const auto& [where, gone] : dropped) {
    where->names->detach(gone);
    where->session->forget_root_entry(gone);
  }
  log(LogLevel::info, "attached", {{"env", env.hex()}, {"path", attachment.path.native()}});
  return attachment;
}

void Attachments::drop_idle(State& state, std::vector<std::pair<MountedNames*, std::string>>& dropped) {
  std::vector<std::pair<std::uint64_t, std::string>> idle;
  for (const auto& [name, shown] : state.shown) {
    if (shown.owners.empty()) idle.emplace_back(shown.last_used, name);
  }
  if (idle.size() <= kMaxIdle) return;
  std::sort(idle.begin(), idle.end());
  idle.resize(idle.size() - kMaxIdle);
  for (const auto& [used, name] : idle) {
    dropped.emplace_back(state.shown[name].mount, name);
    state.shown.erase(name);
  }
}

void Attachments::detach(const std::string& owner) {
  auto state = state_.lock();
  bool used = false;
  for (auto& [name, shown] : state->shown) {
    shown.owners.erase(owner);
    used = used || !shown.owners.empty();
  }
  if (!used) state->idle_since = std::chrono::steady_clock::now();
}

Result<Attachments::Usage> Attachments::usage(const Digest& env) {
  std::shared_ptr<const tree::EnvTree> tree;
  const tree::Namespace* names = nullptr;
  {
    auto state = state_.lock();
    for (const auto& [name, shown] : state->shown) {
      if (shown.tree->digest() != env) continue;
      tree = shown.tree;
      names = shown.mount->names.get();
    }
  }
  if (!tree) return fail(ErrorCode::not_found, "environment {} is not attached", env.hex());
  Usage usage;
  std::set<Digest> counted;
  for (const auto& layer : tree->layers()) {
    const auto meter = names->meter(layer->digest());
    if (!meter || !counted.insert(layer->digest()).second) continue;
    usage.store_bytes += meter->store_bytes.get();
    usage.read_bytes += meter->read_bytes.get();
    usage.reads += meter->reads.get();
  }
  return usage;
}

std::vector<std::string> Attachments::owners() {
  std::vector<std::string> all;
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) all.insert(all.end(), shown.owners.begin(), shown.owners.end());
  return all;
}

Json Attachments::describe() {
  Json list = Json::array();
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) {
    list.push_back({{"env", shown.tree->digest().hex()},
                    {"path", (shown.mount->path / name).native()},
                    {"layers", shown.tree->layers().size()},
                    {"has_xattrs", shown.tree->has_xattrs()},
                    {"owners", shown.owners}});
  }
  return list;
}

std::chrono::milliseconds Attachments::idle_for() {
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) {
    if (!shown.owners.empty()) return std::chrono::milliseconds(0);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - state->idle_since);
}

}  // namespace dsec::daemon
