// SPDX-License-Identifier: Apache-2.0
// The directory of objects: the content of every file of every attached layer, by digest.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/guarded.h"
#include "base/result.h"
#include "store/layer_cache.h"
#include "tree/content.h"
#include "tree/facts.h"
#include "tree/meter.h"
#include "tree/node.h"
#include "tree/read_observers.h"

namespace dsec::tree {

// Shows `ab/<62 hex digits>` for the chunks and recipes of all layers of attached environments: regular files, 0444,
// root's, one link, with the size that their verified content has. For looking up only: the directories seem empty when
// they are read. It keeps no table of objects: a node number has 62 bits of the digest, and the layers' location maps,
// which are sorted by digest, are searched for it. Two objects with the same 62 bits are both `corrupt` from the moment
// on that both are attached. Thread-safe. Calls with a deadline may read from the store. Their failures are `io` or
// `corrupt`, both with EIO, also when no attached layer has the object: who asks for one follows a layer that says it
// is there. `not_found` is for what cannot be a name.
class ObjectTable {
 public:
  explicit ObjectTable(std::unique_ptr<ContentReader> reader) : reader_(std::move(reader)) {}

  using Layers = std::vector<std::shared_ptr<const store::Layer>>;
  // Adds the layers of an environment; once more is no error.
  void attach(const Digest& env, const Layers& layers);
  void detach(const Digest& env);
  // What objects that an attached environment has were read for, by whomever; null when it is not attached.
  [[nodiscard]] std::shared_ptr<const ReadMeter> meter(const Digest& env) const;
  // The observers of the same reads; null when it is not attached.
  [[nodiscard]] std::shared_ptr<ReadObservers> observers(const Digest& env) const;

  // A name in kObjectsNode or in one of its directories.
  Result<Attributes> lookup(NodeId parent, std::string_view name, store::Deadline deadline);
  // Of any node that the table gave.
  Result<Attributes> attributes(NodeId node, store::Deadline deadline);
  Result<std::vector<Slice>> read(NodeId object, std::uint64_t offset, std::size_t length, store::Deadline deadline);
  Result<std::uint64_t> seek(NodeId object, std::uint64_t offset, ContentReader::Seek what, store::Deadline deadline);
  Result<NodeFacts> facts(NodeId object, store::Deadline deadline);

 private:
  static constexpr std::size_t kMaxKnown = 1 << 14;  // objects whose layer and size are remembered

  struct Env {
    Layers layers;
    std::shared_ptr<ReadMeter> meter;
    std::shared_ptr<ReadObservers> observers;
  };
  // What is attached, in one piece that is never changed.
  using Envs = std::map<Digest, Env>;
  // An object, found. What reads it is told to the observers of all environments that have it.
  struct Known final : ReadObserver {
    void used(const Digest& digest_used) override {
      for (const auto& observers : watchers) observers->used(digest_used);
    }
    Digest digest;
    std::shared_ptr<const store::Layer> layer;             // one that has it
    std::vector<std::shared_ptr<ReadMeter>> meters;        // of all environments that have it
    std::vector<std::shared_ptr<ReadObservers>> watchers;  // the same
    std::uint64_t size = 0;
  };
  struct State {
    std::shared_ptr<const Envs> envs = std::make_shared<Envs>();
    std::unordered_map<NodeId, std::shared_ptr<Known>> known;  // as `envs` are
    std::list<NodeId> order;                                   // of `known`, oldest first
  };

  Result<std::shared_ptr<Known>> find(NodeId object, store::Deadline deadline);
  static Result<Known> search(const Envs& envs, NodeId object);
  static Result<Known> search_renewed(const Envs& envs, NodeId object);
  void remember(const std::shared_ptr<const Envs>& envs, NodeId object, const std::shared_ptr<Known>& known);
  void change(const std::function<void(Envs&)>& edit);

  std::unique_ptr<ContentReader> reader_;
  mutable Guarded<State> state_;
};

}  // namespace dsec::tree
