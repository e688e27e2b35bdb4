// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/request.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>

#include "base/log.h"

namespace dsec::fuse {

namespace {

constexpr std::size_t kMaxVectors = 512;  // beyond this a reply is copied together; far below IOV_MAX
constexpr std::size_t kZeroBytes = 1 << 20;
std::array<std::uint8_t, kZeroBytes> zeros;  // never written: costs no memory

Bytes joined(const std::vector<tree::Slice>& slices) {
  Bytes bytes;
  for (const tree::Slice& slice : slices) {
    if (slice.chunk)
      bytes.insert(bytes.end(), slice.view().begin(), slice.view().end());
    else
      bytes.resize(bytes.size() + slice.length);
  }
  return bytes;
}

}  // namespace

void Request::reply_slices(const std::vector<tree::Slice>& slices) {
  fuse_req_t request = take();
  if (request == nullptr) return;
  const bool simple = slices.size() <= kMaxVectors && std::all_of(slices.begin(), slices.end(), [](const auto& slice) {
                        return slice.chunk || slice.length <= kZeroBytes;
                      });
  if (!simple) {
    const Bytes bytes = joined(slices);
    fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return;
  }
  std::vector<struct iovec> vectors;
  vectors.reserve(slices.size());
  for (const tree::Slice& slice : slices) {
    const std::uint8_t* const data = slice.chunk ? slice.view().data() : zeros.data();
    vectors.push_back({const_cast<std::uint8_t*>(data), slice.length});
  }
  fuse_reply_iov(request, vectors.data(), static_cast<int>(vectors.size()));
}

Watchdog::Watch::Watch(Watchdog& dog, std::shared_ptr<Request> request, Clock::time_point deadline) : dog_(dog) {
  auto list = dog_.watched_.lock();
  list->push_front({std::move(request), deadline});
  place_ = list->begin();
}

Watchdog::Watch::~Watch() { dog_.watched_.lock()->erase(place_); }

std::size_t Watchdog::check(Clock::time_point now) {
  std::vector<std::shared_ptr<Request>> overdue;
  std::size_t expired = 0;
  auto list = watched_.lock();
  for (Watched& watched : *list) {
    if (now < watched.deadline) continue;
    ++expired;
    if (!watched.expired) overdue.push_back(watched.request);
    watched.expired = true;
  }
  list.unlock();
  for (const auto& request : overdue) {
    log(LogLevel::error, "read_deadline", {{"reason", "the store did not answer in time; the reader gets EIO"}});
    request->reply_overdue();
  }
  return expired;
}

std::vector<InFlight> Watchdog::requests(Clock::time_point now) const {
  std::vector<InFlight> found;
  auto list = watched_.lock();
  for (auto it = list->rbegin(); it != list->rend(); ++it) {
    const RequestInfo& info = it->request->info();
    found.push_back({info.operation, info.node, info.offset, info.length, now - it->request->received(),
                     it->request->stage().load(std::memory_order_relaxed), it->expired});
  }
  return found;
}

}  // namespace dsec::fuse
