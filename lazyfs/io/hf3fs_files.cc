// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "io/internal/hf3fs_files.h"

namespace dsec::io {

namespace {

constexpr std::uint64_t kSweepEvery = 64;  // calls of get() between two looks for descriptors that are gone

}  // namespace

Hf3fsFile::Hf3fsFile(std::shared_ptr<const Hf3fsApi> api, Fd own, std::uint64_t number)
    : api_(std::move(api)), own_(std::move(own)), number_(number) {}

Hf3fsFile::~Hf3fsFile() { api_->dereg_fd(own_.get()); }

Result<std::shared_ptr<const Hf3fsFile>> Hf3fsFile::make(const std::shared_ptr<const Hf3fsApi>& api, const Fd& fd,
                                                         std::uint64_t number) {
  Fd own(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return fail_sys(errno, "duplicate a descriptor for 3FS");
  if (const int error = api->reg_fd(own.get(), 0); error > 0) return fail_sys(error, "register a file with 3FS");
  return std::make_shared<const Hf3fsFile>(api, std::move(own), number);
}

Result<std::shared_ptr<const Hf3fsFile>> Hf3fsFiles::get(const std::shared_ptr<const Fd>& fd) {
  Dropped dropped;  // closed without the lock
  std::uint64_t number = 0;
  {
    auto state = state_.lock();
    number = ++state->clock;
    if (number % kSweepEvery == 0) drop_orphans(*state, dropped);
    const auto found = state->entries.find(fd.get());
    if (found != state->entries.end() && found->second.owner.lock() == fd) {
      found->second.used = number;
      return found->second.file;
    }
  }
  auto file = TRY(Hf3fsFile::make(api_, *fd, number));
  auto state = state_.lock();
  drop_orphans(*state, dropped);
  const auto [place, is_new] = state->entries.try_emplace(fd.get());
  if (!is_new) {  // another thread was as quick
    dropped.push_back(std::move(file));
    return place->second.file;
  }
  place->second = {fd, file, number};
  make_room(*state, dropped);
  return file;
}

void Hf3fsFiles::forget(const std::shared_ptr<const Fd>& fd) {
  std::shared_ptr<const Hf3fsFile> dropped;
  auto state = state_.lock();
  const auto found = state->entries.find(fd.get());
  if (found == state->entries.end()) return;
  dropped = std::move(found->second.file);
  state->entries.erase(found);
  state.unlock();
}

void Hf3fsFiles::drop_orphans(State& state, Dropped& dropped) {
  for (auto entry = state.entries.begin(); entry != state.entries.end();) {
    if (entry->second.owner.expired()) {
      dropped.push_back(std::move(entry->second.file));
      entry = state.entries.erase(entry);
    } else {
      ++entry;
    }
  }
}

void Hf3fsFiles::make_room(State& state, Dropped& dropped) const {
  if (state.entries.size() <= limit_) return;
  const auto oldest = std::min_element(state.entries.begin(), state.entries.end(),
                                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  dropped.push_back(std::move(oldest->second.file));
  state.entries.erase(oldest);
}

}  // namespace dsec::io
