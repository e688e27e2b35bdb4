// SPDX-License-Identifier: Apache-2.0
#include "format/trees.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "base/fd.h"
#include "format/dump.h"

namespace dsec::format::test {

namespace {

constexpr std::string_view kXattrNames[] = {"user.mime",
                                            "user.x",
                                            "security.capability",
                                            "security.selinux",
                                            "system.posix_acl_access",
                                            "system.posix_acl_default",
                                            "trusted.note",
                                            "trusted.overlay.opaque",
                                            "trusted.overlay.whiteout",
                                            "trusted.overlay.redirect",
                                            "trusted.overlay.overlay.opaque",
                                            "trusted.overlay.dsec.device",
                                            "user.overlay.opaque"};

class RandomTree {
 public:
  RandomTree(std::uint64_t seed, std::size_t names) : random_(seed), names_(names) {}

  LayerTree run() {
    tree_.inode(LayerTree::root()) = inode(FileType::directory);
    for (std::size_t i = 0; i < names_; ++i) {
      const InodeId directory = directories_[below(directories_.size())];
      if (!links_.empty() && below(12) == 0)
        add_link(directory);
      else
        add_inode(directory);
    }
    return std::move(tree_);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  std::string bytes(std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>(below(256));
    return text;
  }

  // Of all lengths, and of bytes that are no text now and then.
  std::string name() {
    const std::size_t length = below(20) == 0 ? 1 + below(kMaxNameBytes) : 1 + below(12);
    std::string text = below(8) == 0 ? bytes(length) : std::string();
    while (text.size() < length) text += static_cast<char>('a' + below(26));
    for (char& c : text) {
      if (c == '/' || c == '\0') c = '_';
    }
    return text == "." || text == ".." ? "dots" : text;
  }

  void add_link(InodeId directory) {
    const InodeId target = links_[below(links_.size())];
    // A name that replaced the target's last one has removed it.
    if (tree_.link_count(target) > 0) REQUIRE(tree_.link(directory, fresh_name(directory), target));
  }

  // Names are never replaced, so that every inode stays.
  std::string fresh_name(InodeId directory) {
    std::string text = name();
    while (tree_.find(directory, text) != LayerTree::kNone) text = name();
    return text;
  }

  void add_inode(InodeId directory) {
    const auto type = below(3) == 0 ? FileType::directory : static_cast<FileType>(below(8));
    const std::string fresh = fresh_name(directory);  // before inode(): the order of arguments is the compiler's choice
    const auto id = tree_.add(directory, fresh, inode(type));
    REQUIRE(id);
    if (type == FileType::directory)
      directories_.push_back(*id);
    else if (type != FileType::whiteout)
      links_.push_back(*id);
  }

  Inode inode(FileType type) {
    Inode inode;
    inode.type = type;
    if (type == FileType::whiteout) return inode;
    inode.mode = static_cast<std::uint16_t>(below(010000));
    inode.uid = static_cast<std::uint32_t>(below(4) == 0 ? below(kNoOwner) : below(2000));
    inode.gid = static_cast<std::uint32_t>(below(4) == 0 ? below(kNoOwner) : below(2000));
    inode.mtime.sec = static_cast<std::int64_t>(below(4) == 0 ? random_() : below(2000000000));
    inode.mtime.nsec = static_cast<std::uint32_t>(below(1000000000));
    if (type == FileType::regular && below(4) != 0) {
      inode.size = 1 + (below(50) == 0 ? below(kMaxFileBytes) : below(100000));
      inode.object = sha256(as_bytes(bytes(8)));
    }
    if (type == FileType::symlink) set_target(inode);
    if (type == FileType::char_device || type == FileType::block_device) set_device(inode);
    if (type == FileType::directory) inode.opaque = below(8) == 0;
    if (below(3) == 0) set_xattrs(inode);
    return inode;
  }

  void set_target(Inode& inode) {
    inode.target = bytes(1 + (below(10) == 0 ? below(kMaxSymlinkBytes) : below(60)));
    for (char& c : inode.target) c = c == '\0' ? '/' : c;
  }

  void set_device(Inode& inode) {
    if (below(3) == 0) return;  // 0:0
    inode.major = static_cast<std::uint32_t>(below(kMaxMajor + 1));
    inode.minor = static_cast<std::uint32_t>(below(kMaxMinor + 1));
  }

  void set_xattrs(Inode& inode) {
    const bool zero = inode.type == FileType::char_device && inode.major == 0 && inode.minor == 0;
    for (std::uint64_t i = below(4); i > 0; --i) {
      const std::string_view key = kXattrNames[below(std::size(kXattrNames))];
      // The one combination that the format refuses (F-38).
      if (zero && key == "trusted.overlay.whiteout") continue;
      inode.xattrs.emplace(key, xattr_value(key));
    }
  }

  // The kernel interprets some values and refuses to work with bad ones; those are good.
  std::string xattr_value(std::string_view key) {
    using namespace std::string_view_literals;
    if (key == "security.capability") return std::string("\1\0\0\2\0\40\0\0\0\0\0\0\0\0\0\0\0\0\0\0"sv);
    if (key.substr(0, 7) == "system.") {
      return std::string("\2\0\0\0\1\0\7\0\377\377\377\377\4\0\5\0\377\377\377\377\40\0\5\0\377\377\377\377"sv);
    }
    return bytes(below(20) == 0 ? below(5000) : below(30));
  }

  std::mt19937_64 random_;
  std::size_t names_;
  LayerTree tree_;
  std::vector<InodeId> directories_{LayerTree::root()};
  std::vector<InodeId> links_;
};

}  // namespace

LayerTree random_tree(std::uint64_t seed, std::size_t names) { return RandomTree(seed, names).run(); }

LayerTree golden_tree(std::string_view name) {
  auto tree = parse_dump(read_text(golden_path(std::string(name) + ".dump")));
  INFO("golden/" << name << ".dump: " << (tree ? "" : tree.error().message));
  REQUIRE(tree);
  return std::move(*tree);
}

std::filesystem::path golden_path(std::string_view file) {
  return std::filesystem::path(DSEC_TEST_DIR) / "golden" / file;
}

std::string read_text(const std::filesystem::path& path) {
  const auto bytes = read_file(path, 64u << 20);
  INFO((bytes ? "" : bytes.error().message));
  REQUIRE(bytes);
  return std::string(as_text(*bytes));
}

void check_golden(std::string_view file, std::string_view text) {
  const char* accept = std::getenv("DSEC_ACCEPT");
  if (accept != nullptr && std::string_view(accept) == "1") {
    const auto fd = open_file(golden_path(file), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    REQUIRE(fd);
    REQUIRE(write_all(*fd, as_bytes(text)));
  }
  INFO("golden/" << file << "; run with DSEC_ACCEPT=1 to accept a change of the format");
  CHECK(read_text(golden_path(file)) == text);
}

std::string hex_lines(ByteView bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) text += fmt::format("{:02x}{}", bytes[i], i % 32 == 31 ? "\n" : "");
  return bytes.size() % 32 == 0 ? text : text + "\n";
}

}  // namespace dsec::format::test
