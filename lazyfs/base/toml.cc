// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <algorithm>
#include <cctype>

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include "base/fd.h"
#include "base/text.h"

namespace dsec {

namespace {

constexpr std::uint64_t kMaxTomlBytes = 16u << 20;
// Parts of one dotted key. toml++ makes a table of each and destroys them recursively, which takes stack.
constexpr int kMaxKeyParts = 64;

// The end of the string that starts with a quote at `at`.
std::size_t string_end(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string marks(text.substr(at, 3) == std::string(3, quote) ? 3 : 1, quote);
  for (std::size_t i = at + marks.size(); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (starts_with(text.substr(i), marks)) {
      i += marks.size();
      // A long string may end with two quotes of its own before the three.
      const std::size_t most = marks.size() == 3 ? std::min(text.size(), i + 2) : i;
      while (i < most && text[i] == quote) ++i;
      return i;
    } else if (text[i] == '\n' && marks.size() == 1) {
      return i;
    }
  }
  return text.size();
}

// The line of the first key with too many parts, 0 if there is none. Keys are runs of names, strings and dots.
std::size_t line_of_long_key(std::string_view text) {
  int parts = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const bool goes_on =
        c == ' ' || c == '\t' || c == '_' || c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (c == '"' || c == '\'') {
      i = string_end(text, i);
      continue;
    }
    if (c == '.' && ++parts > kMaxKeyParts) {
      return 1 +
             static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n'));
    }
    if (c != '.' && !goes_on) parts = 1;
    i = c == '#' ? std::min(text.find('\n', i), text.size()) : i + 1;
  }
  return 0;
}

}  // namespace

struct TomlTable::Document {
  std::string file;
  toml::table root;
};

struct TomlTable::Node {
  const toml::table* table;
};

TomlTable::TomlTable(std::shared_ptr<const Document> document, std::shared_ptr<const Node> node)
    : document_(std::move(document)), node_(std::move(node)) {}

Result<TomlTable> TomlTable::parse(std::string_view text, std::string file) {
  auto document = std::make_shared<Document>();
  document->file = std::move(file);
  if (const std::size_t line = line_of_long_key(text); line > 0) {
    return fail(ErrorCode::invalid, "{}:{}: a key has more than {} parts", document->file, line, kMaxKeyParts);
  }
  try {
    document->root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::invalid, "{}:{}: {}", document->file, error.source().begin.line, error.description());
  }
  auto node = std::make_shared<Node>(Node{&document->root});
  return TomlTable(std::move(document), std::move(node));
}

Result<TomlTable> TomlTable::load(const std::filesystem::path& path) {
  const Bytes bytes = TRY(read_file(path, kMaxTomlBytes));
  if (!is_utf8(as_text(bytes))) return fail(ErrorCode::invalid, "{} is no UTF-8 text", path.native());
  return parse(as_text(bytes), path.native());
}

bool TomlTable::has(std::string_view key) const { return node_->table->contains(key); }

std::string TomlTable::where(std::string_view key) const {
  const toml::node* node = key.empty() ? nullptr : node_->table->get(key);
  const auto line = node != nullptr ? node->source().begin.line : node_->table->source().begin.line;
  return fmt::format("{}:{}", document_->file, std::max<toml::source_index>(line, 1));
}

namespace {

// The value of `key` as T, nothing when absent, false in `right_type` when it is something else.
template <typename T>
std::optional<T> typed(const toml::table& table, std::string_view key, bool& right_type) {
  const toml::node* node = table.get(key);
  right_type = true;
  if (node == nullptr) return std::nullopt;
  std::optional<T> value = node->value_exact<T>();
  right_type = value.has_value();
  return value;
}

}  // namespace

#define DSEC_TOML_GETTER(name, type, wanted)                                                            \
  Result<std::optional<type>> TomlTable::name(std::string_view key) {                                   \
    asked_.emplace(key);                                                                                \
    bool right_type = true;                                                                             \
    auto value = typed<type>(*node_->table, key, right_type);                                           \
    if (!right_type) return fail(ErrorCode::invalid, "{}: \"{}\" must be {}", where(key), key, wanted); \
    return value;                                                                                       \
  }
DSEC_TOML_GETTER(text, std::string, "a string in quotes")
DSEC_TOML_GETTER(integer, std::int64_t, "a whole number")
DSEC_TOML_GETTER(boolean, bool, "true or false")
#undef DSEC_TOML_GETTER

Result<std::optional<double>> TomlTable::number(std::string_view key) {
  asked_.emplace(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) return std::optional<double>();
  if (!node->is_number()) return fail(ErrorCode::invalid, "{}: \"{}\" must be a number", where(key), key);
  return node->value<double>();
}

Result<std::optional<std::vector<std::string>>> TomlTable::texts(std::string_view key) {
  asked_.emplace(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) return std::optional<std::vector<std::string>>();
  const toml::array* array = node->as_array();
  std::vector<std::string> values;
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto value = array->get(i)->value_exact<std::string>();
    if (!value)
      array = nullptr;
    else
      values.push_back(*value);
  }
  if (array == nullptr) return fail(ErrorCode::invalid, "{}: \"{}\" must be a list of strings", where(key), key);
  return values;
}

Result<std::optional<TomlTable>> TomlTable::table(std::string_view key) {
  asked_.emplace(key);
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) return std::optional<TomlTable>();
  if (!node->is_table()) return fail(ErrorCode::invalid, "{}: \"{}\" must be a table", where(key), key);
  return TomlTable(document_, std::make_shared<Node>(Node{node->as_table()}));
}

Result<std::vector<TomlTable>> TomlTable::tables(std::string_view key) {
  asked_.emplace(key);
  std::vector<TomlTable> found;
  const toml::node* node = node_->table->get(key);
  if (node == nullptr) return found;
  const toml::array* array = node->as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (!array->get(i)->is_table())
      array = nullptr;
    else
      found.push_back(TomlTable(document_, std::make_shared<Node>(Node{array->get(i)->as_table()})));
  }
  if (array == nullptr) return fail(ErrorCode::invalid, "{}: \"{}\" must be written as [[{}]]", where(key), key, key);
  return found;
}

Result<std::vector<std::pair<std::string, std::string>>> TomlTable::text_map() {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [key, node] : *node_->table) {
    const std::string_view name = key.str();
    asked_.emplace(name);
    const auto value = node.value_exact<std::string>();
    if (!value) return fail(ErrorCode::invalid, "{}: \"{}\" must be a string in quotes", where(name), name);
    pairs.emplace_back(name, *value);
  }
  return pairs;
}

Result<void> TomlTable::finish() const {
  for (const auto& [key, node] : *node_->table) {
    const std::string_view name = key.str();
    if (asked_.find(name) != asked_.end()) continue;
    const std::vector<std::string_view> known(asked_.begin(), asked_.end());
    const std::string_view near = nearest(name, known);
    const std::string hint = near.empty() ? fmt::format("known keys: {}", fmt::join(known, ", "))
                                          : fmt::format("did you mean \"{}\"?", near);
    return fail(ErrorCode::invalid, "{}: unknown key \"{}\"; {}", where(name), name, hint);
  }
  return {};
}

}  // namespace dsec
