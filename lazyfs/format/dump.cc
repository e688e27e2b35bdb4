// SPDX-License-Identifier: Apache-2.0
#include "format/dump.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/text.h"

namespace dsec::format {

namespace {

constexpr std::string_view kLinkWord = "link";
constexpr std::string_view kXattrKey = "xattr:";

// escaped(), and also what separates words and values.
std::string word(std::string_view bytes) {
  std::string text;
  for (const char c : escaped(bytes)) {
    if (c == ' ')
      text += "\\x20";
    else if (c == '=')
      text += "\\x3d";
    else
      text += c;
  }
  return text;
}

std::string time_text(const Timestamp& time) {
  return time.nsec == 0 ? fmt::format("{}", time.sec) : fmt::format("{}.{:09}", time.sec, time.nsec);
}

std::string attributes(const Inode& inode) {
  std::string text;
  if (inode.type != FileType::whiteout) {
    text = fmt::format(" mode={:04o} uid={} gid={} mtime={}", inode.mode, inode.uid, inode.gid, time_text(inode.mtime));
  }
  if (inode.size > 0) text += fmt::format(" size={}", inode.size);
  if (!inode.object.is_zero()) text += fmt::format(" object={}", inode.object.hex());
  if (inode.type == FileType::symlink) text += fmt::format(" target={}", word(inode.target));
  if (inode.type == FileType::char_device || inode.type == FileType::block_device) {
    text += fmt::format(" device={}:{}", inode.major, inode.minor);
  }
  if (inode.opaque) text += " opaque";
  for (const auto& [name, value] : inode.xattrs) text += fmt::format(" {}{}={}", kXattrKey, word(name), word(value));
  return text;
}

class Dumper {
 public:
  explicit Dumper(const LayerTree& tree) : tree_(tree), first_paths_(tree.capacity()) {}

  std::string run() {
    waiting_.push_back({"/", LayerTree::root()});
    while (!waiting_.empty()) {
      const Name next = std::move(waiting_.back());
      waiting_.pop_back();
      line(next);
      const auto& children = tree_.children(next.id);
      const std::string prefix = next.id == LayerTree::root() ? "/" : next.path + "/";
      for (auto child = children.rbegin(); child != children.rend(); ++child) {
        waiting_.push_back({prefix + word(child->first), child->second});
      }
    }
    return std::move(text_);
  }

 private:
  struct Name {
    std::string path;
    InodeId id;
  };

  void line(const Name& name) {
    std::string& first = first_paths_[name.id];
    if (first.empty()) {
      const Inode& inode = tree_.inode(name.id);
      text_ += fmt::format("{} {}{}\n", name.path, to_string(inode.type), attributes(inode));
      first = name.path;
    } else {
      text_ += fmt::format("{} {} to={}\n", name.path, kLinkWord, first);
    }
  }

  const LayerTree& tree_;
  std::vector<std::string> first_paths_;
  std::vector<Name> waiting_;
  std::string text_;
};

}  // namespace

std::string dump_layer(const LayerTree& tree) { return Dumper(tree).run(); }

namespace {

template <typename T>
Result<T> number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::invalid, "\"{}\" is no number that fits", escaped(text));
  }
  return value;
}

Result<Timestamp> parse_time(std::string_view text) {
  const std::size_t dot = text.find('.');
  Timestamp time;
  time.sec = TRY(number<std::int64_t>(text.substr(0, dot)));
  if (dot == std::string_view::npos) return time;
  if (text.size() - dot != 10) return fail(ErrorCode::invalid, "a fraction of a second has 9 digits");
  time.nsec = TRY(number<std::uint32_t>(text.substr(dot + 1)));
  return time;
}

Result<void> parse_device(std::string_view text, Inode& inode) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return fail(ErrorCode::invalid, "a device is MAJOR:MINOR");
  inode.major = TRY(number<std::uint32_t>(text.substr(0, colon)));
  inode.minor = TRY(number<std::uint32_t>(text.substr(colon + 1)));
  return {};
}

Result<FileType> parse_type(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(FileType::whiteout); ++i) {
    if (text == to_string(static_cast<FileType>(i))) return static_cast<FileType>(i);
  }
  return fail(ErrorCode::invalid, "unknown type \"{}\"", escaped(text));
}

// One "key=value" of a line. Each key is listed with the types that have it.
class AttributeParser {
 public:
  explicit AttributeParser(Inode& inode) : inode_(inode) {}

  Result<void> parse(std::string_view attribute) {
    const std::size_t equals = attribute.find('=');
    const std::string_view key = attribute.substr(0, equals);
    const bool has_value = equals != std::string_view::npos;
    if (!seen_.insert(key).second) return fail(ErrorCode::invalid, "\"{}\" is given twice", escaped(key));
    if (has_value == (key == "opaque")) return fail(ErrorCode::invalid, "\"{}\" is no attribute", escaped(attribute));
    if (!fits_type(key)) {
      return fail(ErrorCode::invalid, "a {} has no attribute \"{}\"", to_string(inode_.type), escaped(key));
    }
    return set(key, has_value ? attribute.substr(equals + 1) : std::string_view());
  }

 private:
  [[nodiscard]] bool fits_type(std::string_view key) const {
    if (inode_.type == FileType::whiteout) return false;
    if (key == "size" || key == "object") return inode_.type == FileType::regular;
    if (key == "target") return inode_.type == FileType::symlink;
    if (key == "opaque") return inode_.type == FileType::directory;
    if (key == "device") return inode_.type == FileType::char_device || inode_.type == FileType::block_device;
    return key == "mode" || key == "uid" || key == "gid" || key == "mtime" || starts_with(key, kXattrKey);
  }

  Result<void> set(std::string_view key, std::string_view value) {
    if (key == "mode") inode_.mode = TRY(number<std::uint16_t>(value, 8));
    if (key == "uid") inode_.uid = TRY(number<std::uint32_t>(value));
    if (key == "gid") inode_.gid = TRY(number<std::uint32_t>(value));
    if (key == "mtime") inode_.mtime = TRY(parse_time(value));
    if (key == "size") inode_.size = TRY(number<std::uint64_t>(value));
    if (key == "object") inode_.object = TRY(Digest::parse(value));
    if (key == "target") inode_.target = TRY(unescaped(value));
    if (key == "opaque") inode_.opaque = true;
    if (key == "device") TRY(parse_device(value, inode_));
    if (starts_with(key, kXattrKey)) {
      const std::string name = TRY(unescaped(key.substr(kXattrKey.size())));
      const bool fresh = inode_.xattrs.emplace(name, TRY(unescaped(value))).second;
      if (!fresh) return fail(ErrorCode::invalid, "the xattr \"{}\" is given twice", escaped(name));
    }
    return {};
  }

  Inode& inode_;
  std::set<std::string_view> seen_;
};

class Parser {
 public:
  Result<LayerTree> run(std::string_view text) {
    std::size_t number = 0;
    for (const std::string_view line : split(text, '\n')) {
      ++number;
      if (line.empty() || line.front() == '#') continue;
      TRY_IN(fmt::format("line {}", number), parse_line(line));
    }
    if (!has_root_) return fail(ErrorCode::invalid, "line {}: the text has no root directory", number);
    return std::move(tree_);
  }

 private:
  struct Place {
    InodeId directory;
    std::string name;
  };

  Result<void> parse_line(std::string_view line) {
    const auto words = split(line, ' ');
    if (words.size() < 2) return fail(ErrorCode::invalid, "expected a path and a type");
    const std::span<const std::string_view> attributes(words.begin() + 2, words.end());
    if (!has_root_) {
      if (words[0] != "/" || words[1] != "directory") return fail(ErrorCode::invalid, "expected \"/ directory\" first");
      has_root_ = true;
      tree_.inode(LayerTree::root()) = TRY(parse_inode(words[1], attributes));
      return {};
    }
    const Place place = TRY(find_place(words[0]));
    if (tree_.find(place.directory, place.name) != LayerTree::kNone) {
      return fail(ErrorCode::invalid, "\"{}\" is there already", escaped(words[0]));
    }
    if (words[1] == kLinkWord) return parse_link(place, attributes);
    TRY(tree_.add(place.directory, place.name, TRY(parse_inode(words[1], attributes))));
    return {};
  }

  static Result<Inode> parse_inode(std::string_view type, std::span<const std::string_view> attributes) {
    Inode inode;
    inode.type = TRY(parse_type(type));
    if (inode.type == FileType::directory)
      inode.mode = 0755;
    else if (inode.type != FileType::whiteout)
      inode.mode = 0644;
    AttributeParser parser(inode);
    for (const std::string_view attribute : attributes) TRY(parser.parse(attribute));
    return inode;
  }

  Result<void> parse_link(const Place& place, std::span<const std::string_view> attributes) {
    if (attributes.size() != 1 || !starts_with(attributes[0], "to=")) {
      return fail(ErrorCode::invalid, "a link has one attribute, to=PATH");
    }
    const std::string_view to = attributes[0].substr(3);
    const Place target = TRY(find_place(to));
    const InodeId id = tree_.find(target.directory, target.name);
    if (id == LayerTree::kNone) return fail(ErrorCode::invalid, "the link's target \"{}\" is not there", escaped(to));
    return tree_.link(place.directory, place.name, id);
  }

  // The directory that holds an absolute path, and its last name.
  [[nodiscard]] Result<Place> find_place(std::string_view path) const {
    auto parts = split(path, '/');
    if (parts.size() < 2 || !parts[0].empty()) {
      return fail(ErrorCode::invalid, "\"{}\" does not start with a slash", escaped(path));
    }
    Place place{LayerTree::root(), TRY(unescaped(parts.back()))};
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      place.directory = tree_.find(place.directory, TRY(unescaped(parts[i])));
      if (place.directory == LayerTree::kNone) {
        return fail(ErrorCode::invalid, "the directory of \"{}\" is not there", escaped(path));
      }
    }
    return place;
  }

  LayerTree tree_;
  bool has_root_ = false;
};

}  // namespace

Result<LayerTree> parse_dump(std::string_view text) { return Parser().run(text); }

}  // namespace dsec::format
