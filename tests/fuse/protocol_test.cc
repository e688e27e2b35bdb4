// SPDX-License-Identifier: Apache-2.0
// The FUSE protocol without a kernel: what the session answers, packet by packet.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <random>
#include <set>

#include "fuse/fuse_client.h"
#include "tree/tree_support.h"

namespace dsec::fuse::test {
namespace {

using namespace dsec::test;
using tree::test::World;

struct Served {
  explicit Served(SessionOptions::Xattrs xattrs = SessionOptions::Xattrs::no) {
    names->attach(
        "env",
        world.env("env", {world.layer("/d directory mode=0750 uid=3 gid=4 mtime=5.600000000\n"
                                      "/d/hello regular mode=0640 uid=1 gid=2 mtime=7.000000008 content=hello\n"
                                      "/d/link symlink target=../d/hello\n/d/fifo fifo\n/d/tty char_device device=5:1\n"
                                      "/d/second link to=/d/hello"),
                          world.layer("/x regular content=x xattr:user.name=value")}));
    SessionOptions options;
    options.xattrs = xattrs;
    options.threads = 2;
    connection = std::make_unique<Connection>(names, options);
  }
  World world;
  std::shared_ptr<tree::Namespace> names = world.names();
  std::unique_ptr<Connection> connection;
};

Bytes getxattr(std::string_view name, std::uint32_t size) {
  fuse_getxattr_in in{};
  in.size = size;
  return packed(in, terminated(name));
}

TEST_CASE("INIT agrees on version 7, large reads, readdirplus always and cached symlinks") {
  const Served served;
  const Reply reply = served.connection->init();
  REQUIRE(reply.error == 0);
  const auto out = reply.as<fuse_init_out>();
  CHECK(out.major == 7);
  CHECK((out.flags & FUSE_DO_READDIRPLUS) != 0);
  CHECK((out.flags & FUSE_READDIRPLUS_AUTO) == 0);
  CHECK((out.flags & FUSE_CACHE_SYMLINKS) != 0);
  CHECK((out.flags & FUSE_MAX_PAGES) != 0);
  CHECK(out.max_pages == 256);
  CHECK((out.flags & FUSE_WRITEBACK_CACHE) == 0);
}

TEST_CASE("LOOKUP and GETATTR give all attributes, for ever") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t d = c.walk({"env", "d"});
  const auto entry = c.lookup(d, "hello").as<fuse_entry_out>();
  CHECK(entry.entry_valid > kForever);
  CHECK(entry.attr_valid > kForever);
  CHECK(entry.attr.ino == entry.nodeid);
  CHECK(entry.attr.mode == (S_IFREG | 0640));
  CHECK((entry.attr.uid == 1 && entry.attr.gid == 2));
  CHECK(entry.attr.size == 5);
  CHECK(entry.attr.nlink == 2);
  CHECK((entry.attr.mtime == 7 && entry.attr.mtimensec == 8));
  const Reply reply = c.call(FUSE_GETATTR, entry.nodeid, packed(fuse_getattr_in{}));
  const auto out = reply.as<fuse_attr_out>();
  CHECK(out.attr_valid > kForever);
  CHECK(std::memcmp(&out.attr, &entry.attr, sizeof out.attr) == 0);
  CHECK(c.lookup(d, "second").as<fuse_entry_out>().nodeid == entry.nodeid);
  CHECK(c.lookup(d, "fifo").as<fuse_entry_out>().attr.mode == (S_IFIFO | 0644));
  CHECK(c.lookup(d, "tty").as<fuse_entry_out>().attr.rdev == (5u << 8 | 1));
}

TEST_CASE("a name that is not there is remembered as such, but not in the root") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const Reply inside = c.lookup(c.walk({"env"}), "none");
  CHECK(inside.error == 0);
  CHECK(inside.as<fuse_entry_out>().nodeid == 0);
  CHECK(inside.as<fuse_entry_out>().entry_valid > kForever);
  CHECK(c.lookup(FUSE_ROOT_ID, "later").error == ENOENT);
}

struct Listed {
  std::string name;
  std::uint64_t node;
  std::uint32_t mode;
};

// A whole directory through READDIRPLUS, `size` bytes at a time.
std::vector<Listed> readdirplus(Connection& c, std::uint64_t node, std::uint32_t size) {
  std::vector<Listed> all;
  std::uint64_t offset = 0;
  for (int round = 0; round < 1000; ++round) {
    fuse_read_in in{};
    in.offset = offset;
    in.size = size;
    const Reply reply = c.call(FUSE_READDIRPLUS, node, packed(in));
    REQUIRE(reply.error == 0);
    REQUIRE(reply.body.size() <= size);
    if (reply.body.empty()) return all;
    for (std::size_t at = 0; at < reply.body.size();) {
      fuse_direntplus entry{};
      std::memcpy(&entry, reply.body.data() + at, std::min<std::size_t>(sizeof entry, reply.body.size() - at));
      const std::size_t header = offsetof(fuse_direntplus, dirent) + offsetof(fuse_dirent, name);
      all.push_back({std::string(reinterpret_cast<const char*>(reply.body.data()) + at + header, entry.dirent.namelen),
                     entry.entry_out.nodeid, entry.entry_out.attr.mode});
      offset = entry.dirent.off;
      at += FUSE_DIRENT_ALIGN(header + entry.dirent.namelen);
    }
  }
  FAIL("the directory does not end");
  return all;
}

TEST_CASE("READDIRPLUS gives every name once with its node, in pieces of any size") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t d = c.walk({"env", "d"});
  for (const std::uint32_t size : {180u, 400u, 4096u, 65536u}) {
    const auto all = readdirplus(c, d, size);
    std::string names;
    for (const Listed& entry : all) names += entry.name + " ";
    CHECK(names == ". .. fifo hello link second tty ");
    CHECK(all[0].node == 0);  // no reference is taken for these two
    CHECK(all[1].node == 0);
    CHECK(all[3].node == c.walk({"env", "d", "hello"}));
    CHECK(all[3].mode == (S_IFREG | 0640));
  }
  CHECK(readdirplus(c, FUSE_ROOT_ID, 4096).size() == 3);
}

TEST_CASE("READ gives the range that is asked for, cut at the end") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t file = c.walk({"env", "d", "hello"});
  CHECK(as_text(c.read(file, 0, 4096).body) == "hello");
  CHECK(as_text(c.read(file, 1, 3).body) == "ell");
  CHECK(c.read(file, 5, 10).body.empty());
  CHECK(c.read(file, std::uint64_t{1} << 62, 10).body.empty());
  CHECK(c.read(c.walk({"env", "d"}), 0, 10).error == EISDIR);
}

TEST_CASE("READLINK, STATFS and LSEEK are answered") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  CHECK(as_text(c.call(FUSE_READLINK, c.walk({"env", "d", "link"})).body) == "../d/hello");
  CHECK(c.call(FUSE_STATFS, FUSE_ROOT_ID).as<fuse_statfs_out>().st.namelen == 255);
  fuse_lseek_in in{};
  in.whence = SEEK_HOLE;
  const std::uint64_t file = c.walk({"env", "d", "hello"});
  CHECK(c.call(FUSE_LSEEK, file, packed(in)).as<fuse_lseek_out>().offset == 5);
  in.offset = 5;
  CHECK(c.call(FUSE_LSEEK, file, packed(in)).error == ENXIO);
  in.whence = SEEK_SET;
  CHECK(c.call(FUSE_LSEEK, file, packed(in)).error == EINVAL);
}

TEST_CASE("OPEN and OPENDIR are ENOSYS, so the kernel stops asking") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  CHECK(c.call(FUSE_OPEN, c.walk({"env", "d", "hello"}), packed(fuse_open_in{})).error == ENOSYS);
  CHECK(c.call(FUSE_OPENDIR, c.walk({"env", "d"}), packed(fuse_open_in{})).error == ENOSYS);
}

TEST_CASE("without xattrs every xattr request is ENOSYS, so the kernel stops asking") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t file = c.walk({"env", "x"});
  CHECK(c.call(FUSE_GETXATTR, file, getxattr("user.name", 0)).error == ENOSYS);
  CHECK(c.call(FUSE_LISTXATTR, file, packed(fuse_getxattr_in{})).error == ENOSYS);
}

TEST_CASE("with xattrs sizes, values, lists and their errors are as getxattr(2) says") {
  const Served served(SessionOptions::Xattrs::yes);
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t file = c.walk({"env", "x"});
  CHECK(c.call(FUSE_GETXATTR, file, getxattr("user.name", 0)).as<fuse_getxattr_out>().size == 5);
  CHECK(as_text(c.call(FUSE_GETXATTR, file, getxattr("user.name", 5)).body) == "value");
  CHECK(c.call(FUSE_GETXATTR, file, getxattr("user.name", 4)).error == ERANGE);
  CHECK(c.call(FUSE_GETXATTR, file, getxattr("user.none", 100)).error == ENODATA);
  fuse_getxattr_in list{};
  list.size = 100;
  CHECK(as_text(c.call(FUSE_LISTXATTR, file, packed(list)).body) == terminated("user.name"));
}

TEST_CASE("FORGET and INTERRUPT have no answer, and what comes after has one") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t file = c.walk({"env", "d", "hello"});
  fuse_forget_in forget{};
  forget.nlookup = 1;
  c.send(FUSE_FORGET, file, packed(forget));
  fuse_batch_forget_in batch{};
  batch.count = 1;
  fuse_forget_one one{};
  one.nodeid = file;
  one.nlookup = 1;
  const Bytes tail = packed(one);
  c.send(FUSE_BATCH_FORGET, 0, packed(batch, as_text(tail)));
  CHECK(as_text(c.read(file, 0, 10).body) == "hello");
}

TEST_CASE("whatever would change something, and what nobody knows, is refused") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t d = c.walk({"env", "d"});
  const Bytes zeros(200);
  for (const std::uint32_t opcode : {static_cast<std::uint32_t>(FUSE_SETATTR), static_cast<std::uint32_t>(FUSE_MKDIR),
                                     static_cast<std::uint32_t>(FUSE_UNLINK), static_cast<std::uint32_t>(FUSE_RENAME),
                                     static_cast<std::uint32_t>(FUSE_WRITE), static_cast<std::uint32_t>(FUSE_CREATE),
                                     static_cast<std::uint32_t>(FUSE_SETXATTR), static_cast<std::uint32_t>(FUSE_IOCTL),
                                     51u, 77u, 4000u, 0xffffffffu}) {
    INFO(opcode);
    CHECK(c.call(opcode, d, zeros).error == ENOSYS);
  }
}

TEST_CASE("node numbers that name nothing are ESTALE") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  for (const std::uint64_t node : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{99} << 32, ~std::uint64_t{0}}) {
    CHECK(c.call(FUSE_GETATTR, node, packed(fuse_getattr_in{})).error == ESTALE);
    CHECK(c.lookup(node, "x").error == ESTALE);
    CHECK(c.read(node, 0, 10).error == ESTALE);
  }
}

TEST_CASE("requests that come all at once are each answered exactly once") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t file = c.walk({"env", "d", "hello"});
  const std::uint64_t d = c.walk({"env", "d"});
  constexpr unsigned kSeed = 11;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  std::set<std::uint64_t> waiting;
  fuse_read_in in{};
  in.size = 4096;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 50; ++i) {
      switch (random() % 5) {
        case 0: waiting.insert(c.send(FUSE_READ, file, packed(in))); break;
        case 1: waiting.insert(c.send(FUSE_GETATTR, d, packed(fuse_getattr_in{}))); break;
        case 2: waiting.insert(c.send(FUSE_READDIRPLUS, d, packed(in))); break;
        case 3: waiting.insert(c.send(FUSE_OPEN, file, packed(fuse_open_in{}))); break;
        default:
          waiting.insert(c.send(FUSE_LOOKUP, d, bytes_of(terminated(random() % 2 == 0 ? "hello" : "none"))));
          break;
      }
    }
    while (!waiting.empty()) {
      const auto reply = c.receive();
      REQUIRE(reply);
      CHECK(waiting.erase(reply->unique) == 1);
    }
  }
  CHECK_FALSE(c.receive(std::chrono::milliseconds(50)));
}

TEST_CASE("random bodies to random nodes get one answer each and break nothing") {
  const Served served(SessionOptions::Xattrs::yes);
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t nodes[] = {
      FUSE_ROOT_ID, c.walk({"env"}), c.walk({"env", "d"}), c.walk({"env", "d", "hello"}), c.walk({"env", "d", "link"}),
      12345};
  const std::uint32_t opcodes[] = {FUSE_LOOKUP,    FUSE_GETATTR,     FUSE_READLINK, FUSE_READ,
                                   FUSE_READDIR,   FUSE_READDIRPLUS, FUSE_STATFS,   FUSE_LSEEK,
                                   FUSE_LISTXATTR, FUSE_GETXATTR,    FUSE_ACCESS,   FUSE_OPEN};
  constexpr unsigned kSeed = 5;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 3000; ++i) {
    Bytes body(64 + random() % 64);
    for (auto& byte : body) byte = static_cast<std::uint8_t>(random() % 4 == 0 ? random() : 0);
    // The kernel never asks for more than the buffer that it announced: 32 bits of size at 16 in READ, 0 in xattrs.
    for (const std::size_t at : {std::size_t{2}, std::size_t{3}, std::size_t{18}, std::size_t{19}}) body[at] = 0;
    body.back() = 0;
    const std::uint64_t unique =
        c.send(opcodes[random() % std::size(opcodes)], nodes[random() % std::size(nodes)], body);
    const auto reply = c.receive();
    REQUIRE(reply);
    REQUIRE(reply->unique == unique);
  }
  CHECK(as_text(c.read(nodes[3], 0, 10).body) == "hello");
}

TEST_CASE("a packet that is no request ends the session in order") {
  const Served served;
  served.connection->init();
  served.connection->send_raw(Bytes(7, 0xee));
  CHECK_FALSE(served.connection->receive(std::chrono::milliseconds(100)));
  CHECK(served.connection->hang_up());
}

TEST_CASE("a peer that hangs up ends the session, with requests under way too") {
  const Served served;
  Connection& c = *served.connection;
  c.init();
  const std::uint64_t file = c.walk({"env", "d", "hello"});
  fuse_read_in in{};
  in.size = 4096;
  for (int i = 0; i < 20; ++i) c.send(FUSE_READ, file, packed(in));
  CHECK(c.hang_up());
}

}  // namespace
}  // namespace dsec::fuse::test
