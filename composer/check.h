// SPDX-License-Identifier: Apache-2.0
// Verifies everything in a store.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/result.h"
#include "store/store.h"

namespace dsec::composer {

struct CheckProblem {
  std::string what;                // "pack", "layer", "map", "env", "ref"
  std::string name;                // digest or ref
  std::string message;             // what is wrong with it
  std::vector<std::string> hurts;  // environments (refs, or digests of those without a ref) that cannot be read whole
};

struct CheckReport {
  std::uint64_t packs = 0;
  std::uint64_t chunks = 0;
  std::uint64_t pack_bytes = 0;
  std::uint64_t layers = 0;
  std::uint64_t envs = 0;
  std::uint64_t refs = 0;
  UnfinishedFiles unfinished;  // no problem: being written, or left behind by a composer that was killed
  std::vector<CheckProblem> problems;
};

// Reads every byte of the store: packs against their names and every chunk against its digest, layer images for digest
// and canonical form, maps against packs and the objects of their layer, environments, refs. Problems are in the
// report; an error is returned only when the store cannot be read at all. `progress` gets a line now and then; may be
// empty.
Result<CheckReport> check_store(const store::Store& store, const std::function<void(const std::string&)>& progress);

}  // namespace dsec::composer
