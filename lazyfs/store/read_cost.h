// SPDX-License-Identifier: Apache-2.0
// What the request that a thread works on has cost so far, and what it waits for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "store/chunk_source.h"

namespace dsec::store {

// What a thread is doing for its request. `working` is everything that waits for nobody.
enum class Stage : std::uint8_t { working, merge, disk, store, retry };
const char* to_string(Stage stage);
const char* to_string(Origin origin);
inline constexpr std::size_t kOrigins = 3;

// Chunks and recipes that readers were given. Plain values: of one thread.
struct ReadCost {
  struct Share {
    std::uint64_t chunks = 0;
    std::uint64_t bytes = 0;  // decoded
  };
  std::array<Share, kOrigins> shares;  // by Origin
  std::uint64_t store_bytes = 0;       // read from the store, with what was read beside the chunks
  std::uint64_t touched_bytes = 0;     // stored size of those chunks that no reader had been given before

  [[nodiscard]] const Share& of(Origin origin) const { return shares[static_cast<std::size_t>(origin)]; }
  ReadCost& operator+=(const ReadCost& other);
};

// Collects what chunks cost that this thread fetches while the scope lives. Scopes nest: an inner one counts for the
// outer ones too. Belongs to the thread that made it.
class CostScope {
 public:
  CostScope();
  ~CostScope();
  CostScope(const CostScope&) = delete;
  CostScope& operator=(const CostScope&) = delete;

  [[nodiscard]] const ReadCost& cost() const { return cost_; }
  // Of this thread's innermost scope; null when it has none.
  static ReadCost* current();

 private:
  ReadCost cost_;
  CostScope* outer_;
};

// Where this thread shows its stage, for as long as it lives. `shown` outlives it; others may read it at any time.
class StageBoard {
 public:
  explicit StageBoard(std::atomic<Stage>& shown);
  ~StageBoard();
  StageBoard(const StageBoard&) = delete;
  StageBoard& operator=(const StageBoard&) = delete;

 private:
  std::atomic<Stage>* outer_;
};

// The stage of this thread while the scope lives; the one before comes back. No effect without a board.
class StageScope {
 public:
  explicit StageScope(Stage stage);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  Stage before_ = Stage::working;
};

}  // namespace dsec::store
