// SPDX-License-Identifier: Apache-2.0
// Reads of packs below FUSE: the read engines, and the node cache against plain reads of the same file.
//   dsec_bench_store DIR [FILE-MIB] [READS]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "store/node_cache.h"
#include "store/sources.h"

namespace {

using namespace dsec;
using Clock = std::chrono::steady_clock;
using ReadOne = std::function<bool(std::uint64_t offset, std::size_t length)>;

constexpr auto kForEver = Deadline::max();

template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(1);
}

void forget_pages(const std::filesystem::path& path) {
  const Fd fd = must(open_file(path, O_RDONLY));
  ::fdatasync(fd.get());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

// Median microseconds of a read, of `reads` random ones by `threads` threads; prints MiB/s too.
void measure(const char* name, const ReadOne& read, std::uint64_t size, std::size_t length, unsigned threads,
             int reads) {
  std::vector<std::vector<double>> times(threads);
  std::vector<std::thread> running;
  const auto begin = Clock::now();
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < reads; ++i) {
        const std::uint64_t offset = random() % (size - length);
        const auto start = Clock::now();
        if (!read(offset, length)) std::exit(1);
        times[t].push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<double> all;
  for (const auto& some : times) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  fmt::print("{:<34} {:>7} B x{:<2} median {:>8.1f} us  p99 {:>8.1f} us  {:>7.0f} MiB/s\n", name, length, threads,
             all[all.size() / 2], all[all.size() * 99 / 100],
             static_cast<double>(length) * static_cast<double>(all.size()) / seconds / (1 << 20));
}

// All of it in order, in pieces of the size that chunks have.
void measure_stream(const char* name, const ReadOne& read, const std::filesystem::path& file, std::uint64_t size) {
  forget_pages(file);
  const auto begin = Clock::now();
  for (std::uint64_t at = 0; at + 24000 <= size; at += 24000) {
    if (!read(at, 24000)) std::exit(1);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("{:<34} {:>7} B in order, cold: {:.0f} MiB/s\n", name, 24000, static_cast<double>(size >> 20) / seconds);
}

void compare(const char* name, const ReadOne& read, const std::filesystem::path& file, std::uint64_t size, int reads) {
  measure_stream(name, read, file, size);
  for (const unsigned threads : {1u, 8u}) {
    for (const std::size_t length : {std::size_t{4096}, std::size_t{24000}, std::size_t{256} << 10}) {
      forget_pages(file);
      measure(fmt::format("{}, cold", name).c_str(), read, size, length, threads, reads / static_cast<int>(threads));
    }
    measure(fmt::format("{}, cached", name).c_str(), read, size, 24000, threads, reads / static_cast<int>(threads));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path dir = argv[1];
  const std::uint64_t size = std::uint64_t(argc > 2 ? std::atoi(argv[2]) : 512) << 20;
  const int reads = argc > 3 ? std::atoi(argv[3]) : 2000;
  const store::Store store = must(store::Store::open_or_create(dir / "store"));
  const Digest pack = sha256(as_bytes("bench"));
  {
    AtomicFile file = must(AtomicFile::create(store.tmp_dir()));
    std::mt19937_64 random(1);
    Bytes part(1 << 20);
    for (std::uint64_t done = 0; done < size; done += part.size()) {
      for (std::size_t i = 0; i < part.size(); i += 8) store_le<std::uint64_t>(part.data() + i, random());
      must(file.write(part).map([] { return 0; }));
    }
    must(file.commit(store.pack_path(pack)).map([] { return 0; }));
  }
  const auto path = store.pack_path(pack);
  const auto fd = std::make_shared<const Fd>(must(open_file(path, O_RDONLY)));
  const std::shared_ptr<io::ReadEngine> sync = io::make_sync_engine();
  compare(
      "pread", [&](auto offset, auto length) { return sync->read(fd, offset, length, kForEver).has_value(); }, path,
      size, reads);
  if (auto made = io::make_uring_engine({})) {
    const std::shared_ptr<io::ReadEngine> uring = std::move(*made);
    compare(
        "io_uring", [&](auto offset, auto length) { return uring->read(fd, offset, length, kForEver).has_value(); },
        path, size, reads);
  }
  store::NodeCacheOptions options;
  options.dir = dir / "cache";
  options.quota_bytes = 2 * size;
  options.fetch_first_bytes = 1 << 20;
  const auto cache = store::NodeCache::create(store::pack_files(store, sync), sync, options);
  const auto read_cache = [&](auto offset, auto length) {
    return cache->read({pack, offset, length}, kForEver).has_value();
  };
  const auto begin = Clock::now();
  for (std::uint64_t at = 0; at < size; at += 1 << 20)
    must(cache->read({pack, at, 1 << 20}, kForEver).map([](auto&&) { return 0; }));
  cache->settle();
  fmt::print("filled the node cache at {:.0f} MiB/s\n",
             static_cast<double>(size >> 20) / std::chrono::duration<double>(Clock::now() - begin).count());
  compare("node cache", read_cache, dir / "cache/data", size, reads);
  std::filesystem::remove_all(dir / "store");
  std::filesystem::remove_all(dir / "cache");
}
