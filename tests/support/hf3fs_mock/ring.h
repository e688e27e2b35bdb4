// SPDX-License-Identifier: Apache-2.0
// A ring of the stand-in and the threads that do its reads.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "files.h"
#include "io/hf3fs_api.h"

namespace hf3fs_mock {

struct Iov {
  std::uint8_t* base = nullptr;
  std::size_t size = 0;
  std::size_t block_size = 0;
};

struct Request {
  int index = 0;
  const Iov* iov = nullptr;
  std::uint8_t* data = nullptr;
  std::size_t offset = 0;
  std::size_t length = 0;
  const void* userdata = nullptr;
  std::shared_ptr<File> file;
  enum class Stage { prepared, submitted, running, done } stage = Stage::prepared;
  std::int64_t result = 0;
};

class Ring {
 public:
  Ring(int entries, int io_depth, std::uint64_t flags);
  ~Ring();

  int prepare(Request request);
  int submit();
  int wait(dsec::io::Hf3fsCqe* cqes, int size, int min_results, const struct timespec* until);

  // Whether a request that was not reaped uses them.
  bool uses(const File& file);
  bool uses(const Iov& iov);

 private:
  using Requests = std::list<Request>;
  void work(unsigned number);
  Requests::iterator next(std::mt19937_64& random);
  [[nodiscard]] std::int64_t read(const Request& request) const;
  int check(const Request& request);
  void same_thread(std::optional<std::thread::id>& known, const char* what);

  int entries_;
  int io_depth_;
  std::uint64_t flags_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Requests requests_;      // all that were not reaped
  std::vector<int> free_;  // indices
  std::deque<Requests::iterator> done_;
  long strays_ = 0;
  std::optional<std::thread::id> preparing_;
  std::optional<std::thread::id> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace hf3fs_mock
