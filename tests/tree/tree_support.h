// SPDX-License-Identifier: Apache-2.0
// Environments for tests, from the text form of layers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/layer_tree.h"
#include "store/layer_cache.h"
#include "store/sources.h"
#include "store/store_support.h"
#include "tree/env_tree.h"
#include "tree/namespace.h"
#include "tree/slots.h"

namespace dsec::tree::test {

using dsec::test::bytes_of;
using dsec::test::digest_of;
using dsec::test::later;
using dsec::test::new_store;
using dsec::test::noise;
using dsec::test::TempDir;
using format::FileType;
using format::Inode;
using format::InodeId;
using format::LayerTree;
using Layers = std::vector<std::shared_ptr<const store::Layer>>;

// Makes layers and environments in a store of its own; contents are in memory.
class World {
 public:
  World();

  // A layer of the lines of a dump (format/dump.h) without the root's line. `content=WORD` on a regular file gives it
  // that content; without it the file is empty.
  std::shared_ptr<const store::Layer> layer(std::string_view lines);
  // The layer of a tree. Objects that are no known content get a place in the map, but cannot be read.
  std::shared_ptr<const store::Layer> layer(const format::LayerTree& tree);
  // Makes content known and returns the digest of its object: cut into parts of at most `part` bytes.
  Digest content(ByteView bytes, std::size_t part = format::kChunkMaxBytes);

  // An environment of these layers, bottom to top. The name is only a name: it makes its digest.
  std::shared_ptr<const EnvTree> env(std::string_view name, Layers layers,
                                     format::XattrView view = format::XattrView::plain);

  // A namespace that reads the contents of this world. Ends with it.
  std::unique_ptr<Namespace> names();
  // The source of the contents, for who wants to put something around it.
  [[nodiscard]] std::shared_ptr<store::ChunkSource> source() const { return source_; }

  SlotTable& slots() { return *slots_; }
  void use_slots(std::unique_ptr<SlotTable> slots) { slots_ = std::move(slots); }
  [[nodiscard]] const TempDir& dir() const { return dir_; }
  [[nodiscard]] const store::Store& store() const { return store_; }

 private:
  TempDir dir_;
  store::Store store_;
  store::LayerCache cache_;
  std::unique_ptr<SlotTable> slots_;
  std::shared_ptr<store::MemorySource> source_;
  std::vector<format::MapEntry> entries_;
};

// What Namespace::read() gives, in one piece and with holes as zeros; its errors.
Result<Bytes> read_bytes(const Namespace& names, NodeId file, std::uint64_t offset, std::size_t length);

}  // namespace dsec::tree::test
