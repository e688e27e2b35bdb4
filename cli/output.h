// SPDX-License-Identifier: Apache-2.0
// Output for people and programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace dsec::cli {

// Writes to standard output; an error (a full disk, a closed pipe) is `io`.
Result<void> print(const std::string& text);
// One document, indented, and a newline.
Result<void> print_json(const Json& document);

// Columns as wide as their widest cell; the last one is not padded. The first row is the heading.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

// A line that is drawn over and over on a terminal, at most ten times a second, and with `json` one of JSON as often;
// off a terminal there is nothing else than what say() is given for that. On standard error.
class ProgressLine {
 public:
  explicit ProgressLine(bool json);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `done` of `total` bytes (0: unknown) of what `label` names.
  void update(const std::string& label, std::uint64_t done, std::uint64_t total);
  // Off a terminal `elsewhere` is a line of its own, every kElsewherePeriod from the beginning on; empty: nothing is.
  void say(const std::string& line, const std::string& elsewhere = {});
  static constexpr std::chrono::seconds kElsewherePeriod{10};

 private:
  bool due(std::chrono::milliseconds period);
  bool terminal_ = false;
  bool json_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace dsec::cli
