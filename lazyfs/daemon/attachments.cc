// SPDX-License-Identifier: Apache-2.0
#include "daemon/attachments.h"

#include <algorithm>

#include "base/log.h"

namespace dsec::daemon {

Attachments::Attachments(store::Store store, store::LayerCache layers, std::unique_ptr<tree::SlotTable> slots,
                         MountedNames plain, MountedNames with_xattrs, MergedImages* merged)
    : store_(std::move(store)),
      layers_(std::move(layers)),
      slots_(std::move(slots)),
      plain_(std::move(plain)),
      with_xattrs_(std::move(with_xattrs)),
      roots_(plain_.path / tree::Namespace::kObjectsName, merged) {}

namespace {

using format::XattrView;

std::string name_of(const Digest& env, View view) {
  return view == View::plain ? env.hex() : fmt::format("{}-{}", env.hex(), to_string(view));
}

Result<Digest> env_of(std::string_view name) { return Digest::parse(name.substr(0, Digest::kHexSize)); }

// The view that a tree turned out to be.
View view_of(const tree::EnvTree& tree) {
  if (tree.sharing() == tree::EnvTree::Sharing::none) return View::record;
  return tree.xattr_view() == XattrView::overlay ? View::overlay : View::plain;
}

}  // namespace

Result<std::shared_ptr<const tree::EnvTree>> Attachments::load(const Digest& env, View view) {
  const format::Env document = TRY(layers_.load_env(env));
  std::erase_if(loaded_, [](const auto& entry) { return entry.second.expired(); });
  std::vector<std::shared_ptr<const store::Layer>> layers;
  std::vector<Digest> absent;
  for (const Digest& digest : document.layers) {
    layers.push_back(loaded_[digest].lock());
    if (!layers.back() && std::find(absent.begin(), absent.end(), digest) == absent.end()) absent.push_back(digest);
  }
  const auto loaded = TRY(layers_.load_all(absent));
  for (const auto& layer : loaded) loaded_[layer->digest()] = layer;
  bool has_escapes = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i]) layers[i] = loaded_[document.layers[i]].lock();
    has_escapes = has_escapes || layers[i]->view().has_escapes();
  }
  // Without escapes the two views are the same tree, with the same cached pages.
  const bool escape = has_escapes && view != View::plain;
  return tree::EnvTree::create(env, escape ? XattrView::overlay : XattrView::plain, std::move(layers), *slots_,
                               view == View::record ? tree::EnvTree::Sharing::none : tree::EnvTree::Sharing::layers);
}

Attachment Attachments::add_owners(State& state, Shown& shown, const std::string& name, const Owners& owners) {
  shown.owners.insert(owners.begin(), owners.end());
  shown.last_used = ++state.clock;
  return {shown.mount->path / name, shown.tree->has_xattrs()};
}

Result<void> Attachments::restore(std::unique_ptr<AttachLog> log) {
  for (const AttachLog::Shown& known : log->shown()) {
    Owners owners;
    for (const auto& [owner, holder] : known.owners) owners.insert(owner);
    const auto shown = show(known.env, known.view, owners);
    if (shown) continue;
    if (shown.error().code != ErrorCode::not_found && shown.error().code != ErrorCode::corrupt) {
      return tl::unexpected(shown.error().within("attach again what was attached"));
    }
    dsec::log(LogLevel::error, "not_attached_again", {{"env", known.env.hex()}, {"reason", shown.error().message}});
  }
  log_ = std::move(log);
  return {};
}

Result<Attachment> Attachments::attach(const Digest& env, View view, const std::string& owner,
                                       const std::optional<LeaseHolder>& holder) {
  auto shown = show(env, view, {owner});
  if (shown && log_) log_->attached(env, view, owner, holder);
  return shown;
}

Result<Attachment> Attachments::show(const Digest& env, View view, const Owners& owners) {
  const auto find_shown = [&](State& state) -> std::map<std::string, Shown>::iterator {
    auto found = state.shown.find(name_of(env, view));
    if (found != state.shown.end() || view != View::overlay) return found;
    found = state.shown.find(name_of(env, View::plain));  // shown once when both views are the same
    const bool same = found != state.shown.end() &&
                      std::none_of(found->second.tree->layers().begin(), found->second.tree->layers().end(),
                                   [](const auto& layer) { return layer->view().has_escapes(); });
    return same ? found : state.shown.end();
  };
  {
    auto state = state_.lock();
    if (const auto found = find_shown(*state); found != state->shown.end()) {
      return add_owners(*state, found->second, found->first, owners);
    }
  }
  const std::lock_guard loading(loading_);
  {
    auto state = state_.lock();
    if (const auto found = find_shown(*state); found != state->shown.end()) {
      return add_owners(*state, found->second, found->first, owners);
    }
  }
  auto tree = TRY(load(env, view));
  const std::string name = name_of(env, view_of(*tree));
  MountedNames& mount = tree->has_xattrs() ? with_xattrs_ : plain_;
  mount.names->attach(name, tree);
  plain_.names->objects()->attach(env, tree->layers());
  NamesInMounts dropped;
  auto state = state_.lock();
  Shown& shown = state->shown[name];
  shown.tree = std::move(tree);
  shown.mount = &mount;
  const Attachment attachment = add_owners(*state, shown, name, owners);
  drop_idle(*state, dropped);
  state.unlock();
  hide(dropped);
  for (const auto& [where, gone] : dropped) {
    if (const auto gone_env = env_of(gone); gone_env && log_) log_->dropped(*gone_env);
  }
  log(LogLevel::info, "attached", {{"env", env.hex()}, {"path", attachment.path.native()}});
  return attachment;
}

// What is out of the table already.
void Attachments::hide(const NamesInMounts& dropped) {
  for (const auto& [where, name] : dropped) {
    where->names->detach(name);
    where->session->forget_root_entry(name);
    if (const auto env = env_of(name)) drop_objects(*env);
  }
}

void Attachments::drop_idle(State& state, NamesInMounts& dropped) {
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

std::vector<Digest> Attachments::detach(const std::string& owner) {
  std::set<Digest> used;
  std::set<Digest> left;
  NamesInMounts dropped;
  std::unique_lock<std::mutex> loading(loading_, std::defer_lock);
  if (owns_record(owner)) loading.lock();  // who attaches it next finds it wholly gone
  {
    auto state = state_.lock();
    for (auto it = state->shown.begin(); it != state->shown.end();) {
      Shown& shown = it->second;
      const bool was_owner = shown.owners.erase(owner) > 0;
      if (was_owner) left.insert(shown.tree->digest());
      if (!shown.owners.empty()) used.insert(shown.tree->digest());
      const bool is_over = was_owner && shown.owners.empty() && view_of(*shown.tree) == View::record;
      if (is_over) dropped.emplace_back(shown.mount, it->first);
      it = is_over ? state->shown.erase(it) : std::next(it);
    }
    if (used.empty()) state->idle_since = std::chrono::steady_clock::now();
  }
  if (log_) log_->detached(owner);
  hide(dropped);
  std::vector<Digest> unused;
  std::set_difference(left.begin(), left.end(), used.begin(), used.end(), std::back_inserter(unused));
  return unused;
}

bool Attachments::owns_record(const std::string& owner) {
  auto state = state_.lock();
  return std::any_of(state->shown.begin(), state->shown.end(), [&](const auto& entry) {
    return view_of(*entry.second.tree) == View::record && entry.second.owners.count(owner) > 0;
  });
}

bool Attachments::is_owned(const Digest& env) {
  auto state = state_.lock();
  return std::any_of(state->shown.begin(), state->shown.end(), [&](const auto& entry) {
    return entry.second.tree->digest() == env && !entry.second.owners.empty();
  });
}

Result<std::vector<std::shared_ptr<const store::Layer>>> Attachments::layers(const Digest& env) {
  return TRY(shown_tree(env))->layers();
}

Attachments::NamesInMounts Attachments::shown_for(const Digest& env, Readers readers) {
  NamesInMounts found;
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) {
    const bool is_record = view_of(*shown.tree) == View::record;
    if (shown.tree->digest() == env && is_record == (readers == Readers::of_record)) {
      found.emplace_back(shown.mount, name);
    }
  }
  return found;
}

void Attachments::observe(const Digest& env, Readers readers, const std::shared_ptr<tree::ReadObserver>& observer) {
  for (const auto& [mount, name] : shown_for(env, readers)) mount->names->observe(name, observer);
  if (readers == Readers::of_record) return;
  if (const auto objects = plain_.names->objects()->observers(env)) objects->add(observer);
}

void Attachments::unobserve(const Digest& env, Readers readers, const std::shared_ptr<tree::ReadObserver>& observer) {
  for (const auto& [mount, name] : shown_for(env, readers)) mount->names->unobserve(name, observer);
  if (readers == Readers::of_record) return;
  if (const auto objects = plain_.names->objects()->observers(env)) objects->remove(observer);
}

Result<std::shared_ptr<const tree::EnvTree>> Attachments::shown_tree(const Digest& env) {
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) {
    if (shown.tree->digest() == env) return shown.tree;
  }
  return fail(ErrorCode::not_found, "environment {} is not attached", env.hex());
}

// Unless it is shown in its other view.
void Attachments::drop_objects(const Digest& env) {
  if (shown_tree(env)) return;
  roots_.drop(env);
  plain_.names->objects()->detach(env);
}

Result<std::shared_ptr<const Fd>> Attachments::object_root(const Digest& env) {
  return roots_.root(*TRY(shown_tree(env)));
}

std::string Attachments::object_mode() const {
  const auto verdict = roots_.verdict();
  if (!verdict) return {};
  return *verdict ? "yes" : verdict->error().message;
}

Result<Attachments::Usage> Attachments::usage(const Digest& env) {
  std::shared_ptr<const tree::EnvTree> tree;
  const tree::Namespace* names = nullptr;
  std::vector<std::shared_ptr<const tree::ReadMeter>> meters;
  {
    auto state = state_.lock();
    for (const auto& [name, shown] : state->shown) {
      if (shown.tree->digest() != env) continue;
      tree = shown.tree;
      names = shown.mount->names.get();
      meters.push_back(names->private_meter(name));
    }
  }
  if (!tree) return fail(ErrorCode::not_found, "environment {} is not attached", env.hex());
  Usage usage;
  std::set<Digest> counted;
  for (const auto& layer : tree->layers()) {
    if (counted.insert(layer->digest()).second) meters.push_back(names->meter(layer->digest()));
  }
  meters.push_back(plain_.names->objects()->meter(env));
  for (const auto& meter : meters) {
    if (!meter) continue;
    usage.store_bytes += meter->store_bytes.get();
    usage.read_bytes += meter->read_bytes.get();
    usage.reads += meter->reads.get();
  }
  return usage;
}

std::vector<Attachments::Seen> Attachments::seen() {
  std::vector<Seen> all;
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) {
    all.push_back({shown.tree, shown.mount->path / name, {shown.owners.begin(), shown.owners.end()}, shown.mount});
  }
  return all;
}

std::vector<std::string> Attachments::owners() {
  std::vector<std::string> all;
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) all.insert(all.end(), shown.owners.begin(), shown.owners.end());
  return all;
}

Json Attachments::describe() {
  constexpr std::size_t kMaxBytes = 600 << 10;  // of a message of 1 MiB
  constexpr std::size_t kEntryBytes = 200;      // without its path and owners
  constexpr std::size_t kOwnerBytes = 16;       // around its name
  Json list = Json::array();
  std::size_t left_out = 0;
  std::size_t bytes = 0;
  auto state = state_.lock();
  for (const bool in_use : {true, false}) {
    for (const auto& [name, shown] : state->shown) {
      if (shown.owners.empty() == in_use) continue;
      const std::string path = (shown.mount->path / name).native();
      bytes += kEntryBytes + path.size();
      if (bytes > kMaxBytes) {
        ++left_out;
        continue;
      }
      std::vector<std::string> owners;
      for (const std::string& owner : shown.owners) {
        bytes += kOwnerBytes + owner.size();
        if (bytes > kMaxBytes) break;
        owners.push_back(owner);
      }
      list.push_back({{"env", shown.tree->digest().hex()},
                      {"path", path},
                      {"layers", shown.tree->layers().size()},
                      {"has_xattrs", shown.tree->has_xattrs()},
                      {"owners", owners},
                      {"owners_left_out", shown.owners.size() - owners.size()}});
    }
  }
  return {{"attached", std::move(list)}, {"attached_left_out", left_out}};
}

std::chrono::milliseconds Attachments::idle_for() {
  auto state = state_.lock();
  for (const auto& [name, shown] : state->shown) {
    if (!shown.owners.empty()) return std::chrono::milliseconds(0);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - state->idle_since);
}

}  // namespace dsec::daemon
