// SPDX-License-Identifier: Apache-2.0
#include "composer/pack_writer.h"

#include <sys/stat.h>

namespace dsec::composer {

namespace {
constexpr std::size_t kBufferBytes = 1 << 20;
}

Result<void> PackWriter::start() {
  open_.emplace(OpenPack{TRY(AtomicFile::create(store_.tmp_dir())), Sha256(), {}, {}, 0});
  return append(format::pack_header());
}

Result<void> PackWriter::append(ByteView bytes) {
  open_->buffer.insert(open_->buffer.end(), bytes.begin(), bytes.end());
  open_->size += bytes.size();
  written_bytes_ += bytes.size();
  return open_->buffer.size() >= kBufferBytes ? flush() : Result<void>();
}

Result<void> PackWriter::flush() {
  open_->hash.update(open_->buffer);
  TRY(open_->file.write(open_->buffer));
  open_->buffer.clear();
  return {};
}

Result<std::uint32_t> PackWriter::add(format::PackEntry& entry, ByteView stored) {
  if (!open_) TRY(start());
  entry.offset = open_->size;
  entry.stored_bytes = static_cast<std::uint32_t>(stored.size());
  open_->entries.push_back(entry);
  TRY(append(stored));
  const auto number = static_cast<std::uint32_t>(digests_.size());
  if (open_->size >= kPackTargetBytes) TRY(close());
  return number;
}

Result<void> PackWriter::close() {
  if (!open_) return {};
  TRY(append(format::pack_trailer(std::move(open_->entries), open_->size)));
  TRY(flush());
  digests_.push_back(open_->hash.finish());
  closed_.push_back(std::move(open_->file));
  open_.reset();
  for (const AtomicFile& file : closed_) ::futimens(file.fd().get(), nullptr);  // none of them is litter
  return {};
}

Result<void> PackWriter::finish() {
  TRY(close());
  for (std::size_t i = 0; i < closed_.size(); ++i) TRY(closed_[i].commit(store_.pack_path(digests_[i])));
  closed_.clear();
  return {};
}

}  // namespace dsec::composer
