// SPDX-License-Identifier: Apache-2.0
// TOML files that people write: manifests and configuration, with the place of every mistake.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsec {

// One table of a TOML document. Every key that is asked for counts as known; finish() then refuses the others, so the
// list of known keys is the code that reads them. Errors are `invalid` and start with "FILE:LINE: ". A value of the
// wrong type is an error; an absent key is an empty optional. Copies share the document. Not thread-safe.
class TomlTable {
 public:
  // Parses text; `file` names it in errors.
  static Result<TomlTable> parse(std::string_view text, std::string file);
  static Result<TomlTable> load(const std::filesystem::path& path);

  Result<std::optional<std::string>> text(std::string_view key);
  Result<std::optional<std::int64_t>> integer(std::string_view key);
  Result<std::optional<double>> number(std::string_view key);
  Result<std::optional<bool>> boolean(std::string_view key);
  Result<std::optional<std::vector<std::string>>> texts(std::string_view key);
  Result<std::optional<TomlTable>> table(std::string_view key);
  Result<std::vector<TomlTable>> tables(std::string_view key);  // [[key]], empty when absent
  // All of a free-form table of strings (`env = { A = "1" }`), in the order of its keys.
  Result<std::vector<std::pair<std::string, std::string>>> text_map();

  [[nodiscard]] bool has(std::string_view key) const;
  // An error when there is a key that nothing asked for; it names the nearest known key.
  Result<void> finish() const;

  // "FILE:LINE" of a key, or of the table when the key is absent: for errors that the caller finds.
  [[nodiscard]] std::string where(std::string_view key = {}) const;

 private:
  struct Document;
  struct Node;
  TomlTable(std::shared_ptr<const Document> document, std::shared_ptr<const Node> node);

  std::shared_ptr<const Document> document_;
  std::shared_ptr<const Node> node_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace dsec
