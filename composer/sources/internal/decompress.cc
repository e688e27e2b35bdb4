// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/decompress.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <array>

namespace dsec::composer {

const char* to_string(Compression compression) {
  switch (compression) {
    case Compression::none: return "uncompressed";
    case Compression::gzip: return "gzip";
    case Compression::zstd: return "zstd";
    case Compression::xz: return "xz";
    case Compression::bzip2: return "bzip2";
  }
  return "unknown";
}

Compression detect_compression(ByteView start) {
  using namespace std::string_view_literals;
  const std::string_view text = as_text(start);
  if (text.starts_with("\x1f\x8b"sv)) return Compression::gzip;
  if (text.starts_with("\x28\xb5\x2f\xfd"sv)) return Compression::zstd;
  if (text.size() >= 4 && (text[0] & 0xf0) == 0x50 && text.substr(1).starts_with("\x2a\x4d\x18"sv)) {
    return Compression::zstd;  // a skippable frame, as estargz and pzstd write first
  }
  if (text.starts_with("\xfd\x37\x7a\x58\x5a\x00"sv)) return Compression::xz;
  if (text.starts_with("BZh"sv)) return Compression::bzip2;
  return Compression::none;
}

namespace {

class GunzipStream : public ByteStream {
 public:
  explicit GunzipStream(std::unique_ptr<ByteStream> inner) : inner_(std::move(inner)), buffer_(kStreamBufferBytes) {
    constexpr int kGzipOnly = 15 + 16;  // largest window; expect the gzip format
    ready_ = ::inflateInit2(&zlib_, kGzipOnly) == Z_OK;
  }
  ~GunzipStream() override { ::inflateEnd(&zlib_); }
  GunzipStream(const GunzipStream&) = delete;
  GunzipStream& operator=(const GunzipStream&) = delete;

  Result<std::size_t> read(std::span<std::uint8_t> out) override {
    if (!ready_) return fail(ErrorCode::internal, "zlib cannot start");
    zlib_.next_out = out.data();
    zlib_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
    const uInt room = zlib_.avail_out;
    while (zlib_.avail_out == room) {
      if (between_members_ && !TRY(next_member())) return 0;
      TRY(fill());
      TRY(inflate_some());
    }
    return room - zlib_.avail_out;
  }

 private:
  Result<void> fill() {
    if (zlib_.avail_in > 0) return {};
    const std::size_t got = TRY(inner_->read(buffer_));
    if (got == 0) return fail(ErrorCode::corrupt, "the gzip stream ends early");
    zlib_.next_in = buffer_.data();
    zlib_.avail_in = static_cast<uInt>(got);
    return {};
  }

  Result<void> inflate_some() {
    const int status = ::inflate(&zlib_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      between_members_ = true;
      first_ = false;
      return {};
    }
    if (status == Z_OK || status == Z_BUF_ERROR) return {};
    return fail(ErrorCode::corrupt, "damaged gzip stream: {}", zlib_.msg != nullptr ? zlib_.msg : "not gzip");
  }

  // Is there one more member? The two bytes of its magic may lie in two reads.
  Result<bool> next_member() {
    if (done_) return false;
    if (!first_) {
      std::array<std::uint8_t, 2> magic{};
      std::size_t have = 0;
      while (have < magic.size() && TRY(peek(have))) magic[have] = zlib_.next_in[have], ++have;
      if (have < magic.size() || magic[0] != 0x1f || magic[1] != 0x8b) {
        done_ = true;
        TRY(drain(*inner_));
        return false;
      }
      ::inflateReset(&zlib_);
    }
    between_members_ = false;
    return true;
  }

  // Makes sure that `at` + 1 bytes are waiting (at most two are ever asked for); false at the end.
  Result<bool> peek(std::size_t at) {
    if (zlib_.avail_in > at) return true;
    std::copy_n(zlib_.next_in, zlib_.avail_in, buffer_.data());
    const std::size_t got = TRY(inner_->read(std::span(buffer_).subspan(zlib_.avail_in)));
    zlib_.next_in = buffer_.data();
    zlib_.avail_in += static_cast<uInt>(got);
    return got > 0;
  }

  std::unique_ptr<ByteStream> inner_;
  Bytes buffer_;
  z_stream zlib_{};
  bool ready_ = false;
  bool between_members_ = false;
  bool first_ = true;
  bool done_ = false;
};

// One of libarchive's filters, with its "raw" format so that it hands out the bytes.
class FilterStream : public ByteStream {
 public:
  FilterStream(std::unique_ptr<ByteStream> inner, Compression compression)
      : inner_(std::move(inner)), buffer_(kStreamBufferBytes), archive_(::archive_read_new()) {
    switch (compression) {
      case Compression::xz: ::archive_read_support_filter_xz(archive_.get()); break;
      case Compression::bzip2: ::archive_read_support_filter_bzip2(archive_.get()); break;
      default: ::archive_read_support_filter_zstd(archive_.get()); break;
    }
    ::archive_read_support_format_raw(archive_.get());
    ::archive_read_support_format_empty(archive_.get());
  }

  Result<std::size_t> read(std::span<std::uint8_t> out) override {
    if (!opened_) TRY(open());
    if (at_end_) return 0;
    const la_ssize_t got = ::archive_read_data(archive_.get(), out.data(), out.size());
    if (got < 0) return failed();
    at_end_ = got == 0;
    return static_cast<std::size_t>(got);
  }

 private:
  struct Close {
    void operator()(struct archive* archive) const { ::archive_read_free(archive); }
  };

  Result<void> open() {
    opened_ = true;
    if (::archive_read_open(archive_.get(), this, nullptr, &FilterStream::give, nullptr) != ARCHIVE_OK) return failed();
    struct archive_entry* entry = nullptr;
    const int status = ::archive_read_next_header(archive_.get(), &entry);
    at_end_ = status == ARCHIVE_EOF;
    if (status != ARCHIVE_OK && !at_end_) return failed();
    return {};
  }

  static la_ssize_t give(struct archive* /*archive*/, void* self, const void** data) {
    auto& stream = *static_cast<FilterStream*>(self);
    Result<std::size_t> got = stream.inner_->read(stream.buffer_);
    if (!got) {
      stream.error_ = std::move(got).error();
      return ARCHIVE_FATAL;
    }
    *data = stream.buffer_.data();
    return static_cast<la_ssize_t>(*got);
  }

  tl::unexpected<Error> failed() {
    if (error_) return tl::unexpected(*error_);
    const char* text = ::archive_error_string(archive_.get());
    return fail(ErrorCode::corrupt, "damaged compressed stream: {}", text != nullptr ? text : "unknown error");
  }

  std::unique_ptr<ByteStream> inner_;
  Bytes buffer_;
  std::unique_ptr<struct archive, Close> archive_;
  std::optional<Error> error_;  // of inner_, which libarchive cannot carry
  bool opened_ = false;
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> decompress(std::unique_ptr<ByteStream> inner, Compression compression) {
  switch (compression) {
    case Compression::none: return inner;
    case Compression::gzip: return std::make_unique<GunzipStream>(std::move(inner));
    default: return std::make_unique<FilterStream>(std::move(inner), compression);
  }
}

}  // namespace dsec::composer
