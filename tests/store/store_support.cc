// SPDX-License-Identifier: Apache-2.0
#include "store/store_support.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <random>

#include "format/pack.h"

namespace dsec::test {

namespace fs = std::filesystem;

Bytes noise(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

store::Deadline later() { return std::chrono::steady_clock::now() + std::chrono::minutes(5); }

store::Store new_store(const fs::path& root) {
  auto store = store::Store::open_or_create(root);
  if (!store) FAIL(store.error().message);
  return *store;
}

std::vector<store::ChunkRequest> put_pack(const store::Store& store, const std::vector<Bytes>& chunks) {
  Bytes pack = format::pack_header();
  std::vector<format::PackEntry> entries;
  for (const Bytes& plain : chunks) {
    const format::Encoded encoded = format::encode_chunk(plain, format::Effort::fast);
    const ByteView stored = encoded.codec == format::Codec::plain ? ByteView(plain) : ByteView(encoded.bytes);
    entries.push_back({sha256(plain), pack.size(), static_cast<std::uint32_t>(stored.size()),
                       static_cast<std::uint32_t>(plain.size()), encoded.codec});
    pack.insert(pack.end(), stored.begin(), stored.end());
  }
  const Bytes trailer = format::pack_trailer(entries, pack.size());
  pack.insert(pack.end(), trailer.begin(), trailer.end());
  const Digest name = sha256(pack);
  REQUIRE(write_file_atomic(store.tmp_dir(), store.pack_path(name), pack));
  std::vector<store::ChunkRequest> requests;
  for (const format::PackEntry& entry : entries) {
    requests.push_back({entry.digest,
                        {name, entry.offset, entry.stored_bytes, entry.plain_bytes, entry.codec},
                        digest_of("the layer")});
  }
  return requests;
}

void damage(const fs::path& file, std::uint64_t offset, std::string_view bytes) {
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(fd.valid());
  REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes.size()));
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const fs::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc).write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::size_t count_files(const fs::path& dir) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

}  // namespace dsec::test
