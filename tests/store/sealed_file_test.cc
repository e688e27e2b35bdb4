// SPDX-License-Identifier: Apache-2.0
// Files that tell whether they are whole.
#include "store/sealed_file.h"

#include <catch2/catch.hpp>

#include "store/store_support.h"

namespace dsec::store {
namespace {

namespace fs = std::filesystem;
using dsec::test::TempDir;

struct Sealed {
  Sealed() { fs::create_directory(tmp); }
  TempDir dir;
  fs::path tmp = dir / "tmp";
  fs::path path = dir / "file";
};

TEST_CASE("what was sealed is read back, and begins the file") {
  Sealed test;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, SealedFile::kSliceBytes, SealedFile::kSliceBytes + 1}) {
    const Bytes content = dsec::test::noise(size, size);
    REQUIRE(SealedFile::write(test.tmp, test.path, content));
    const auto file = SealedFile::open(test.path);
    REQUIRE(file);
    CHECK(Bytes(file->content().begin(), file->content().end()) == content);
    CHECK(dsec::test::read_text(test.path).substr(0, size) == as_text(content));
  }
}

TEST_CASE("a file that was changed, cut or never sealed is corrupt, an absent one not found") {
  Sealed test;
  CHECK(SealedFile::open(test.path).error().code == ErrorCode::not_found);
  REQUIRE(SealedFile::write(test.tmp, test.path, dsec::test::noise(1, 5000)));
  const std::string good = dsec::test::read_text(test.path);
  std::vector<std::string> all{good.substr(0, 5000), good.substr(1), "short", ""};
  for (const std::size_t at : {std::size_t{0}, std::size_t{4999}, good.size() - 1}) {
    all.push_back(good);
    all.back()[at] ^= 1;
  }
  for (const std::string& bad : all) {
    dsec::test::write_text(test.path, bad);
    const auto file = SealedFile::open(test.path);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == ErrorCode::corrupt);
  }
}

TEST_CASE("stopped while it is written, it is not there and leaves nothing") {
  Sealed test;
  int asked = 0;
  const auto stopped = SealedFile::write(test.tmp, test.path, dsec::test::noise(1, SealedFile::kSliceBytes + 1),
                                         [&] { return ++asked == 2; });
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == ErrorCode::unavailable);
  CHECK_FALSE(fs::exists(test.path));
  CHECK(fs::is_empty(test.tmp));
}

}  // namespace
}  // namespace dsec::store
