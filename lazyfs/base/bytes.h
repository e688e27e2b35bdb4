// SPDX-License-Identifier: Apache-2.0
// Byte buffers and bounds-checked little-endian reading and writing.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace dsec {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// `length` bytes at `offset`, or nothing when they do not all lie inside `bytes`. Never overflows.
inline std::optional<ByteView> slice(ByteView bytes, std::uint64_t offset, std::uint64_t length) {
  if (offset > bytes.size() || length > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, length);
}

// An unsigned integer stored little-endian at `data`; the caller has checked the bounds.
template <std::unsigned_integral T>
T load_le(const std::uint8_t* data) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (static_cast<T>(data[i]) << (8 * i)));
  return value;
}

template <std::unsigned_integral T>
void store_le(std::uint8_t* data, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) data[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

// Appends little-endian integers and raw bytes to a buffer that it does not own.
class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}

  template <std::unsigned_integral T>
  void put(T value) {
    const std::size_t at = out_.size();
    out_.resize(at + sizeof(T));
    store_le(out_.data() + at, value);
  }
  void put_bytes(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void put_zeros(std::size_t count) { out_.resize(out_.size() + count); }
  void align(std::size_t to) { put_zeros((to - out_.size() % to) % to); }
  [[nodiscard]] std::size_t size() const { return out_.size(); }

 private:
  Bytes& out_;
};

// Reads little-endian integers from a view. A read past the end yields zero and makes ok() false for good, so a parser
// may read a whole record and check once.
class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    const ByteView part = get_bytes(sizeof(T));
    return part.size() == sizeof(T) ? load_le<T>(part.data()) : T{0};
  }
  ByteView get_bytes(std::size_t count) {
    if (!ok_ || count > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    const ByteView part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t remaining() const { return bytes_.size() - at_; }

 private:
  ByteView bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace dsec
