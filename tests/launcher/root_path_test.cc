// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/root_path.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace dsec;
using namespace dsec::launcher;
namespace fs = std::filesystem;

namespace {

// A root with links that lead out of it, and something outside that must not be reached.
struct HostileRoot {
  HostileRoot() {
    std::string name = "/tmp/dsec-root-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    top = name;
    fs::create_directories(top / "root/etc");
    fs::create_directories(top / "outside");
    write("outside/secret", "secret");
    write("root/etc/passwd", "inside");
    link(top / "outside", "absolute");
    link("../../../../../../../.." + (top / "outside").native(), "relative");
    link("/etc", "good");
    link("loop", "loop");
    link("/etc/passwd/..", "through-file");
    link("../../../etc/passwd", "up");
    fs::create_directory_symlink("/proc/self/root", top / "root/magic");
    root = open_file(top / "root", O_PATH | O_DIRECTORY).value();
  }
  ~HostileRoot() { fs::remove_all(top); }
  void write(const std::string& path, const std::string& text) const { std::ofstream(top / path) << text; }
  void link(const fs::path& to, const std::string& name) const { fs::create_symlink(to, top / "root" / name); }

  fs::path top;
  Fd root;
};

using Opener = Result<Fd> (*)(const Fd&, std::string_view, int);

}  // namespace

TEST_CASE("links are followed inside the root only") {
  const HostileRoot hostile;
  for (const Opener open : {Opener{open_in_root}, Opener{open_in_root_by_hand}}) {
    const auto text = [&](const char* path) {
      const auto fd = open(hostile.root, path, O_RDONLY);
      if (!fd) return std::string(to_string(fd.error().code));
      const auto bytes = read_all(*fd, 100, path);
      return bytes ? std::string(as_text(*bytes)) : std::string("unreadable");
    };
    CHECK(text("/etc/passwd") == "inside");
    CHECK(text("good/passwd") == "inside");
    CHECK(text("/up") == "inside");
    CHECK(text("/../../etc/passwd") == "inside");
    CHECK(text("//etc//./passwd") == "inside");
    CHECK(text("/absolute/secret") == "not_found");
    CHECK(text("/relative/secret") == "not_found");
    CHECK(text("/loop") == "io");
    CHECK(text("/through-file") != "inside");
    CHECK(text("/absent") == "not_found");
  }
}

TEST_CASE("directories and files are made inside the root only") {
  const HostileRoot hostile;
  CHECK(make_dirs_in_root(hostile.root, "/a/b/c", 0750));
  CHECK(fs::is_directory(hostile.top / "root/a/b/c"));
  struct stat st {};
  ::stat((hostile.top / "root/a/b").c_str(), &st);
  CHECK((st.st_mode & 07777) == 0750);
  CHECK(make_dirs_in_root(hostile.root, "/good/sub", 0755));
  CHECK(fs::is_directory(hostile.top / "root/etc/sub"));
  std::ignore = make_dirs_in_root(hostile.root, "/absolute/x", 0755);
  std::ignore = make_dirs_in_root(hostile.root, "/relative/x", 0755);
  std::ignore = make_file_in_root(hostile.root, "/absolute/file");
  CHECK(std::distance(fs::directory_iterator(hostile.top / "outside"), fs::directory_iterator()) == 1);
  CHECK(make_dirs_in_root(hostile.root, "/etc/passwd/x", 0755).error().code == ErrorCode::invalid);

  fs::create_symlink(hostile.top / "outside/made", hostile.top / "root/etc/hosts");
  REQUIRE(make_file_in_root(hostile.root, "/etc/hosts"));
  CHECK(fs::is_regular_file(fs::symlink_status(hostile.top / "root/etc/hosts")));
  CHECK_FALSE(fs::exists(hostile.top / "outside/made"));
  REQUIRE(make_file_in_root(hostile.root, "/etc/passwd"));
  CHECK(fs::file_size(hostile.top / "root/etc/passwd") == 6);
}

TEST_CASE("only regular files of a bounded size are read") {
  const HostileRoot hostile;
  CHECK(read_in_root(hostile.root, "/etc/passwd", 6).value() == "inside");
  CHECK(read_in_root(hostile.root, "/etc/passwd", 5).error().code == ErrorCode::invalid);
  REQUIRE(::mkfifo((hostile.top / "root/fifo").c_str(), 0600) == 0);
  CHECK(read_in_root(hostile.root, "/fifo", 100).error().code == ErrorCode::invalid);
  CHECK(read_in_root(hostile.root, "/etc", 100).error().code == ErrorCode::invalid);
}
