// SPDX-License-Identifier: Apache-2.0
// SHA-256 digests: the names of chunks, objects, packs, layers and environments.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace dsec {

// 32 bytes, compared as a big-endian number (memcmp order), which is also the order of its hex form.
struct Digest {
  static constexpr std::size_t kSize = 32;
  static constexpr std::size_t kHexSize = 64;

  std::array<std::uint8_t, kSize> bytes{};

  [[nodiscard]] std::string hex() const;
  // The first 12 hex digits, for messages and lists.
  [[nodiscard]] std::string brief() const { return hex().substr(0, 12); }
  [[nodiscard]] bool is_zero() const { return *this == Digest{}; }
  [[nodiscard]] ByteView view() const { return bytes; }

  // Exactly 64 lower-case hex digits; anything else is `invalid`.
  static Result<Digest> parse(std::string_view hex);
  // `bytes` must have 32 bytes.
  static Digest from_bytes(ByteView bytes);

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

// SHA-256 of one buffer.
Digest sha256(ByteView bytes);

// SHA-256 of a stream. Not thread-safe; one object hashes one stream and is spent after finish().
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteView bytes);
  Digest finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsec

template <>
struct std::hash<dsec::Digest> {
  // Digests are uniform already: their first bytes are the hash.
  std::size_t operator()(const dsec::Digest& digest) const noexcept {
    std::size_t value = 0;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};
