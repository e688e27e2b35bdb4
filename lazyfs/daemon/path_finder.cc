// SPDX-License-Identifier: Apache-2.0
#include "daemon/path_finder.h"

#include <algorithm>

#include "tree/object_index.h"

namespace dsec::daemon {

namespace {

// The digits of an object's digest that its node has.
std::string name_of_object(tree::NodeId node) {
  return fmt::format(".objects/{:015x}...", (node.value() & (tree::NodeId::kObjectBit - 1)) >> 2);
}

std::string cut(std::string path) {
  if (path.size() > PathFinder::kMaxPathBytes) path.replace(0, path.size() - PathFinder::kMaxPathBytes, "...");
  return path;
}

}  // namespace

PathFinder::Index PathFinder::index_of(const std::shared_ptr<const store::Layer>& layer) {
  {
    auto known = known_.lock();
    const auto found =
        std::find_if(known->begin(), known->end(), [&](const Known& one) { return one.layer == layer->digest(); });
    if (found != known->end()) {
      known->splice(known->begin(), *known, found);
      return found->index;
    }
  }
  Index index;
  if (auto built = tree::PathIndex::build(layer)) index = std::make_shared<const tree::PathIndex>(std::move(*built));
  auto known = known_.lock();
  known->push_front({layer->digest(), index});
  if (known->size() > kMaxIndexes) known->pop_back();
  return index;
}

PathFinder::Place PathFinder::find(tree::NodeId node) {
  if (node == tree::kRootNode) return {{}, {}, "/"};
  if (node.is_object()) return {{}, {}, name_of_object(node)};
  for (const MountedNames* mount : attachments_.mounts()) {
    const auto located = mount->names->locate(node);
    if (!located) continue;
    const auto& layer = located->env->layers()[located->layer];
    const Index index = index_of(layer);
    return {located->env->digest(), layer->digest(), index ? cut(index->path(located->nid)) : std::string()};
  }
  return {};
}

bool PathFinder::concerns(tree::NodeId node, const Digest& env) {
  const auto layers = attachments_.layers(env);
  if (!layers) return false;
  if (node.is_object()) {
    return std::any_of(layers->begin(), layers->end(),
                       [&](const auto& layer) { return tree::find_object(layer->map(), node).digest.has_value(); });
  }
  for (const MountedNames* mount : attachments_.mounts()) {
    const auto located = mount->names->locate(node);
    if (!located) continue;
    const Digest& layer = located->env->layers()[located->layer]->digest();
    return std::any_of(layers->begin(), layers->end(), [&](const auto& one) { return one->digest() == layer; });
  }
  return false;
}

void PathFinder::forget_all() { known_.lock()->clear(); }

}  // namespace dsec::daemon
