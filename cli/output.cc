// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "base/text.h"

namespace dsec::cli {

Result<void> print(const std::string& text) {
  const bool good = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!good) return fail_sys(errno, "write to standard output");
  return {};
}

Result<void> print_json(const Json& document) { return print(dump_json(document, 2) + "\n"); }

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += i + 1 == row.size() ? row[i] + "\n" : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
  }
  return text;
}

namespace {

constexpr std::chrono::milliseconds kPeriod{100};

void put(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace

ProgressLine::ProgressLine(bool json) : terminal_(::isatty(STDERR_FILENO) == 1 && !json), json_(json) {
  if (!terminal_ && !json_) last_ = std::chrono::steady_clock::now();
}

ProgressLine::~ProgressLine() {
  if (drawn_) put("\r\033[K");
}

bool ProgressLine::due(std::chrono::milliseconds period) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < period) return false;
  last_ = now;
  return true;
}

void ProgressLine::update(const std::string& label, std::uint64_t done, std::uint64_t total) {
  if ((!terminal_ && !json_) || !due(kPeriod)) return;
  if (json_) {
    put(dump_json({{"progress", label}, {"done", done}, {"total", total}}) + "\n");
    return;
  }
  drawn_ = true;
  const std::string share = total == 0 ? "" : fmt::format(" {:3}%", std::min<std::uint64_t>(100, done * 100 / total));
  put(fmt::format("\r\033[K{}{} {}", label, share, human_size(done)));
}

void ProgressLine::say(const std::string& line, const std::string& elsewhere) {
  if (!terminal_ && !json_ && !elsewhere.empty() && due(kElsewherePeriod)) put(fmt::format("{}\n", elsewhere));
  if (!terminal_ || !due(kPeriod)) return;
  drawn_ = true;
  put(fmt::format("\r\033[K{}", line));
}

}  // namespace dsec::cli
