// SPDX-License-Identifier: Apache-2.0
#include "store/sealed_file.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/checksum.h"

namespace dsec::store {

namespace {

constexpr std::uint64_t kMagic = 0x316c616573636473u;  // "dscseal1"
constexpr std::size_t kSealBytes = 16;

}  // namespace

ByteView SealedFile::content() const {
  const ByteView mapped = mapping_.view();
  return mapped.empty() ? ByteView(memory_) : mapped.first(mapped.size() - kSealBytes);
}

SealedFile SealedFile::in_memory(Bytes content) {
  SealedFile file;
  file.memory_ = std::move(content);
  return file;
}

Result<SealedFile> SealedFile::open(const std::filesystem::path& path) {
  SealedFile file;
  file.mapping_ = TRY(Mapping::of_file(path));
  const ByteView bytes = file.mapping_.view();
  if (bytes.size() < kSealBytes) return fail(ErrorCode::corrupt, "{} is too short", path.native());
  file.mapping_.populate();
  const std::uint8_t* const seal = bytes.data() + bytes.size() - kSealBytes;
  if (load_le<std::uint64_t>(seal + 8) != kMagic || load_le<std::uint64_t>(seal) != checksum64(file.content())) {
    return fail(ErrorCode::corrupt, "{} is damaged", path.native());
  }
  return file;
}

Result<void> SealedFile::write(const std::filesystem::path& tmp_dir, const std::filesystem::path& path,
                               ByteView content, const std::function<bool()>& stop) {
  Bytes seal;
  ByteWriter writer(seal);
  writer.put(checksum64(content));
  writer.put(kMagic);
  AtomicFile file = TRY(AtomicFile::create(tmp_dir));
  for (ByteView rest = content; !rest.empty(); rest = rest.subspan(std::min(rest.size(), kSliceBytes))) {
    if (stop && stop()) return fail(ErrorCode::unavailable, "stopped while {} was written", path.native());
    TRY(file.write(rest.first(std::min(rest.size(), kSliceBytes))));
  }
  TRY(file.write(seal));
  return file.replace(path);
}

}  // namespace dsec::store
