// SPDX-License-Identifier: Apache-2.0
// Names of nodes: 64-bit numbers that mean the same bytes and attributes for as long as the mount lives.
#pragma once

#include <cstdint>

#include "base/digest.h"
#include "format/layer_tree.h"

namespace dsec::tree {

// A slot says in which context an inode of a layer is seen, the nid says which inode. 0 is no node; 1 is the root of
// the mount, as FUSE wants it. The value fits 63 bits, since it is also what stat(2) shows as the inode number:
//
//   bits    63  62  61..32                         31..0
//   inode    0   0  slot, never 0                  nid
//   object   0   1  the first 62 bits of the object's digest
//   others   0   0  0                              1: root; 2: the directory of objects; 256 + B: its directory of byte
//   B
class NodeId {
 public:
  static constexpr int kNidBits = 32;   // layer images have at most 2^31 slots of 32 bytes
  static constexpr int kSlotBits = 30;  // what the object bit leaves
  static constexpr int kObjectBits = kNidBits + kSlotBits;
  static constexpr std::uint64_t kObjectBit = std::uint64_t{1} << kObjectBits;

  constexpr NodeId() = default;
  constexpr explicit NodeId(std::uint64_t value) : value_(value) {}
  constexpr NodeId(std::uint32_t slot, std::uint64_t nid) : value_(std::uint64_t{slot} << kNidBits | nid) {}

  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }
  [[nodiscard]] constexpr std::uint32_t slot() const { return static_cast<std::uint32_t>(value_ >> kNidBits); }
  [[nodiscard]] constexpr std::uint64_t nid() const { return value_ & ((std::uint64_t{1} << kNidBits) - 1); }
  [[nodiscard]] constexpr bool is_object() const { return (value_ & kObjectBit) != 0; }
  friend constexpr bool operator==(NodeId, NodeId) = default;

 private:
  std::uint64_t value_ = 0;
};

inline constexpr NodeId kRootNode{1};
inline constexpr NodeId kObjectsNode{2};

// The directory in which the objects are whose digests start with `first_byte`.
constexpr NodeId object_directory(std::uint8_t first_byte) { return NodeId(0, 256u + first_byte); }
constexpr bool is_object_directory(NodeId node) {
  return node.slot() == 0 && node.value() >= 256 && node.value() < 512;
}

// What stat(2) shows.
struct Attributes {
  NodeId id;
  std::uint64_t generation = 0;  // tells inodes with one `id` apart: the kernel fails the older one
  format::FileType type = format::FileType::regular;  // never `whiteout`
  std::uint16_t mode = 0;                             // 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t nlink = 1;
  std::uint64_t size = 0;
  format::Timestamp mtime;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

}  // namespace dsec::tree

template <>
struct std::hash<dsec::tree::NodeId> {
  std::size_t operator()(dsec::tree::NodeId id) const noexcept { return std::hash<std::uint64_t>()(id.value()); }
};
