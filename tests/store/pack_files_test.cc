// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "store/sources.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;
namespace fs = std::filesystem;

struct Fixture {
  TempDir dir;
  Store store = new_store(dir / "store");
  ChunkRequest chunk = put_pack(store, {bytes_of("some bytes")})[0];
  std::unique_ptr<PackReader> packs = pack_files(store, io::make_sync_engine());
  Result<PackBytes> read() {
    return packs->read({chunk.location.pack, chunk.location.offset, chunk.location.stored_bytes}, later());
  }
};

TEST_CASE("a pack that is gone is not found; a store that is gone is unavailable, and is used when it is back") {
  Fixture f;
  REQUIRE(f.read());
  const fs::path pack = f.store.pack_path(f.chunk.location.pack);
  fs::resize_file(pack, 3);  // the open file is no use: it is opened anew
  CHECK(f.read().error().code == ErrorCode::corrupt);
  fs::rename(pack, f.dir / "pack");
  CHECK(f.read().error().code == ErrorCode::not_found);
  CHECK(f.packs->size_of(f.chunk.location.pack, later()).error().code == ErrorCode::not_found);
  fs::rename(f.store.root(), f.dir / "away");
  const auto away = f.read();
  REQUIRE_FALSE(away);
  CHECK(away.error().code == ErrorCode::unavailable);
  CHECK_THAT(away.error().message, Catch::Contains(f.chunk.location.pack.hex()));
  CHECK(f.packs->size_of(f.chunk.location.pack, later()).error().code == ErrorCode::unavailable);
  fs::rename(f.dir / "away", f.store.root());
  fs::rename(f.dir / "pack", pack);
  fs::resize_file(pack, 1000);
  CHECK(f.read());
}

}  // namespace
}  // namespace dsec::store
