// SPDX-License-Identifier: Apache-2.0
// What the tests of lazyfs/ share: chunks that are made up, sources that do as they are told.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "store/chunk_source.h"
#include "store/store.h"
#include "support/temp_dir.h"

namespace dsec::test {

// Bytes that no compressor shrinks, the same for the same seed.
Bytes noise(std::uint64_t seed, std::size_t size);
inline Digest digest_of(std::string_view text) { return sha256(as_bytes(text)); }
// Any time that does not pass during a test.
store::Deadline later();

// A store with chunks, in packs that the test fills by hand.
store::Store new_store(const std::filesystem::path& root);
// Writes a pack of these chunks into the store; requests for them, in their order.
std::vector<store::ChunkRequest> put_pack(const store::Store& store, const std::vector<Bytes>& chunks);

// Overwrites bytes of a file, as a bad disk does.
void damage(const std::filesystem::path& file, std::uint64_t offset, std::string_view bytes);
std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, std::string_view text);
std::size_t count_files(const std::filesystem::path& dir);

// Calls a function for each fetch and counts.
class ScriptedSource final : public store::ChunkSource {
 public:
  using Script = std::function<Result<store::Chunk>(const store::ChunkRequest&, store::Deadline)>;
  explicit ScriptedSource(Script script,
                          std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0))
      : script_(std::move(script)), calls_(std::move(calls)) {}
  Result<store::Chunk> fetch(const store::ChunkRequest& request, store::Deadline deadline) override {
    ++*calls_;
    return script_(request, deadline);
  }

 private:
  Script script_;
  std::shared_ptr<std::atomic<int>> calls_;
};

inline store::Chunk chunk_of(Bytes bytes) {
  const std::uint64_t size = bytes.size();
  return {std::make_shared<const Bytes>(std::move(bytes)), store::Origin::store, size};
}
inline Bytes bytes_of(std::string_view text) { return Bytes(text.begin(), text.end()); }

}  // namespace dsec::test
