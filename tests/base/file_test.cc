// SPDX-License-Identifier: Apache-2.0
// AtomicFile, Mapping, paths.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "base/atomic_file.h"
#include "base/mapping.h"
#include "base/paths.h"
#include "support/temp_dir.h"

using namespace dsec;
namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& path) { return std::string(as_text(read_file(path, 1 << 20).value())); }

std::size_t entries_in(const fs::path& dir) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

// What AtomicFile asks of the kernel while one of these lives. The functions below take the place of libc's in this
// program.
class SystemCallLog {
 public:
  explicit SystemCallLog(std::string failing_sync = {}) : failing_sync_(std::move(failing_sync)) { current = this; }
  ~SystemCallLog() { current = nullptr; }
  SystemCallLog(const SystemCallLog&) = delete;
  SystemCallLog& operator=(const SystemCallLog&) = delete;

  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }

  static void note(const std::string& call) {
    if (current != nullptr) current->calls_.push_back(call);
  }
  // True when this sync is to fail.
  static bool fails(const std::string& path) {
    return current != nullptr && !current->failing_sync_.empty() &&
           path.find(current->failing_sync_) != std::string::npos;
  }

 private:
  static inline SystemCallLog* current = nullptr;
  std::string failing_sync_;
  std::vector<std::string> calls_;
};

struct Places {
  test::TempDir root;
  fs::path tmp = root / "tmp";
  fs::path file = root / "a/b/file";
  Places() { fs::create_directory(tmp); }
};

}  // namespace

extern "C" int fsync(int fd) {
  const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd)).native();
  SystemCallLog::note("fsync " + path);
  if (SystemCallLog::fails(path)) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  SystemCallLog::note(std::string("rename ") + to);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  SystemCallLog::note(std::string("mkdir ") + path);
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

TEST_CASE("a committed file has its bytes, its mode and no litter") {
  const Places places;
  ::umask(077);
  auto file = AtomicFile::create(places.tmp);
  ::umask(022);
  REQUIRE(file);
  REQUIRE(file->write(as_bytes("hello ")));
  REQUIRE(file->write(as_bytes("world")));
  CHECK(file->size() == 11);
  CHECK_FALSE(fs::exists(places.file));
  REQUIRE(file->commit(places.file));
  CHECK(content_of(places.file) == "hello world");
  CHECK((fs::status(places.file).permissions() & fs::perms::all) == fs::perms(0644));
  CHECK(entries_in(places.tmp) == 0);
}

TEST_CASE("a commit replaces, and whoever has the old file open keeps it") {
  const Places places;
  REQUIRE(write_file_atomic(places.tmp, places.file, as_bytes("old")));
  const auto old = open_file(places.file, O_RDONLY);
  REQUIRE(write_file_atomic(places.tmp, places.file, as_bytes("new!")));
  CHECK(content_of(places.file) == "new!");
  CHECK(as_text(read_all(*old, 100, "old").value()) == "old");
}

TEST_CASE("a file that is not committed leaves nothing") {
  const Places places;
  {
    auto file = AtomicFile::create(places.tmp);
    REQUIRE(file->write(as_bytes("x")));
    CHECK(entries_in(places.tmp) == 1);
    AtomicFile moved = std::move(*file);
    CHECK(entries_in(places.tmp) == 1);
    AtomicFile assigned = AtomicFile::create(places.tmp).value();
    assigned = std::move(moved);
  }
  CHECK(entries_in(places.tmp) == 0);
}

TEST_CASE("a commit that fails leaves what was there") {
  const Places places;
  fs::create_directories(places.file / "in the way");
  CHECK_FALSE(write_file_atomic(places.tmp, places.file, as_bytes("x")));
  CHECK(fs::is_directory(places.file));
  CHECK(entries_in(places.tmp) == 0);
}

TEST_CASE("places that cannot be are errors, not exceptions") {
  const Places places;
  CHECK(AtomicFile::create(places.root / "absent").error().code == ErrorCode::not_found);
  CHECK_FALSE(write_file_atomic(places.tmp, places.root / std::string(300, 'n') / "f", as_bytes("x")));
  REQUIRE(write_file_atomic(places.tmp, places.root / "plain", as_bytes("x")));
  CHECK_FALSE(write_file_atomic(places.tmp, places.root / "plain/f", as_bytes("x")));
  CHECK_FALSE(write_file_atomic(places.tmp, places.root / "plain/d/f", as_bytes("x")));
  CHECK(entries_in(places.tmp) == 0);
}

TEST_CASE("a commit syncs the file, renames it, then syncs the directory") {
  const Places places;
  const std::string root = places.root.path().native();
  auto file = AtomicFile::create(places.tmp);
  REQUIRE(file);
  REQUIRE(file->write(as_bytes("x")));
  const SystemCallLog log;
  REQUIRE(file->commit(places.file));
  REQUIRE(log.calls().size() == 7);
  // Each new directory is durable before anything is put into it.
  CHECK(log.calls()[0] == "mkdir " + root + "/a");
  CHECK(log.calls()[1] == "fsync " + root);
  CHECK(log.calls()[2] == "mkdir " + root + "/a/b");
  CHECK(log.calls()[3] == "fsync " + root + "/a");
  CHECK(log.calls()[4].find("fsync " + root + "/tmp/") == 0);
  CHECK(log.calls()[5] == "rename " + root + "/a/b/file");
  CHECK(log.calls()[6] == "fsync " + root + "/a/b");
}

TEST_CASE("a file that cannot be synced is not renamed") {
  const Places places;
  REQUIRE(write_file_atomic(places.tmp, places.file, as_bytes("old")));
  {
    const SystemCallLog log("/tmp/w-");
    const auto written = write_file_atomic(places.tmp, places.file, as_bytes("new"));
    REQUIRE_FALSE(written);
    CHECK(written.error().code == ErrorCode::io);
  }
  CHECK(content_of(places.file) == "old");
  CHECK(entries_in(places.tmp) == 0);
}

TEST_CASE("a mapping shows a file, and outlives its move") {
  const Places places;
  REQUIRE(write_file_atomic(places.tmp, places.file, as_bytes("mapped")));
  auto mapping = Mapping::of_file(places.file);
  REQUIRE(mapping);
  Mapping moved = std::move(*mapping);
  CHECK(as_text(moved.view()) == "mapped");
  Mapping assigned;
  assigned = std::move(moved);
  CHECK(as_text(assigned.view()) == "mapped");
  REQUIRE(write_file_atomic(places.tmp, places.file, {}));
  CHECK(Mapping::of_file(places.file)->view().empty());
  CHECK(Mapping::of_file(places.root / "absent").error().code == ErrorCode::not_found);
  CHECK_FALSE(Mapping::of_file(places.tmp));
}

TEST_CASE("paths come from a flag, the environment, or the defaults") {
  ::unsetenv("DSEC_STORE");
  CHECK(default_store("/x") == "/x");
  ::setenv("DSEC_STATE_DIR", "/state", 1);
  CHECK(default_store() == "/state/store");
  CHECK(state_dir() == "/state");
  ::setenv("DSEC_STORE", "/s", 1);
  CHECK(default_store() == "/s");
  CHECK(default_store("/x") == "/x");
  ::setenv("DSEC_RUNTIME_DIR", "/r", 1);
  CHECK(runtime_dir() == "/r");
  for (const char* name : {"DSEC_STORE", "DSEC_STATE_DIR", "DSEC_RUNTIME_DIR"}) ::unsetenv(name);
  CHECK(sibling_program("base_test").is_absolute());
  CHECK(sibling_program("no such program") == "no such program");
}

TEST_CASE("what a killed process had begun to write is removed, and nothing else") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path(), dir / "whole", as_bytes("x")));
  REQUIRE(write_file_atomic(dir.path(), dir / "w-file-of-somebody", as_bytes("x")));
  {
    auto unfinished = AtomicFile::create(dir.path());
    REQUIRE(unfinished);
    // As after a kill: it is still there, under the name that AtomicFile gave it.
    CHECK(entries_in(dir.path()) == 3);
    remove_unfinished_files(dir.path());
    CHECK(entries_in(dir.path()) == 2);
  }
  remove_unfinished_files(dir / "missing");
  CHECK(content_of(dir / "whole") == "x");
  CHECK(content_of(dir / "w-file-of-somebody") == "x");
}

TEST_CASE("unfinished files are counted, and removed when nobody has touched them for long") {
  const Places places;
  auto ours = AtomicFile::create(places.tmp);
  REQUIRE(ours);
  REQUIRE(ours->write(as_bytes("young")));
  const auto make = [&](const char* name, std::int64_t age_s) {
    const fs::path path = places.tmp / name;
    std::ofstream(path) << "1234567";
    struct timespec times[2]{};
    ::clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age_s;
    times[1] = times[0];
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  };
  make("w-oldOLD", 4000);
  make("w-newNEW", 3000);
  make("w-of something else", 4000);
  fs::create_directory(places.tmp / "w-subDIR");
  CHECK(count_unfinished_files(places.tmp).files == 3);
  const auto removed = remove_unfinished_files(places.tmp, std::chrono::seconds(3600));
  REQUIRE(removed);
  CHECK(removed->files == 1);
  CHECK(removed->bytes == 7);
  CHECK_FALSE(fs::exists(places.tmp / "w-oldOLD"));
  CHECK(entries_in(places.tmp) == 4);
  CHECK(count_unfinished_files(places.tmp).bytes == 5 + 7);
  REQUIRE(ours->commit(places.file));
  CHECK(count_unfinished_files(places.tmp / "missing").files == 0);
  CHECK_FALSE(remove_unfinished_files(places.tmp / "missing", std::chrono::seconds(1)));
}
