// SPDX-License-Identifier: Apache-2.0
// Slots: the upper half of node numbers.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/digest.h"
#include "base/fd.h"
#include "base/guarded.h"
#include "base/result.h"

namespace dsec::tree {

// The context in which an inode of a layer is seen.
struct SlotKey {
  enum class Kind : std::uint8_t {
    layer,   // a file that looks the same in every environment with the layer; shared, with its page cache
    pure,    // a directory that only one layer of the environment has, or a file that looks different in it
    merged,  // a directory that several layers have; named by its uppermost one
  };
  Kind kind = Kind::layer;
  Digest owner;             // of the layer (Kind::layer) or of the environment
  std::uint32_t index = 0;  // Kind::layer: which occurrence of the layer in an environment; else the layer's place
  std::uint32_t view = 0;   // format::XattrView of the environment, + kPrivateView; 0 for Kind::layer
  static constexpr std::uint32_t kPrivateView = 2;  // of trees that share nothing
  friend auto operator<=>(const SlotKey&, const SlotKey&) = default;
};

// Gives each key a number, for ever: numbers are never reused, and with a file behind it the table is the same after a
// restart. 0 is never given. Thread-safe.
class SlotTable {
 public:
  // Without a file: for tests.
  SlotTable() = default;
  // Loads `path` when it exists and appends to it from then on. A last line that was cut short is dropped; any other
  // damage is `corrupt`, since numbers might then name something else.
  static Result<std::unique_ptr<SlotTable>> open(const std::filesystem::path& path);

  // The number of a key, given now if it has none. `no_space` when 2^30 are used up.
  Result<std::uint32_t> number(const SlotKey& key);

 private:
  struct State {
    std::map<SlotKey, std::uint32_t> numbers;
    Fd file;
    std::uint64_t file_bytes = 0;  // of whole lines
  };
  Guarded<State> state_;
};

}  // namespace dsec::tree
