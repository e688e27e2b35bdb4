// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/names.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>

#include "base/text.h"
#include "launcher/sandbox.h"

namespace dsec {

std::string new_sandbox_id() {
  std::uint64_t random = 0;
  // 8 bytes from the kernel's pool never come short once it is initialised, and getrandom(2) waits for that.
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<std::uint64_t>(::getpid());
  return fmt::format("sb-{:012x}", random & 0xffffffffffff);
}

namespace launcher {

namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

}  // namespace

Result<void> check_name(std::string_view what, std::string_view name) {
  constexpr std::size_t kMaxLength = 64;
  bool good = !name.empty() && name.size() <= kMaxLength && is_letter_or_digit(name[0]);
  for (const char c : name) good = good && (is_letter_or_digit(c) || c == '_' || c == '.' || c == '-');
  if (good) return {};
  return fail(ErrorCode::invalid,
              "\"{}\" cannot be the {} of a sandbox: use up to 64 letters, digits, \".\", \"_\" and \"-\", a letter or "
              "digit first",
              escaped(name), what);
}

}  // namespace launcher

}  // namespace dsec
