// SPDX-License-Identifier: Apache-2.0
// Sequences of bytes that are read once, from front to back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/result.h"

namespace dsec::composer {

inline constexpr std::size_t kStreamBufferBytes = std::size_t{1} << 20;

// Not thread-safe. After an error a stream is only good for destruction.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Up to out.size() bytes, which is not 0; returns 0 at the end and only there.
  virtual Result<std::size_t> read(std::span<std::uint8_t> out) = 0;
  // Passes over up to `count` bytes without reading them, as far as the stream can; returns how many.
  virtual std::uint64_t seek_ahead(std::uint64_t /*count*/) { return 0; }
};

// Reads to the end and forgets the bytes.
Result<void> drain(ByteStream& stream);

// A part of a regular file. Several may share the descriptor. A file that is shorter than the part is `corrupt`.
class FileStream : public ByteStream {
 public:
  FileStream(std::shared_ptr<const Fd> fd, std::uint64_t offset, std::uint64_t size)
      : fd_(std::move(fd)), offset_(offset), left_(size) {}
  Result<std::size_t> read(std::span<std::uint8_t> out) override;
  std::uint64_t seek_ahead(std::uint64_t count) override;

 private:
  std::shared_ptr<const Fd> fd_;
  std::uint64_t offset_;
  std::uint64_t left_;
};

// A regular file opened for reading, and its size. `invalid` when it is something else: a FIFO would block for ever.
struct OpenFile {
  std::shared_ptr<const Fd> fd;
  std::uint64_t size = 0;
};
Result<OpenFile> open_regular(const std::filesystem::path& path);
// The whole of a small one; `invalid` when it has more than `limit` bytes, naming `what`.
Result<std::string> read_regular(const OpenFile& file, std::uint64_t limit, std::string_view what);

// Passes another stream on, hashes and counts it, and tells `seen` (may be empty) how many bytes each read gave.
class HashingStream : public ByteStream {
 public:
  enum class Hash { yes, no };
  HashingStream(std::unique_ptr<ByteStream> inner, Hash hash, std::function<void(std::uint64_t)> seen = {});
  Result<std::size_t> read(std::span<std::uint8_t> out) override;

  // Of what was read; the hash is spent afterwards.
  Digest digest() { return sha_->finish(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  std::unique_ptr<ByteStream> inner_;
  std::optional<Sha256> sha_;
  std::function<void(std::uint64_t)> seen_;
  std::uint64_t size_ = 0;
};

// Views into a stream through one buffer of kStreamBufferBytes.
class StreamReader {
 public:
  explicit StreamReader(ByteStream& stream) : stream_(stream), buffer_(kStreamBufferBytes) {}

  // The next 1 to `most` bytes, valid until the next call; empty at the end.
  Result<ByteView> read(std::uint64_t most);
  // The next out.size() bytes; fewer only at the end. Returns how many.
  Result<std::size_t> read_full(std::span<std::uint8_t> out);
  // Passes over bytes; returns how many there were.
  Result<std::uint64_t> skip(std::uint64_t count);
  // Of the next byte, from where the reader started.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  ByteStream& stream_;
  Bytes buffer_;
  std::size_t begin_ = 0;  // unread bytes of buffer_
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace dsec::composer
