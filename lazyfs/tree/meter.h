// SPDX-License-Identifier: Apache-2.0
// What reading has cost.
#pragma once

#include "base/metrics.h"
#include "store/read_cost.h"

namespace dsec::tree {

// Of one layer since it was first attached, or of one environment's objects since it was attached.
struct ReadMeter {
  Counter store_bytes;  // read from the store
  Counter read_bytes;   // asked for by readers
  Counter reads;
  // Chunks and recipes that reads were served from, decoded, by where they were.
  Counter from_memory_bytes;
  Counter from_disk_bytes;
  Counter from_store_bytes;
  Counter touched_bytes;  // stored size of those that no reader of this lazyfsd had been given before

  // All but the first three.
  void add(const store::ReadCost& cost) {
    from_memory_bytes.add(cost.of(store::Origin::memory).bytes);
    from_disk_bytes.add(cost.of(store::Origin::cache).bytes);
    from_store_bytes.add(cost.of(store::Origin::store).bytes);
    touched_bytes.add(cost.touched_bytes);
  }
};

}  // namespace dsec::tree
