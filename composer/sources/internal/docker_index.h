// SPDX-License-Identifier: Apache-2.0
// The files inside a "docker save" archive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "composer/sources/internal/byte_stream.h"

namespace dsec::composer {

// An uncompressed archive whose members can be read at random: read once for the places of its files. A compressed one
// is first unpacked to an unnamed file in $TMPDIR (/tmp), which is gone when this object is.
class DockerIndex {
 public:
  // Refused beyond: more members than an image of kMaxLayers layers can have.
  static constexpr std::size_t kMaxMembers = 65536;

  // Errors as for the tar reader.
  static Result<DockerIndex> open(const std::filesystem::path& path);

  struct Member {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  // The file of a name; symlinks and hard links inside the archive are followed. `invalid` when there is none: the
  // caller asks for what the archive's own manifest names.
  [[nodiscard]] Result<Member> find(std::string_view name) const;
  // A whole small file of at most kMaxDocumentBytes.
  [[nodiscard]] Result<std::string> read(std::string_view name) const;
  [[nodiscard]] std::unique_ptr<ByteStream> stream(Member member) const {
    return std::make_unique<FileStream>(file_.fd, member.offset, member.size);
  }

 private:
  Result<void> scan();

  OpenFile file_;
  std::map<std::string, Member, std::less<>> files_;
  std::map<std::string, std::string, std::less<>> links_;  // name -> the name it stands for
};

}  // namespace dsec::composer
