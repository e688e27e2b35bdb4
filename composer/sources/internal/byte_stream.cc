// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/internal/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace dsec::composer {

Result<void> drain(ByteStream& stream) {
  Bytes buffer(kStreamBufferBytes);
  while (TRY(stream.read(buffer)) > 0) {
  }
  return {};
}

Result<std::size_t> FileStream::read(std::span<std::uint8_t> out) {
  const std::size_t want = std::min<std::uint64_t>(out.size(), left_);
  if (want == 0) return 0;
  ssize_t got = 0;
  do {
    got = ::pread(fd_->get(), out.data(), want, static_cast<off_t>(offset_));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return fail_sys(errno, "reading the file");
  if (got == 0) return fail(ErrorCode::corrupt, "the file ends early: {} more bytes should follow", left_);
  offset_ += got;
  left_ -= got;
  return static_cast<std::size_t>(got);
}

std::uint64_t FileStream::seek_ahead(std::uint64_t count) {
  const std::uint64_t passed = std::min(count, left_);
  offset_ += passed;
  left_ -= passed;
  return passed;
}

Result<OpenFile> open_regular(const std::filesystem::path& path) {
  Fd fd = TRY(open_file(path, O_RDONLY | O_NONBLOCK));
  const struct stat attributes = TRY(stat_fd(fd));
  if (!S_ISREG(attributes.st_mode)) return fail(ErrorCode::invalid, "{} is no regular file", path.string());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return OpenFile{std::make_shared<const Fd>(std::move(fd)), static_cast<std::uint64_t>(attributes.st_size)};
}

Result<std::string> read_regular(const OpenFile& file, std::uint64_t limit, std::string_view what) {
  if (file.size > limit) {
    return fail(ErrorCode::invalid, "{} has {} bytes; at most {} are read", what, file.size, limit);
  }
  std::string text(file.size, '\0');
  TRY(pread_exact(*file.fd, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0));
  return text;
}

HashingStream::HashingStream(std::unique_ptr<ByteStream> inner, Hash hash, std::function<void(std::uint64_t)> seen)
    : inner_(std::move(inner)), seen_(std::move(seen)) {
  if (hash == Hash::yes) sha_.emplace();
}

Result<std::size_t> HashingStream::read(std::span<std::uint8_t> out) {
  const std::size_t got = TRY(inner_->read(out));
  if (sha_) sha_->update({out.data(), got});
  size_ += got;
  if (seen_ && got > 0) seen_(got);
  return got;
}

Result<ByteView> StreamReader::read(std::uint64_t most) {
  if (begin_ == end_) {
    begin_ = 0;
    end_ = TRY(stream_.read(buffer_));
  }
  const std::size_t count = std::min<std::uint64_t>(most, end_ - begin_);
  const ByteView view(buffer_.data() + begin_, count);
  begin_ += count;
  offset_ += count;
  return view;
}

Result<std::size_t> StreamReader::read_full(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ByteView part = TRY(read(out.size() - done));
    if (part.empty()) break;
    std::copy(part.begin(), part.end(), out.begin() + static_cast<std::ptrdiff_t>(done));
    done += part.size();
  }
  return done;
}

Result<std::uint64_t> StreamReader::skip(std::uint64_t count) {
  std::uint64_t done = 0;
  while (done < count) {
    if (begin_ == end_) {
      const std::uint64_t passed = stream_.seek_ahead(count - done);
      done += passed;
      offset_ += passed;
      if (passed > 0) continue;
    }
    const ByteView part = TRY(read(count - done));
    if (part.empty()) break;
    done += part.size();
  }
  return done;
}

}  // namespace dsec::composer
