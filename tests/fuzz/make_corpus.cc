// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of the fuzz targets: small good inputs of every kind.
#include <fcntl.h>

#include <catch2/catch.hpp>

#include "base/fd.h"
#include "format/dump.h"
#include "format/erofs.h"
#include "format/samples.h"
#include "format/trees.h"

using namespace dsec;
using namespace dsec::format;
using namespace dsec::format::test;

namespace {

void save(const std::string& target, const std::string& name, ByteView bytes) {
  const std::filesystem::path dir = std::filesystem::path(DSEC_CORPUS_DIR) / target;
  REQUIRE(make_dirs(dir));
  const auto fd = open_file(dir / name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  REQUIRE(fd);
  REQUIRE(write_all(*fd, bytes));
}

void save_tree(const std::string& name, const LayerTree& tree) {
  save("dump", name, as_bytes(dump_layer(tree)));
  save("layer", name, write_layer(tree).value());
}

// A tree with every type and escape that fits one block, for which the fuzzer needs few steps.
constexpr std::string_view kSmall =
    "/ directory mode=0755 xattr:user.k=v\n"
    "/b block_device device=8:1\n"
    "/c char_device device=0:0\n"
    "/d directory opaque\n"
    "/d/f regular size=5 object=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
    "/d/l link to=/d/f\n"
    "/p fifo\n"
    "/s socket xattr:trusted.overlay.opaque=y\n"
    "/w whiteout\n"
    "/y symlink target=d/f\n";

}  // namespace

TEST_CASE("seeds") {
  save_tree("tiny", golden_tree("tiny"));
  save_tree("empty", golden_tree("empty"));
  save_tree("small", parse_dump(kSmall).value());
  for (const std::uint64_t seed : {1, 2}) save_tree(fmt::format("random-{}", seed), random_tree(seed, 12));

  save("recipe", "sample", write_recipe(sample_recipe()));
  save("pack", "sample", sample_pack());
  save("map", "sample", write_location_map(sample_map()));
  save("map", "empty", write_location_map({}));
  Bytes trace = write_trace(sample_trace());
  trace.resize(trace.size() - Digest::kSize);
  save("trace", "sample", trace);
  save("env", "sample", as_bytes(write_env(sample_env()).value()));
  save("env", "env-ref", as_bytes("swe/django:4.2"));
  save("env", "layer-ref", as_bytes("base/debian@12"));

  const std::string text = "a text that repeats, a text that repeats, a text that repeats, a text that repeats";
  const Encoded encoded = encode_chunk(as_bytes(text), Effort::high);
  Bytes chunk(4);
  store_le(chunk.data(), static_cast<std::uint32_t>(text.size() << 12 | static_cast<std::uint32_t>(encoded.codec)));
  chunk.insert(chunk.end(), encoded.bytes.begin(), encoded.bytes.end());
  save("chunk", "lz4", chunk);
  chunk[0] = 0;
  save("chunk", "plain", chunk);
}
