// SPDX-License-Identifier: Apache-2.0
// What is attached, written down for the lazyfsd that comes after this one.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/fd.h"
#include "base/guarded.h"
#include "base/json.h"
#include "base/result.h"
#include "daemon/leases.h"
#include "format/env.h"
#include "format/erofs.h"

namespace dsec::daemon {

// How an environment is shown.
enum class View : std::uint8_t {
  plain,    // as it is
  overlay,  // as the lower directory of an overlayfs
  record,   // the same, with no node that another tree has, and for no longer than it is used
};
std::string_view to_string(View view);
// `invalid` for what is none.
Result<View> parse_view(std::string_view text);

// A file of one JSON line for each change, appended before the change is confirmed, and rewritten when it has grown.
// It outlives a process, not the machine: nothing is synced, as the mounts do not outlive the machine either. When it
// cannot be written, one warning says that attachments will not survive a restart. Thread-safe.
class AttachLog {
 public:
  struct Shown {
    Digest env;
    View view = View::plain;                                   // as it was asked for
    std::map<std::string, std::optional<LeaseHolder>> owners;  // none: idle, but shown
  };

  // Reads what is there; a line that was cut short ends it. Missing: nothing is attached.
  static Result<std::unique_ptr<AttachLog>> open(const std::filesystem::path& path);

  // In the order in which they were first attached.
  [[nodiscard]] std::vector<Shown> shown();

  void attached(const Digest& env, View view, const std::string& owner, const std::optional<LeaseHolder>& holder);
  void detached(const std::string& owner);
  // It is not shown any more, in no view that nobody owns.
  void dropped(const Digest& env);

 private:
  static constexpr std::uint64_t kMaxBytes = 64 << 20;     // more is no log of ours
  static constexpr std::uint64_t kRewriteBytes = 4 << 20;  // beyond this and twice what is needed it is rewritten
  struct State {
    std::vector<Shown> shown;
    Fd file;
    std::uint64_t file_bytes = 0;
    std::uint64_t needed_bytes = 0;
    bool warned = false;
  };
  explicit AttachLog(std::filesystem::path path) : path_(std::move(path)) {}
  static Result<void> apply(State& state, const Json& line);
  Result<void> rewrite(State& state);
  void change(const Json& line);

  std::filesystem::path path_;
  Guarded<State> state_;
};

}  // namespace dsec::daemon
