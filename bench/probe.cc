// SPDX-License-Identifier: Apache-2.0
// dsec_bench_probe: one timed piece of work on a tree, for bench/run. It prints one JSON object: what took how many
// nanoseconds (without starting the process), how many operations and bytes it was, and a hash of what was seen, which
// must be the same on every file system that shows the same tree.
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/mapping.h"
#include "base/result.h"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& what) {
  fmt::print(stderr, "dsec_bench_probe: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  while (bytes.size() >= sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = mix(hash, word);
    bytes.remove_prefix(sizeof word);
  }
  for (const char c : bytes) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

struct Work {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // a sum, so that the order of directory entries does not matter
};

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Calls visit(directory descriptor, entry, path below the root) for everything below `dir`, parents first.
template <typename Visit>
void walk(int dir, const std::string& path, const Visit& visit) {
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(dir));
  if (!stream) die(path);
  while (const struct dirent* entry = ::readdir(stream.get())) {
    const std::string_view name(entry->d_name);
    if (name == "." || name == "..") continue;
    const std::string below = path + "/" + entry->d_name;
    visit(dir, *entry, below);
    if (entry->d_type != DT_DIR) continue;
    const int child = ::openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child < 0) die(below);
    walk(child, below, visit);
  }
}

int open_root(const char* path) {
  const int root = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) die(path);
  return root;
}

// Names and types only, as find does.
Work find(const char* root) {
  Work work;
  walk(open_root(root), "", [&](int, const struct dirent& entry, const std::string& path) {
    ++work.operations;
    work.hash += mix(hash_of(path), entry.d_type);
  });
  return work;
}

// Every entry's attributes and link targets, as find -ls does.
Work stat_walk(const char* root) {
  Work work;
  walk(open_root(root), "", [&](int dir, const struct dirent& entry, const std::string& path) {
    struct stat st {};
    if (::fstatat(dir, entry.d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) die(path);
    std::uint64_t hash = mix(mix(hash_of(path), st.st_mode), st.st_uid);
    if (!S_ISDIR(st.st_mode)) hash = mix(hash, static_cast<std::uint64_t>(st.st_size));
    if (S_ISLNK(st.st_mode)) {
      char target[4096];
      const ssize_t length = ::readlinkat(dir, entry.d_name, target, sizeof target);
      if (length < 0) die(path);
      hash = mix(hash, hash_of({target, static_cast<std::size_t>(length)}));
    }
    ++work.operations;
    work.hash += mix(hash, static_cast<std::uint64_t>(st.st_mtim.tv_nsec));
  });
  return work;
}

// Fills `buffer` as far as the file goes, so that the hash does not depend on how much one read returns.
std::size_t fill(int fd, const std::string& path, std::vector<char>& buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const ssize_t n = ::read(fd, buffer.data() + filled, buffer.size() - filled);
    if (n < 0) die(path);
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  return filled;
}

void read_whole(int fd, const std::string& path, std::vector<char>& buffer, Work& work) {
  std::size_t filled = 0;
  do {
    filled = fill(fd, path, buffer);
    work.bytes += filled;
    work.hash += hash_of({buffer.data(), filled});
  } while (filled == buffer.size());
}

// Opens, reads and closes every regular file.
Work read_tree(const char* root) {
  Work work;
  std::vector<char> buffer(128 << 10);
  walk(open_root(root), "", [&](int dir, const struct dirent& entry, const std::string& path) {
    if (entry.d_type != DT_REG) return;
    const dsec::Fd fd(::openat(dir, entry.d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid()) die(path);
    read_whole(fd.get(), path, buffer, work);
    ++work.operations;
  });
  return work;
}

Work read_file(const char* path) {
  Work work;
  std::vector<char> buffer(128 << 10);
  const dsec::Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) die(path);
  read_whole(fd.get(), path, buffer, work);
  work.operations = (work.bytes + buffer.size() - 1) / buffer.size();
  return work;
}

// `count` reads of 4 KiB at aligned places, the same ones for the same seed.
Work read_random(const char* path, std::uint64_t count, std::uint64_t seed) {
  constexpr std::uint64_t kBlock = 4096;
  const dsec::Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  struct stat st {};
  if (!fd.valid() || ::fstat(fd.get(), &st) != 0) die(path);
  const std::uint64_t blocks = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(st.st_size) / kBlock);
  std::mt19937_64 random(seed);
  Work work;
  char block[kBlock];
  for (std::uint64_t i = 0; i < count; ++i) {
    const ssize_t n = ::pread(fd.get(), block, kBlock, static_cast<off_t>(random() % blocks * kBlock));
    if (n < 0) die(path);
    work.bytes += static_cast<std::uint64_t>(n);
    work.hash += hash_of({block, static_cast<std::size_t>(n)});
    ++work.operations;
  }
  return work;
}

// Touches `count` pages of a mapping, each another one: what a fault on a cached page costs.
Work fault_pages(const char* path, std::uint64_t count, std::uint64_t seed) {
  constexpr std::uint64_t kPage = 4096;
  const auto mapping = dsec::Mapping::of_file(path);
  if (!mapping) die(path);
  const dsec::ByteView bytes = mapping->view();
  ::madvise(const_cast<std::uint8_t*>(bytes.data()), bytes.size(), MADV_RANDOM);  // one fault maps one page
  std::vector<std::uint64_t> pages(bytes.size() / kPage);
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(seed));
  pages.resize(std::min<std::uint64_t>(pages.size(), count));
  Work work;
  for (const std::uint64_t page : pages) work.hash += mix(bytes[page * kPage], page);
  work.operations = pages.size();
  work.bytes = pages.size() * kPage;
  return work;
}

std::uint64_t ns_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count());
}

// Runs a command `count` times, one after the other, and prints what each took; it must exit with 0.
int spawn(std::uint64_t count, char** argv) {
  std::string times;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    pid_t pid = 0;
    errno = ::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv, environ);
    if (errno != 0) die(argv[0]);
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid) die("wait");
    times += fmt::format("{}{}", i == 0 ? "" : ",", ns_since(start));
    if (status != 0) {
      fmt::print(stderr, "dsec_bench_probe: {} ended with status {:#x}\n", argv[0], status);
      return 1;
    }
  }
  fmt::print("{{\"ns\":[{}]}}\n", times);
  return 0;
}

int usage() {
  fmt::print(
      stderr,
      "usage: dsec_bench_probe find|stat|read DIR | seq FILE | rand|fault FILE COUNT SEED | spawn COUNT COMMAND...\n");
  return 2;
}

int run(int argc, char** argv) {
  if (argc < 3) return usage();
  const std::string_view verb(argv[1]);
  if (verb == "spawn" && argc > 3) return spawn(std::strtoull(argv[2], nullptr, 10), argv + 3);
  const Clock::time_point start = Clock::now();
  Work work;
  if (verb == "find") {
    work = find(argv[2]);
  } else if (verb == "stat") {
    work = stat_walk(argv[2]);
  } else if (verb == "read") {
    work = read_tree(argv[2]);
  } else if (verb == "seq") {
    work = read_file(argv[2]);
  } else if ((verb == "rand" || verb == "fault") && argc == 5) {
    const auto work_on = verb == "rand" ? read_random : fault_pages;
    work = work_on(argv[2], std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10));
  } else {
    return usage();
  }
  fmt::print("{{\"ns\":[{}],\"operations\":{},\"bytes\":{},\"hash\":\"{:016x}\"}}\n", ns_since(start), work.operations,
             work.bytes, work.hash);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
