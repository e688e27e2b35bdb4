// SPDX-License-Identifier: Apache-2.0
// tar: sources, on archives by GNU tar, Python's tarfile and our own writer (archives.py).
#include <catch2/catch.hpp>

#include "composer/sources_support.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;
using Catch::Contains;
using format::FileType;
using format::Inode;

namespace fs = std::filesystem;

namespace {

// One case of archives.py, read as a tar: source.
struct Case {
  explicit Case(const std::string& case_name)
      : name(case_name), read(read_source("tar:" + case_name, fs::path(archive_case(case_name)).parent_path())) {}
  const format::LayerTree& layer() {
    if (!read) FAIL(read.error().message);
    return read->layers[0];
  }
  const Inode& inode(std::string_view path) {
    const auto id = layer().find(0, path);
    if (id == kNone) FAIL("no entry " << path);
    return layer().inode(id);
  }
  std::string name;
  Result<ReadSource> read;
};

std::string failure(const std::string& name) { return message_of(Case(name).read); }

}  // namespace

TEST_CASE("names and link targets are raw bytes, never composed or converted") {
  for (const char* locale : {"C", "C.UTF-8"}) {
    REQUIRE(::setlocale(LC_ALL, locale) != nullptr);
    Case pax("python_pax");
    CHECK(pax.inode("nfd-e\xcc\x81").size == 10);
    CHECK(pax.inode("nfc-\xc3\xa9").type == FileType::regular);
    CHECK(pax.inode("raw-\xff\xfe").type == FileType::regular);
    CHECK(pax.inode("link").target == "u\xcc\x88");
    CHECK(pax.inode("big").uid == 0xffffffffu);
    CHECK(pax.inode("big").gid == 0x80000000u);
  }
  ::setlocale(LC_ALL, "C");
}

TEST_CASE("long names of every format are whole") {
  const std::string name(200, 'n');
  CHECK(outline(Case("python_pax").layer()).find("/long/" + name + " regular") != std::string::npos);
  CHECK(outline(Case("python_gnu").layer()).find("/long/" + name + " regular") != std::string::npos);
  CHECK(outline(Case("python_ustar").layer()).find("/" + std::string(120, 'p') + "/" + std::string(90, 'n')) !=
        std::string::npos);
  CHECK(outline(Case("star").layer()) ==
        "/" + std::string(131, 'p') + " directory\n/" + std::string(131, 'p') + "/name regular\n");
}

TEST_CASE("v7 archives: a slash at the end makes a directory") {
  CHECK(outline(Case("v7").layer()) == "/d directory\n/f regular\n");
}

TEST_CASE("times before 1970 and fractions are exact") {
  CHECK(Case("python_gnu").inode("old").mtime == format::Timestamp{-5, 0});
  Case times("times");
  CHECK(times.inode("t0").mtime == format::Timestamp{0, 0});
  CHECK(times.inode("t1").mtime == format::Timestamp{1, 500'000'000});
  CHECK(times.inode("t2").mtime == format::Timestamp{-2, 500'000'000});
  CHECK(times.inode("t3").mtime == format::Timestamp{-1, 750'000'000});
  CHECK(times.inode("t4").mtime == format::Timestamp{-2, 0});
  CHECK(times.inode("t5").mtime == format::Timestamp{1, 1});
  CHECK(times.inode("t6").mtime == format::Timestamp{-2, 999'999'999});
  CHECK(times.inode("t7").mtime == format::Timestamp{1, 0});
  CHECK(times.inode("t8").mtime == format::Timestamp{3, 100'000'000});
  CHECK_THAT(failure("bad_mtime"), Contains("pax record \"mtime\"") && Contains("soon"));
}

TEST_CASE("xattrs are binary safe in both spellings") {
  Case libarchive("libarchive_xattrs");
  CHECK(libarchive.inode("f").xattrs ==
        format::Xattrs{{"user.a=b c", std::string("\0\xff\n=", 4)}, {"user.empty", ""}});
  Case schily("schily_xattrs");
  CHECK(schily.inode("f").xattrs ==
        format::Xattrs{{"user.bin", std::string("\0\n=\xff", 4)}, {"user.a=b%", "v"}, {"user.100%", "p"}});
}

TEST_CASE("ACLs as text become the kernel's form") {
  Case acl("acl_numeric");
  const auto& xattrs = acl.inode("f").xattrs;
  const std::string access(
      "\2\0\0\0"
      "\1\0\6\0\xff\xff\xff\xff"
      "\2\0\4\0\xd2\4\0\0"
      "\4\0\5\0\xff\xff\xff\xff"
      "\x08\0\3\0\xfe\xff\0\0"
      "\x10\0\5\0\xff\xff\xff\xff"
      "\x20\0\0\0\xff\xff\xff\xff",
      52);
  CHECK(xattrs.at("system.posix_acl_access") == access);
  CHECK(xattrs.at("system.posix_acl_default").size() == 28);
  CHECK(Case("acl_trivial").inode("f").xattrs.empty());
}

TEST_CASE("ACLs that cannot be translated are errors that say what to do") {
  CHECK_THAT(failure("acl_name"), Contains("lisa") && Contains("--xattrs") && Contains("entry \"f\""));
  CHECK_THAT(failure("acl_no_mask"), Contains("mask"));
  CHECK_THAT(failure("acl_junk"), Contains("nonsense"));
}

TEST_CASE("a global extended header holds until the next, an entry's own wins") {
  Case global("global");
  CHECK(global.inode("a").uid == 77);
  CHECK(global.inode("b").uid == 5);
  CHECK(global.inode("c").uid == 3);
}

TEST_CASE("entries without data have none, whatever their size field says") {
  CHECK(outline(Case("directory_with_size").layer()) == "/after regular\n/d directory\n");
  CHECK(outline(Case("link_with_size").layer()) == "/f regular\n/h link to=/f\n/z regular\n");
  CHECK(outline(Case("volume_label").layer()) == "/d directory\n/d/f regular\n");
  CHECK(outline(Case("dumpdir").layer()) == "/d directory\n/d/f regular\n");
}

TEST_CASE("archives that are broken are refused with the place") {
  CHECK_THAT(failure("unknown_type"), Contains("\"?\"") && Contains("entry \"q\"") && Contains("tar:unknown_type"));
  CHECK_THAT(failure("multi_volume"), Contains("\"M\""));
  CHECK_THAT(failure("slash_with_data"), Contains("slash"));
  CHECK_THAT(failure("no_end"), Contains("cut off"));
  CHECK_THAT(failure("cut_data"), Contains("entry \"f\"") && Contains("ends"));
  CHECK_THAT(failure("lone_zero_block"), Contains("lone zero block"));
  CHECK_THAT(failure("checksum"), Contains("checksum") && Contains("byte 0"));
  CHECK_THAT(failure("many_headers"), Contains("extended headers"));
  CHECK_THAT(failure("uid_33_bits"), Contains("uid"));
  CHECK_THAT(failure("old_sparse_overlap"), Contains("sparse"));
  CHECK_THAT(failure("old_sparse_outside"), Contains("sparse"));
  CHECK_THAT(failure("old_sparse_short"), Contains("sparse"));
  CHECK_THAT(failure("sparse_2.0"), Contains("version 2.0"));
  CHECK_THAT(failure("sparse_odd_map"), Contains("GNU.sparse.map"));
}

TEST_CASE("an empty file is an empty archive, noise after the end is ignored") {
  CHECK(outline(Case("empty").layer()).empty());
  CHECK(outline(Case("trailing_noise").layer()) == "/d directory\n/d/f regular\n");
}

TEST_CASE("gzip streams are verified to their end") {
  for (const char* good : {"two_members.gz", "garbage_after.gz", "zeros_after.gz", "good.bz2"}) {
    CHECK(outline(Case(good).layer()) == "/d directory\n/d/f regular\n");
  }
  CHECK_THAT(failure("bad_crc.gz"), Contains("gzip"));
  CHECK_THAT(failure("cut.gz"), Contains("gzip") && Contains("ends early"));
}

TEST_CASE("zstd and xz archives are read, damaged ones refused") {
  const TempDir dir;
  shell(dir.path(), "cp " + archive_case("good") +
                        " a; head -c 300000 /dev/urandom > r; tar -rf a r; "
                        "zstd -q -k --check a; xz -k a; head -c 200000 a.zst > cut.zst; head -c 200000 a.xz > cut.xz; "
                        "cp a.zst bad.zst; printf XXXX | dd of=bad.zst bs=1 seek=150000 conv=notrunc status=none");
  for (const char* name : {"a", "a.zst", "a.xz"}) {
    const auto read = read_source("tar:" + std::string(name), dir.path());
    INFO(message_of(read));
    REQUIRE(read);
    CHECK(outline(read->layers[0]) == "/d directory\n/d/f regular\n/r regular\n");
  }
  for (const char* name : {"cut.zst", "cut.xz", "bad.zst"})
    CHECK_FALSE(read_source("tar:" + std::string(name), dir.path()));
}

TEST_CASE("whiteout names are plain names in a tar") {
  Case plain("whiteouts");
  CHECK(plain.inode(".wh.gone").type == FileType::regular);
  CHECK(plain.inode("0:0").type == FileType::char_device);
}

TEST_CASE("all of GNU tar's sparse forms give the same file without materialising holes") {
  const TempDir dir;
  // 60 segments, so that the old form needs extension blocks and the 1.0 map more than a block.
  shell(dir.path(),
        "truncate -s 3G f; for i in $(seq 60); do printf %4096s $i | "
        "dd of=f bs=4096 seek=$((i * 10000)) conv=notrunc status=none; done; truncate -s 1M holes; "
        "for v in 0.0 0.1 1.0; do tar --format=posix -S --sparse-version=$v -cf p$v.tar f holes; done; "
        "tar --format=gnu -S -cf gnu.tar f holes");
  for (const char* name : {"p0.0.tar", "p0.1.tar", "p1.0.tar", "gnu.tar"}) {
    const auto read = read_source("tar:" + std::string(name), dir.path());
    INFO(name << ": " << message_of(read));
    REQUIRE(read);
    CHECK(outline(read->layers[0]) == "/f regular\n/holes regular\n");
    CHECK(read->layers[0].inode(read->layers[0].find(0, "f")).size == 3ull << 30);
    REQUIRE(read->last_sink.files().size() == 2);
    CHECK(read->last_sink.files()[0].holes.size() == 61);
    CHECK(read->last_sink.files()[1].holes == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 1 << 20}});
  }
}

TEST_CASE("progress tells the bytes read") {
  const TempDir dir;
  shell(dir.path(), "head -c 5000000 /dev/zero > f; tar -cf a.tar f");
  const auto source = open_source("tar:a.tar", dir.path());
  REQUIRE(source);
  const auto stream = (*source)->layer(0);
  REQUIRE(stream);
  format::LayerTree layer;
  auto builder = LayerBuilder::create(layer, nullptr);
  MemorySink sink;
  std::vector<std::uint64_t> said;
  REQUIRE((*stream)->apply(*builder, sink, [&](std::uint64_t bytes) { said.push_back(bytes); }));
  CHECK(said.size() >= 4);
  CHECK(said.back() == (*stream)->size_bytes());
  CHECK(std::is_sorted(said.begin(), said.end()));
}
