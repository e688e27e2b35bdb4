// SPDX-License-Identifier: Apache-2.0
// What befalls the directory of a node cache, and that no reader notices.
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <thread>

#include "store/internal/window_record.h"
#include "store/node_cache_support.h"
#include "support/skip.h"

namespace dsec::store {
namespace {

using namespace dsec::test;
namespace fs = std::filesystem;

// A file system of its own at DIR/mnt, in a mount namespace of this process.
class Mounted {
 public:
  explicit Mounted(const TempDir& dir) : path_(dir / "mnt") {
    static const bool has_namespace =
        ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    fs::create_directory(path_);
    may_mount_ = has_namespace;
  }
  ~Mounted() { ::umount2(path_.c_str(), MNT_DETACH); }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  bool tmpfs(const char* options, unsigned long flags = 0) {
    return may_mount_ && ::mount("none", path_.c_str(), "tmpfs", flags, options) == 0;
  }
  // ext4 in a file of the directory.
  bool ext4(const TempDir& dir, const char* megabytes) {
    const std::string image = dir / "image";
    const std::string command = "truncate -s " + std::string(megabytes) + "M " + image + " && mkfs.ext4 -q " + image +
                                " && mount -o loop " + image + " " + path_.native();
    return may_mount_ && std::system(command.c_str()) == 0;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool may_mount_ = false;
};

// Counts the lines of a log event that are written while it lives.
class LogLines {
 public:
  explicit LogLines(const TempDir& dir) : path_(dir / "log"), saved_(::dup(STDERR_FILENO)) {
    const auto file = open_file(path_, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    REQUIRE(file);
    ::dup2(file->get(), STDERR_FILENO);
  }
  ~LogLines() { ::dup2(saved_.get(), STDERR_FILENO); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  [[nodiscard]] int count(const std::string& event) const {
    const std::string text = read_text(path_);
    int found = 0;
    for (std::size_t at = text.find(event); at != std::string::npos; at = text.find(event, at + 1)) ++found;
    return found;
  }

 private:
  fs::path path_;
  Fd saved_;
};

// Reads something new until the cache writes again.
void wait_for_recovery(const Cached& cached, const Digest& pack) {
  const std::size_t size = cached.packs->content(pack).size();
  for (std::size_t at = 0; !cached.cache->stats().trouble.empty(); at = (at + 100000) % (size - 1000)) {
    REQUIRE(cached.is_right(pack, at, 1000));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST_CASE("a disk that is full leaves reads uncached, with one warning, until there is room again") {
  const TempDir dir;
  Mounted disk(dir);
  if (!disk.tmpfs("size=12m")) SKIP_TEST("may not mount tmpfs");
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 30 << 20);
  const LogLines log(dir);
  const Cached cached(packs, cache_options(disk.path() / "cache", kQuota));
  REQUIRE(cached.is_right(pack, 0, 1000));
  cached.cache->settle();
  {  // others take all the space
    const auto hog = open_file(disk.path() / "hog", O_WRONLY | O_CREAT, 0600);
    REQUIRE(hog);
    while (write_all(*hog, noise(1, 4096))) {
    }
  }
  for (int round = 0; round < 3; ++round) {
    REQUIRE(cached.is_all_right(pack, 1 << 20));
    cached.cache->settle();
  }
  CHECK(cached.cache->stats().trouble != "");
  CHECK(cached.cache->stats().uncached_reads > 10);
  CHECK(cached.cache->stats().write_failures > 0);
  CHECK(log.count("node_cache_off") == 1);
  fs::remove(disk.path() / "hog");
  wait_for_recovery(cached, pack);
  CHECK(log.count("node_cache_off") == 1);
  CHECK(log.count("node_cache_back") == 1);
}

TEST_CASE("a cache that outgrows its disk gets along with what there is") {
  const TempDir dir;
  Mounted disk(dir);
  if (!disk.tmpfs("size=10m")) SKIP_TEST("may not mount tmpfs");
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 30 << 20);
  const Cached cached(packs, cache_options(disk.path() / "cache", kQuota));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(cached.is_all_right(pack, 1 << 20));
    cached.cache->settle();
  }
  wait_for_recovery(cached, pack);
  CHECK(cached.cache->stats().used_bytes > 1 << 20);
}

TEST_CASE("the reserve of the file system stays free") {
  const TempDir dir;
  Mounted disk(dir);
  if (!disk.tmpfs("size=32m")) SKIP_TEST("may not mount tmpfs");
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 40 << 20);
  NodeCacheOptions options = cache_options(disk.path() / "cache", kQuota);
  options.reserve_bytes = 16 << 20;
  const Cached cached(packs, options);
  for (std::size_t at = 0; at < 40 << 20; at += 1 << 20) {
    REQUIRE(cached.is_right(pack, at, 1 << 20));
    cached.cache->settle();
    struct statvfs space {};
    REQUIRE(::statvfs(disk.path().c_str(), &space) == 0);
    CHECK(space.f_bavail * space.f_frsize >= 15 << 20);
  }
  CHECK(cached.cache->stats().used_bytes > 8 << 20);
  CHECK(cached.cache->stats().trouble == "");
}

TEST_CASE("on a read-only file system nothing is cached until it is writable") {
  const TempDir dir;
  Mounted disk(dir);
  if (!disk.tmpfs("size=32m", MS_RDONLY)) SKIP_TEST("may not mount tmpfs");
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 4 << 20);
  const LogLines log(dir);
  const Cached cached(packs, cache_options(disk.path() / "cache", kQuota));
  CHECK(cached.is_all_right(pack, 100000));
  CHECK_THAT(cached.cache->stats().trouble, Catch::Contains("Read-only"));
  CHECK(log.count("node_cache_off") == 1);
  REQUIRE(::mount(nullptr, disk.path().c_str(), nullptr, MS_REMOUNT, "size=32m") == 0);
  wait_for_recovery(cached, pack);
  CHECK(cached.is_all_right(pack, 100000));
}

TEST_CASE("a file system that fails every operation from now on fails no read") {
  const TempDir dir;
  Mounted disk(dir);
  if (!disk.ext4(dir, "48")) SKIP_TEST("may not mount ext4 on a loop device");
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 8 << 20);
  const LogLines log(dir);
  const Cached cached(packs, cache_options(disk.path() / "cache", kQuota));
  for (std::size_t at = 0; at < 4 << 20; at += 100000) REQUIRE(cached.is_right(pack, at, 100000));
  cached.cache->settle();
  const auto root = open_file(disk.path(), O_RDONLY | O_DIRECTORY);
  REQUIRE(root);
  std::uint32_t without_flush = 2;
  if (::ioctl(root->get(), _IOR('X', 125, std::uint32_t), &without_flush) != 0) SKIP_TEST("ext4 cannot be shut down");
  CHECK(cached.is_all_right(pack, 70000));
  cached.cache->settle();
  CHECK(cached.is_all_right(pack, 70000));
  CHECK(cached.cache->stats().trouble != "");
  CHECK(log.count("node_cache_off") == 1);
}

TEST_CASE("a directory that is deleted under the cache is made again") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 4 << 20);
  const LogLines log(dir);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(cached.is_all_right(pack, 100000));
    cached.cache->settle();
    fs::remove_all(dir / "cache");
    while (!fs::exists(dir / "cache/index")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    REQUIRE(cached.is_all_right(pack, 100000));
    cached.cache->settle();
    CHECK(cached.cache->stats().trouble == "");
    CHECK(cached.cache->stats().windows == 4);
    CHECK(log.count("node_cache_off") == round + 1);
  }
}

TEST_CASE("a file where the directory should be leaves reads uncached until it is gone") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  write_text(dir / "cache", "in the way");
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  CHECK(cached.is_all_right(pack, 100000));
  CHECK(cached.cache->stats().trouble != "");
  fs::remove(dir / "cache");
  wait_for_recovery(cached, pack);
  CHECK(cached.is_all_right(pack, 100000));
}

TEST_CASE("what is no index of a cache is replaced") {
  const TempDir dir;
  fs::create_directory(dir / "cache");
  write_text(dir / "cache/index", std::string(5000, 'x'));
  write_text(dir / "cache/data", std::string(5000, 'y'));
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 1 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  CHECK(cached.is_all_right(pack, 100000));
  cached.cache->settle();
  CHECK(cached.cache->stats().windows == 1);
}

TEST_CASE("space that a killed owner used without saying so is given back") {
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest pack = packs->add(1, 4 << 20);
  {
    const Cached cached(packs, cache_options(dir / "cache", kQuota));
    for (std::size_t at = 0; at < 4 << 20; at += 64 << 10) REQUIRE(cached.is_right(pack, at, 1000));
  }
  {
    const auto data = open_file(dir / "cache/data", O_WRONLY);
    REQUIRE(data);
    const Bytes litter(32 << 20, 1);
    REQUIRE(::pwrite(data->get(), litter.data(), litter.size(), 2 << 20) == static_cast<ssize_t>(litter.size()));
  }
  const fs::path data = dir / "cache/data";
  REQUIRE(disk_bytes(data) > 32 << 20);
  const Cached cached(packs, cache_options(dir / "cache", kQuota));
  while (disk_bytes(data) > 5 << 20) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(cached.is_all_right(pack, 100000));
}

// One of the things that happen to files.
void spoil(const fs::path& file, std::mt19937_64& random) {
  const std::size_t size = fs::file_size(file);
  const Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(fd.valid());
  const auto flip = [&](std::uint64_t at) {
    std::uint8_t byte = 0;
    REQUIRE(::pread(fd.get(), &byte, 1, static_cast<off_t>(at)) == 1);
    byte = static_cast<std::uint8_t>(byte ^ 1u << random() % 8);
    REQUIRE(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(at)) == 1);
  };
  switch (random() % 5) {
    case 0:
    case 1:
      for (std::uint64_t i = 0; i < 1 + random() % 40; ++i) flip(random() % size);
      break;
    case 2: {  // zeros, as after a lost write
      const Bytes zeros(1 + random() % 20000);
      REQUIRE(::pwrite(fd.get(), zeros.data(), zeros.size(), static_cast<off_t>(random() % size)) > 0);
      break;
    }
    case 3: REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(random() % size)) == 0); break;
    default: {  // a piece in another's place, aligned as records and blocks are
      Bytes piece(kWindowRecordBytes << random() % 6);
      const std::uint64_t places = size / piece.size();
      if (places == 0) break;
      REQUIRE(pread_exact(fd, piece, random() % places * piece.size()));
      REQUIRE(::pwrite(fd.get(), piece.data(), piece.size(), static_cast<off_t>(random() % places * piece.size())) > 0);
    }
  }
}

TEST_CASE("damage anywhere in the files of the cache never becomes a wrong byte") {
  const std::uint64_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const Digest packs_of[] = {packs->add(1, (3 << 20) + 5), packs->add(2, 2 << 20)};
  const LogLines quiet(dir);
  const int rounds = std::getenv("DSEC_LONG_TESTS") != nullptr ? 1000 : 60;
  std::uint64_t dropped = 0;
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    {
      const Cached cached(packs, cache_options(dir / "cache", kQuota));
      for (const Digest& pack : packs_of) REQUIRE(cached.is_all_right(pack, 90000));
      cached.cache->settle();
      if (round % 2 == 0) spoil(dir / "cache/data", random);
      for (const Digest& pack : packs_of) REQUIRE(cached.is_all_right(pack, 90000));
      dropped += cached.cache->stats().dropped_corrupt;
    }
    spoil(random() % 2 == 0 ? dir / "cache/data" : dir / "cache/index", random);
  }
  CHECK(dropped > 0);
}

}  // namespace
}  // namespace dsec::store
