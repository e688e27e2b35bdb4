// SPDX-License-Identifier: Apache-2.0
#include "tree/objects.h"

#include <cerrno>
#include <set>

#include "tree/object_index.h"

namespace dsec::tree {

namespace {

constexpr std::size_t kPrefixDigits = 2;

tl::unexpected<Error> absent() { return tl::unexpected(Error{ErrorCode::not_found, {}, ENOENT}); }

// Failures of the store are not answers about names.
tl::unexpected<Error> unreadable(Error error) {
  if (error.code != ErrorCode::corrupt) error.code = ErrorCode::io;
  error.sys = EIO;
  return tl::unexpected(std::move(error));
}

tl::unexpected<Error> damaged(std::string why) {
  return tl::unexpected(Error{ErrorCode::corrupt, std::move(why), EIO});
}

Attributes directory(NodeId node) {
  Attributes attributes;
  attributes.id = node;
  attributes.type = format::FileType::directory;
  attributes.mode = 0755;
  attributes.nlink = 2;
  return attributes;
}

// "ab" as a byte.
Result<Attributes> lookup_prefix(std::string_view name) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  if (name.size() != kPrefixDigits) return absent();
  const std::size_t high = kDigits.find(name[0]);
  const std::size_t low = kDigits.find(name[1]);
  if (high == std::string_view::npos || low == std::string_view::npos) return absent();
  return directory(object_directory(static_cast<std::uint8_t>(high << 4 | low)));
}

// The digest that a directory and a name in it stand for.
Result<Digest> digest_of(NodeId parent, std::string_view name) {
  const auto digest = Digest::parse(fmt::format("{:02x}{}", parent.value() & 0xff, name));
  if (!digest) return absent();
  return *digest;
}

}  // namespace

void ObjectTable::change(const std::function<void(Envs&)>& edit) {
  auto state = state_.lock();
  auto envs = std::make_shared<Envs>(*state->envs);
  edit(*envs);
  state->envs = std::move(envs);
  state->known.clear();  // what is known may be of a layer that is gone, or not of all that are there
  state->order.clear();
}

void ObjectTable::attach(const Digest& env, const Layers& layers) {
  if (meter(env)) return;
  change([&](Envs& envs) {
    envs.emplace(env, Env{layers, std::make_shared<ReadMeter>(), std::make_shared<ReadObservers>()});
  });
}

void ObjectTable::detach(const Digest& env) {
  change([&](Envs& envs) { envs.erase(env); });
}

std::shared_ptr<const ReadMeter> ObjectTable::meter(const Digest& env) const {
  auto state = state_.lock();
  const auto found = state->envs->find(env);
  return found == state->envs->end() ? nullptr : found->second.meter;
}

std::shared_ptr<ReadObservers> ObjectTable::observers(const Digest& env) const {
  auto state = state_.lock();
  const auto found = state->envs->find(env);
  return found == state->envs->end() ? nullptr : found->second.observers;
}

// All maps are searched, each once: whoever has the object pays for reading it, and two objects must not be taken for
// one another. Without a size yet.
Result<ObjectTable::Known> ObjectTable::search(const Envs& envs, NodeId object) {
  std::map<const store::Layer*, bool> searched;
  Known known;
  const auto has_it = [&](const std::shared_ptr<const store::Layer>& layer) -> Result<bool> {
    const auto [place, is_new] = searched.emplace(layer.get(), false);
    if (!is_new) return place->second;
    const ObjectMatch match = find_object(layer->map(), object);
    if (!match.digest) return false;
    if (match.ambiguous || (known.layer && known.digest != *match.digest)) {
      return damaged(fmt::format("two objects have the first 62 bits of {}", match.digest->hex()));
    }
    if (!known.layer) known.layer = layer;
    known.digest = *match.digest;
    place->second = true;
    return true;
  };
  for (const auto& [digest, env] : envs) {
    bool has = false;
    for (const auto& layer : env.layers) has = TRY(has_it(layer)) || has;
    if (!has) continue;
    known.meters.push_back(env.meter);
    known.watchers.push_back(env.observers);
  }
  if (!known.layer) return damaged(fmt::format("no layer has an object {:016x}", object.value() << 2));
  return known;
}

// The same, where a map that an object should be in may be out of date. Only maps that lack something of their own
// layer are read again: whoever asks for what does not exist must not make the store busy.
Result<ObjectTable::Known> ObjectTable::search_renewed(const Envs& envs, NodeId object) {
  auto known = search(envs, object);
  if (known) return known;
  std::set<const store::Layer*> seen;
  for (const auto& [digest, env] : envs) {
    for (const auto& layer : env.layers) {
      if (!seen.insert(layer.get()).second) continue;
      const format::LocationMapView& map = layer->map();
      if (!layer->map_has_objects()) [[maybe_unused]]
        const auto logged = layer->refresh_map(map);
    }
  }
  return search(envs, object);
}

void ObjectTable::remember(const std::shared_ptr<const Envs>& envs, NodeId object,
                           const std::shared_ptr<Known>& known) {
  auto state = state_.lock();
  if (state->envs != envs || !state->known.emplace(object, known).second) return;
  state->order.push_back(object);
  if (state->order.size() <= kMaxKnown) return;
  state->known.erase(state->order.front());
  state->order.pop_front();
}

Result<std::shared_ptr<ObjectTable::Known>> ObjectTable::find(NodeId object, store::Deadline deadline) {
  std::shared_ptr<const Envs> envs;
  {
    auto state = state_.lock();
    const auto found = state->known.find(object);
    if (found != state->known.end()) return found->second;
    envs = state->envs;
  }
  Known known = TRY(search_renewed(*envs, object));
  Counter fetched;
  auto size = reader_->size(*known.layer, known.digest, deadline, fetched, &known);
  for (const auto& meter : known.meters) meter->store_bytes.add(fetched.get());
  if (!size) return unreadable(std::move(size).error());
  known.size = *size;
  auto shared = std::make_shared<Known>(std::move(known));
  remember(envs, object, shared);
  return shared;
}

Result<Attributes> ObjectTable::lookup(NodeId parent, std::string_view name, store::Deadline deadline) {
  if (parent == kObjectsNode) return lookup_prefix(name);
  const Digest digest = TRY(digest_of(parent, name));
  const NodeId node = object_node(digest);
  Attributes attributes = TRY(this->attributes(node, deadline));
  if (attributes.generation != object_generation(digest)) {
    return damaged(fmt::format("no layer has object {}, but one with the same first 62 bits", digest.hex()));
  }
  return attributes;
}

Result<Attributes> ObjectTable::attributes(NodeId node, store::Deadline deadline) {
  if (!node.is_object()) return directory(node);
  auto known = find(node, deadline);
  if (!known) return tl::unexpected(std::move(known).error());
  Attributes attributes;
  attributes.id = node;
  attributes.generation = object_generation((*known)->digest);
  attributes.mode = 0444;
  attributes.size = (*known)->size;
  return attributes;
}

Result<std::vector<Slice>> ObjectTable::read(NodeId object, std::uint64_t offset, std::size_t length,
                                             store::Deadline deadline) {
  const auto known = TRY(find(object, deadline));
  Counter fetched;
  const store::CostScope scope;
  auto slices =
      reader_->read(*known->layer, known->digest, known->size, offset, length, deadline, fetched, known.get());
  std::uint64_t bytes = 0;
  if (slices) {
    for (const Slice& slice : *slices) bytes += slice.length;
  }
  for (const auto& meter : known->meters) {
    meter->store_bytes.add(fetched.get());
    meter->read_bytes.add(bytes);
    meter->reads.add();
    meter->add(scope.cost());
  }
  return slices;
}

Result<std::uint64_t> ObjectTable::seek(NodeId object, std::uint64_t offset, ContentReader::Seek what,
                                        store::Deadline deadline) {
  const auto known = TRY(find(object, deadline));
  Counter fetched;
  auto place = reader_->seek(*known->layer, known->digest, known->size, offset, what, deadline, fetched, known.get());
  for (const auto& meter : known->meters) meter->store_bytes.add(fetched.get());
  return place;
}

}  // namespace dsec::tree
