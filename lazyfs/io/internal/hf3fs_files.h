// SPDX-License-Identifier: Apache-2.0
// Descriptors that the 3FS library knows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/guarded.h"
#include "io/hf3fs_api.h"

namespace dsec::io {

// A duplicate of a descriptor, registered from its making to its end. Whoever has a request on it in flight shares it.
class Hf3fsFile {
 public:
  // The errno of the duplicate or of the registration as an error.
  static Result<std::shared_ptr<const Hf3fsFile>> make(const std::shared_ptr<const Hf3fsApi>& api, const Fd& fd,
                                                       std::uint64_t number);
  // Of what is registered already: make() is for everybody else.
  Hf3fsFile(std::shared_ptr<const Hf3fsApi> api, Fd own, std::uint64_t number);
  ~Hf3fsFile();
  Hf3fsFile(const Hf3fsFile&) = delete;
  Hf3fsFile& operator=(const Hf3fsFile&) = delete;

  [[nodiscard]] int fd() const { return own_.get(); }
  [[nodiscard]] std::uint64_t number() const { return number_; }  // differs for each file of an engine

 private:
  std::shared_ptr<const Hf3fsApi> api_;
  Fd own_;
  std::uint64_t number_;
};

// The registered duplicates by the callers' descriptors. Thread-safe.
class Hf3fsFiles {
 public:
  Hf3fsFiles(std::shared_ptr<const Hf3fsApi> api, std::size_t limit) : api_(std::move(api)), limit_(limit) {}

  // The one of `fd`, registered when it is new. At `limit` the least recently used is given up.
  Result<std::shared_ptr<const Hf3fsFile>> get(const std::shared_ptr<const Fd>& fd);
  // Gives that of `fd` up, so that the next get() registers anew.
  void forget(const std::shared_ptr<const Fd>& fd);

 private:
  struct Entry {
    std::weak_ptr<const Fd> owner;
    std::shared_ptr<const Hf3fsFile> file;
    std::uint64_t used = 0;
  };
  struct State {
    std::map<const Fd*, Entry> entries;  // an address may come again for another Fd: `owner` decides
    std::uint64_t clock = 0;
  };
  using Dropped = std::vector<std::shared_ptr<const Hf3fsFile>>;
  static void drop_orphans(State& state, Dropped& dropped);
  void make_room(State& state, Dropped& dropped) const;

  std::shared_ptr<const Hf3fsApi> api_;
  std::size_t limit_;
  Guarded<State> state_;
};

}  // namespace dsec::io
