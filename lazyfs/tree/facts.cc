// SPDX-License-Identifier: Apache-2.0
#include "tree/facts.h"

#include <cerrno>

#include "tree/content.h"
#include "tree/namespace.h"
#include "tree/objects.h"

namespace dsec::tree {

using format::FileType;
using format::InodeView;
using format::MapEntry;

Result<std::vector<MapEntry>> ContentReader::chunks(const store::Layer& layer, const Digest& object, std::uint64_t size,
                                                    store::Deadline deadline, Counter& fetched) {
  const format::ChunkLocation own = TRY(layer.map().find(object));
  std::vector<MapEntry> chunks{{object, own}};
  if (own.plain_bytes == size) return chunks;
  const Object opened = TRY(open_sized(layer, object, size, deadline, fetched));
  if (opened.whole) return chunks;
  chunks.clear();
  for (const format::RecipePart& part : opened.recipe->parts) {
    if (!part.is_hole()) chunks.push_back({part.chunk, TRY(layer.map().find(part.chunk))});
  }
  return chunks;
}

Result<NodeFacts> ObjectTable::facts(NodeId object, store::Deadline deadline) {
  if (!object.is_object()) return fail_sys(ENODATA, "a directory of objects");
  const auto known = TRY(find(object, deadline));
  Counter fetched;
  NodeFacts facts;
  facts.layer = known->layer->digest();
  facts.size = known->size;
  facts.object = known->digest;
  facts.chunks = TRY(reader_->chunks(*known->layer, known->digest, known->size, deadline, fetched));
  for (const auto& meter : known->meters) meter->store_bytes.add(fetched.get());
  return facts;
}

Result<Located> Namespace::locate(NodeId node) const {
  if (node == kRootNode || is_of_objects(node)) return fail_sys(ESTALE, "a node of no environment");
  const Found found = TRY(find(node));
  return Located{found.target.env, found.place.layer, found.place.nid};
}

Result<NodeFacts> Namespace::facts(NodeId node, store::Deadline deadline) const {
  if (is_of_objects(node)) return objects_->facts(node, deadline);
  if (node == kRootNode) return fail_sys(ENODATA, "the root of all environments");
  const Found found = TRY(find(node));
  const store::Layer& layer = *found.target.env->layers()[found.place.layer];
  const InodeView inode = TRY(layer.view().inode(found.place.nid));
  NodeFacts facts;
  facts.env = found.target.env->digest();
  facts.layer = layer.digest();
  facts.type = inode.type;
  facts.size = inode.size;
  if (inode.type != FileType::regular || inode.size == 0) return facts;
  facts.object = TRY(layer.view().object(inode));
  facts.chunks = TRY(reader_->chunks(layer, *facts.object, inode.size, deadline, found.target.meter->store_bytes));
  return facts;
}

Residence residence(const NodeFacts& facts, const Whereabouts& where) {
  Residence found;
  for (const MapEntry& chunk : facts.chunks) {
    Residence::Share& share = found.shares[static_cast<std::size_t>(where(chunk))];
    ++share.chunks;
    share.stored_bytes += chunk.location.stored_bytes;
  }
  return found;
}

}  // namespace dsec::tree
