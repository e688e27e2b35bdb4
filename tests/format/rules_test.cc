// SPDX-License-Identifier: Apache-2.0
// The rules of docs/format.md and the tests that break them belong together.
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <set>

#include "format/trees.h"

using namespace dsec::format::test;

namespace {

std::set<int> ids_in(const std::string& text, const char* pattern) {
  std::set<int> ids;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) ids.insert(std::stoi((*it)[1]));
  return ids;
}

std::set<int> tested_ids() {
  std::set<int> ids;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path("").parent_path().parent_path())) {
    if (entry.path().extension() == ".cc") ids.merge(ids_in(read_text(entry.path()), "\"F-([0-9]+): "));
  }
  return ids;
}

}  // namespace

TEST_CASE("every rule that a reader can check has a test that breaks it, and every such test a rule") {
  // In the document a rule is "**F-12**"; one that binds writers or stores only is "**F-12** (w)".
  const std::string document = read_text(std::filesystem::path(DSEC_DOCS_DIR) / "format.md");
  const std::set<int> rules = ids_in(document, R"(\*\*F-([0-9]+)\*\*)");
  const std::set<int> writer_rules = ids_in(document, R"(\*\*F-([0-9]+)\*\* \(w\))");
  const std::set<int> tested = tested_ids();
  CHECK(rules.size() > 40);
  for (const int id : rules) {
    INFO("F-" << id);
    CHECK((tested.count(id) > 0 || writer_rules.count(id) > 0));
  }
  for (const int id : tested) {
    INFO("F-" << id);
    CHECK(rules.count(id) > 0);
  }
}
