// SPDX-License-Identifier: Apache-2.0
// Names for nodes, for people.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/guarded.h"
#include "daemon/attachments.h"
#include "tree/path_index.h"

namespace dsec::daemon {

// Makes an index of a layer when it is first asked for one of its nodes, and keeps the kMaxIndexes it was asked for
// last: memory that is spent only while somebody looks. Thread-safe.
class PathFinder {
 public:
  static constexpr std::size_t kMaxIndexes = 8;
  static constexpr std::size_t kMaxPathBytes = 1024;  // of a longer path the end is given, after "..."

  explicit PathFinder(Attachments& attachments) : attachments_(attachments) {}

  struct Place {
    std::optional<Digest> env;    // one that shows it
    std::optional<Digest> layer;  // none for objects
    std::string path;             // in the layer; ".objects/0123..." for an object; empty when it cannot be told
  };
  Place find(tree::NodeId node);
  // Whether a node may have been asked for by a reader of an environment: one of its layers has it.
  bool concerns(tree::NodeId node, const Digest& env);
  void forget_all();

 private:
  using Index = std::shared_ptr<const tree::PathIndex>;
  Index index_of(const std::shared_ptr<const store::Layer>& layer);

  Attachments& attachments_;
  struct Known {
    Digest layer;
    Index index;  // null: there is none
  };
  Guarded<std::list<Known>> known_;  // the last one asked for first
};

}  // namespace dsec::daemon
