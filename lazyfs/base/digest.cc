// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <openssl/evp.h>

#include <algorithm>

namespace dsec {

namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

// The value of every hex digit, kNoDigit for other bytes. A table: this runs for every file that is looked up.
constexpr std::uint8_t kNoDigit = 0xff;
constexpr std::array<std::uint8_t, 256> kHexValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (std::uint8_t i = 0; i < 16; ++i) values[static_cast<std::uint8_t>(kHexDigits[i])] = i;
  return values;
}();

// Fetched once: looking an algorithm up by name costs more than hashing a small chunk.
const EVP_MD* sha256_algorithm() {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

}  // namespace

std::string Digest::hex() const {
  std::string text(kHexSize, '0');
  for (std::size_t i = 0; i < kSize; ++i) {
    text[2 * i] = kHexDigits[bytes[i] >> 4];
    text[2 * i + 1] = kHexDigits[bytes[i] & 15];
  }
  return text;
}

Result<Digest> Digest::parse(std::string_view hex) {
  if (hex.size() != kHexSize) return fail(ErrorCode::invalid, "a digest has 64 hex digits, this has {}", hex.size());
  Digest digest;
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::uint8_t high = kHexValues[static_cast<std::uint8_t>(hex[2 * i])];
    const std::uint8_t low = kHexValues[static_cast<std::uint8_t>(hex[2 * i + 1])];
    if ((high | low) == kNoDigit) return fail(ErrorCode::invalid, "a digest has only the digits 0-9 and a-f");
    digest.bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return digest;
}

Digest Digest::from_bytes(ByteView bytes) {
  Digest digest;
  std::copy_n(bytes.begin(), std::min(bytes.size(), kSize), digest.bytes.begin());
  return digest;
}

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) { EVP_DigestInit_ex(impl_->context, sha256_algorithm(), nullptr); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteView bytes) { EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()); }

Digest Sha256::finish() {
  Digest digest;
  unsigned length = 0;
  EVP_DigestFinal_ex(impl_->context, digest.bytes.data(), &length);
  return digest;
}

Digest sha256(ByteView bytes) {
  Digest digest;
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.bytes.data(), &length, sha256_algorithm(), nullptr);
  return digest;
}

}  // namespace dsec
