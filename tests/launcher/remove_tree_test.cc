// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/remove_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace dsec;
using namespace dsec::launcher;
namespace fs = std::filesystem;

namespace {

struct Place {
  Place() {
    // On tmpfs where there is one: some disks take milliseconds to delete a directory.
    std::string name = fs::is_directory("/dev/shm") ? "/dev/shm/dsec-remove-XXXXXX" : "/tmp/dsec-remove-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    top = name;
    fd = open_file(top, O_RDONLY | O_DIRECTORY).value();
  }
  ~Place() { fs::remove_all(top); }
  fs::path top;
  Fd fd;
};

}  // namespace

TEST_CASE("a tree goes, what its links point at stays") {
  const Place place;
  fs::create_directories(place.top / "tree/a/b");
  fs::create_directories(place.top / "tree/c");
  fs::create_directories(place.top / "outside");
  std::ofstream(place.top / "outside/precious") << "x";
  std::ofstream(place.top / "tree/a/b/file") << "x";
  fs::create_symlink(place.top / "outside", place.top / "tree/c/link");
  fs::create_symlink(place.top / "outside", place.top / "tree/link");
  REQUIRE(::mkfifo((place.top / "tree/fifo").c_str(), 0) == 0);
  REQUIRE(remove_tree(place.fd, "tree"));
  CHECK_FALSE(fs::exists(place.top / "tree"));
  CHECK(fs::exists(place.top / "outside/precious"));
  CHECK(remove_tree(place.fd, "tree"));  // absent is fine
}

TEST_CASE("a link in place of the tree is not followed") {
  const Place place;
  fs::create_directories(place.top / "outside/dir");
  fs::create_symlink(place.top / "outside", place.top / "tree");
  CHECK_FALSE(remove_tree(place.fd, "tree"));
  CHECK(fs::exists(place.top / "outside/dir"));
}

TEST_CASE("one entry at the top can be kept") {
  const Place place;
  fs::create_directories(place.top / "sub");
  std::ofstream(place.top / "lock") << "x";
  std::ofstream(place.top / "sub/lock") << "x";
  REQUIRE(remove_contents(place.fd, "lock"));
  CHECK(fs::exists(place.top / "lock"));
  CHECK_FALSE(fs::exists(place.top / "sub"));
}

TEST_CASE("very deep trees need no deep stack and no many descriptors") {
  const Place place;
  Fd here = open_file(place.top, O_RDONLY | O_DIRECTORY).value();
  for (int i = 0; i < 5000; ++i) {
    REQUIRE(::mkdirat(here.get(), "d", 0755) == 0);
    here = open_at(here, "d", O_RDONLY | O_DIRECTORY).value();
  }
  here.reset();
  REQUIRE(remove_tree(place.fd, "d"));
  CHECK(fs::is_empty(place.top));
}
