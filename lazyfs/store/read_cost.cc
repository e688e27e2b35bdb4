// SPDX-License-Identifier: Apache-2.0
#include "store/read_cost.h"

namespace dsec::store {

namespace {

thread_local CostScope* innermost = nullptr;
thread_local ReadCost* innermost_cost = nullptr;
thread_local std::atomic<Stage>* board = nullptr;

}  // namespace

const char* to_string(Stage stage) {
  switch (stage) {
    case Stage::working: return "working";
    case Stage::merge: return "merge";
    case Stage::disk: return "disk";
    case Stage::store: return "store";
    case Stage::retry: return "retry";
  }
  return "working";
}

const char* to_string(Origin origin) {
  switch (origin) {
    case Origin::memory: return "memory";
    case Origin::cache: return "disk";
    case Origin::store: return "store";
  }
  return "store";
}

ReadCost& ReadCost::operator+=(const ReadCost& other) {
  for (std::size_t i = 0; i < kOrigins; ++i) {
    shares[i].chunks += other.shares[i].chunks;
    shares[i].bytes += other.shares[i].bytes;
  }
  store_bytes += other.store_bytes;
  touched_bytes += other.touched_bytes;
  return *this;
}

CostScope::CostScope() : outer_(innermost) {
  innermost = this;
  innermost_cost = &cost_;
}

CostScope::~CostScope() {
  innermost = outer_;
  innermost_cost = outer_ == nullptr ? nullptr : &outer_->cost_;
  if (outer_ != nullptr) outer_->cost_ += cost_;
}

ReadCost* CostScope::current() { return innermost_cost; }

StageBoard::StageBoard(std::atomic<Stage>& shown) : outer_(board) { board = &shown; }
StageBoard::~StageBoard() { board = outer_; }

StageScope::StageScope(Stage stage) {
  if (board != nullptr) before_ = board->exchange(stage, std::memory_order_relaxed);
}
StageScope::~StageScope() {
  if (board != nullptr) board->store(before_, std::memory_order_relaxed);
}

}  // namespace dsec::store
