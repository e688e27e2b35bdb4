// SPDX-License-Identifier: Apache-2.0
// Small fixed recipes, packs, maps and environments, for golden files, damage and fuzzing corpora.
#pragma once

#include "format/env.h"
#include "format/location_map.h"
#include "format/pack.h"
#include "format/recipe.h"
#include "format/trace.h"

namespace dsec::format::test {

inline Digest digest_of(std::string_view text) { return sha256(as_bytes(text)); }

inline Recipe sample_recipe() {
  Recipe recipe;
  add_chunk(recipe, digest_of("first"), 70000);
  add_chunk(recipe, digest_of("second"), kChunkMaxBytes);
  add_hole(recipe, (std::uint64_t{5} << 30) + kHoleAlign);
  add_chunk(recipe, digest_of("last"), 1);
  return recipe;
}

// Chunks that are stored plain and compressed, and a recipe.
inline Bytes sample_pack() {
  Bytes pack = pack_header();
  std::vector<PackEntry> entries;
  const std::string repeated(500, 'r');
  const Bytes recipe = write_recipe(sample_recipe());
  for (const ByteView plain : {as_bytes("short"), as_bytes(repeated), ByteView(recipe)}) {
    const Encoded encoded = encode_chunk(plain, Effort::fast);
    const ByteView stored = encoded.codec == Codec::plain ? plain : ByteView(encoded.bytes);
    entries.push_back({sha256(plain), pack.size(), static_cast<std::uint32_t>(stored.size()),
                       static_cast<std::uint32_t>(plain.size()), encoded.codec});
    pack.insert(pack.end(), stored.begin(), stored.end());
  }
  const Bytes trailer = pack_trailer(std::move(entries), pack.size());
  pack.insert(pack.end(), trailer.begin(), trailer.end());
  return pack;
}

inline std::vector<MapEntry> sample_map() {
  const Digest one = digest_of("pack one");
  const Digest two = digest_of("pack two");
  return {{digest_of("a"), {one, kPackHeaderBytes, 100, 100, Codec::plain}},
          {digest_of("b"), {two, 5000000000, 100, 200, Codec::lz4}},
          {digest_of("c"), {one, 116, 1, 1, Codec::plain}}};
}

inline Trace sample_trace() { return {digest_of("c"), digest_of("a"), digest_of("b")}; }

inline Env sample_env() {
  Env env;
  env.layers = {digest_of("base"), digest_of("top")};
  env.config.entrypoint = {"/bin/sh", "-c"};
  env.config.cmd = {"echo \"\xc3\xa9\"\n"};
  env.config.env = {{"PATH", "/usr/bin:/bin"}, {"EMPTY", ""}, {"A", "b=c"}};
  env.config.workdir = "/work";
  env.config.user = "1000:1000";
  return env;
}

}  // namespace dsec::format::test
