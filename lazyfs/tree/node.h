// SPDX-License-Identifier: Apache-2.0
// Names of nodes: 64-bit numbers that mean the same bytes and attributes for as long as the mount lives.
#pragma once

#include <cstdint>

#include "base/digest.h"
#include "format/layer_tree.h"

namespace dsec::tree {

// A slot says in which context an inode of a layer is seen, the nid says which inode. 0 is no node; 1 is the root of
// the mount (slot 0), as FUSE wants it. The value fits 63 bits, since it is also what stat(2) shows as the inode
// number.
class NodeId {
 public:
  static constexpr int kNidBits = 32;  // layer images have at most 2^31 slots of 32 bytes

  constexpr NodeId() = default;
  constexpr explicit NodeId(std::uint64_t value) : value_(value) {}
  constexpr NodeId(std::uint32_t slot, std::uint64_t nid) : value_(std::uint64_t{slot} << kNidBits | nid) {}

  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }
  [[nodiscard]] constexpr std::uint32_t slot() const { return static_cast<std::uint32_t>(value_ >> kNidBits); }
  [[nodiscard]] constexpr std::uint64_t nid() const { return value_ & ((std::uint64_t{1} << kNidBits) - 1); }
  friend constexpr bool operator==(NodeId, NodeId) = default;

 private:
  std::uint64_t value_ = 0;
};

inline constexpr NodeId kRootNode{1};

// What stat(2) shows.
struct Attributes {
  NodeId id;
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
