// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "composer/sources/internal/live_file.h"
#include "composer/sources_support.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;
using Catch::Contains;

TEST_CASE("a directory is read as it is, in byte order") {
  const TempDir dir;
  shell(dir.path(),
        "mkdir src src/b src/B src/a.d; echo hi > src/b/f; ln -s t src/l; mkfifo -m 622 src/p; "
        "chmod 1750 src/b; touch -d '1969-12-31 23:59:58.25 UTC' src/b/f");
  const auto read = read_source("dir:src", dir.path());
  INFO(message_of(read));
  REQUIRE(read);
  const auto& layer = read->layers[0];
  CHECK(outline(layer) == "/B directory\n/a.d directory\n/b directory\n/b/f regular\n/l symlink target=t\n/p fifo\n");
  const auto b = layer.find(0, "b");
  CHECK(layer.inode(b).mode == 01750);
  const auto& f = layer.inode(layer.find(b, "f"));
  CHECK(f.mtime == format::Timestamp{-2, 250'000'000});
  CHECK(f.object == MemorySink::digest_of("hi\n"));
}

TEST_CASE("hard links of files, symlinks and FIFOs are found") {
  const TempDir dir;
  shell(dir.path(), "mkdir src src/d; cd src; echo x > z; ln z d/a; ln z y; ln -s t s; ln s d/s; mkfifo p; ln p d/p");
  const auto read = read_source("dir:src", dir.path());
  REQUIRE(read);
  CHECK(outline(read->layers[0]) ==
        "/d directory\n/d/a regular\n/d/p fifo\n/d/s symlink target=t\n/p link to=/d/p\n"
        "/s link to=/d/s\n/y link to=/d/a\n/z link to=/d/a\n");
  CHECK(read->last_sink.files().size() == 1);
}

TEST_CASE("sockets are kept") {
  const TempDir dir;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = dir / "s";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  ::close(fd);
  const auto read = read_source("dir:" + dir.path().string());
  REQUIRE(read);
  CHECK(outline(read->layers[0]) == "/s socket\n");
}

TEST_CASE("holes are found, not read") {
  const TempDir dir;
  shell(dir.path(),
        "mkdir src; truncate -s 1T src/f; printf x | dd of=src/f bs=1 seek=1G conv=notrunc status=none; "
        "truncate -s 1G src/f; truncate -s 4G src/g");
  const auto read = read_source("dir:src", dir.path());
  REQUIRE(read);
  REQUIRE(read->last_sink.files().size() == 2);
  CHECK(read->last_sink.files()[1].holes.size() == 1);
}

TEST_CASE("directories nested deeper than the open-file limit are read") {
  const TempDir dir;
  shell(
      dir.path(),
      "mkdir src; cd src; d=d; for i in 1 2 3 4 5 6 7 8; do d=$d/$d; done; mkdir -p $d x; echo 1 > $d/f; echo 2 > x/g");
  const auto read = read_source("dir:src", dir.path());
  INFO(message_of(read));
  REQUIRE(read);
  const std::string tree = outline(read->layers[0]);
  CHECK(std::count(tree.begin(), tree.end(), '\n') == 256 + 1 + 2);
}

TEST_CASE("a symlink is never followed, also when it replaces a directory") {
  const TempDir dir;
  shell(dir.path(), "mkdir src out; echo secret > out/f; ln -s ../out src/d; ln -s ../out/f src/f");
  const auto read = read_source("dir:src", dir.path());
  REQUIRE(read);
  CHECK(outline(read->layers[0]) == "/d symlink target=../out\n/f symlink target=../out/f\n");
}

TEST_CASE("a file that changes while it is read is an error") {
  const TempDir dir;
  MemorySink sink;
  const auto copy_after = [&](const std::string& script) {
    shell(dir.path(), "head -c 100000 /dev/urandom > f");
    const auto directory = open_file(dir.path(), O_RDONLY | O_DIRECTORY);
    const auto entry = read_live_entry(*directory, "f");
    REQUIRE(entry);
    shell(dir.path(), script);
    sink = MemorySink();
    REQUIRE(sink.begin());
    return message_of(copy_live_content(entry->fd, entry->attributes, sink, {}));
  };
  CHECK(copy_after("true") == "no error");
  CHECK_THAT(copy_after("truncate -s 50000 f"), Contains("shorter"));
  CHECK_THAT(copy_after("echo more >> f"), Contains("changed"));
  CHECK_THAT(copy_after("sleep 0.02; printf x | dd of=f conv=notrunc status=none"), Contains("changed"));
}

TEST_CASE("names that vanish or cannot be read are errors that name them") {
  const TempDir dir;
  const auto directory = open_file(dir.path(), O_RDONLY | O_DIRECTORY);
  CHECK_THAT(message_of(read_live_entry(*directory, "gone")), Contains("vanished"));
  CHECK(read_live_entry(*directory, "gone").error().code == ErrorCode::io);
}

TEST_CASE("a source directory that is missing is not found, one that is a file is refused") {
  const TempDir dir;
  write_file(dir / "f", "x");
  CHECK(open_source("dir:none", dir.path()).error().code == ErrorCode::not_found);
  CHECK_FALSE(open_source("dir:f", dir.path()));
}

TEST_CASE("a directory of many entries is read whole") {
  const TempDir dir;
  shell(dir.path(), "mkdir src; cd src; seq 20000 | xargs touch");
  const auto read = read_source("dir:src", dir.path());
  REQUIRE(read);
  CHECK(read->layers[0].children(0).size() == 20000);
}
