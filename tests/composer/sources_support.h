// SPDX-License-Identifier: Apache-2.0
// What the tests of composer/sources share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "composer/content_sink.h"
#include "composer/sources/layer_builder.h"
#include "composer/sources/merged_tree.h"
#include "composer/sources/source.h"
#include "format/layer_tree.h"
#include "support/temp_dir.h"

namespace dsec::composer::test {

// Keeps a digest of each file's content and its holes; nothing else. The digest covers the size and the 4 KiB blocks
// that are not all zeros, so that it is the same for a hole and for its zeros, and large holes cost nothing.
class MemorySink : public ContentSink {
 public:
  struct File {
    std::uint64_t size = 0;
    Digest digest;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> holes;  // offset, length
  };

  Result<void> begin() override;
  Result<void> data(ByteView bytes) override;
  Result<void> hole(std::uint64_t length) override;
  Result<Ticket> end() override;
  Result<std::vector<Digest>> finish() override;

  [[nodiscard]] const std::vector<File>& files() const { return files_; }
  // What files of these bytes get.
  static Digest digest_of(std::string_view content);

 private:
  void flush_block();

  std::vector<File> files_;
  Sha256 sha_;
  Bytes block_;  // the block at the end of the file so far
  bool open_ = false;
};

using dsec::test::TempDir;

// Runs a shell script in `dir` and fails the test when it fails. Returns its output.
std::string shell(const std::filesystem::path& dir, const std::string& script);
bool have_program(const std::string& name);

// The path of a case of archives.py; all are written once per process.
std::string archive_case(const std::string& name);

// A file of bytes.
void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_text(const std::filesystem::path& path);

// The tree of a dump (format/dump.h) without its first line, which is always "/".
format::LayerTree tree_of(std::string_view lines);
MergedTree merged_of(std::string_view lines);
// The dump of a tree without the attributes in `hidden` ("mtime", "uid", ...) and without the root's line.
std::string brief(const format::LayerTree& tree, const std::vector<std::string>& hidden);
// Only "/path type" and what follows of "link to=", "target=" and "opaque".
std::string outline(const format::LayerTree& tree);

// All layers of a source, each applied on those before it.
struct ReadSource {
  std::vector<format::LayerTree> layers;
  MergedTree merged;
  MemorySink last_sink;  // of the topmost layer
};
Result<ReadSource> read_source(std::string_view spec, const std::filesystem::path& base_dir = "/");

// The message of a failure; fails the test when it is none.
template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

}  // namespace dsec::composer::test
