// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach_log.h"

#include <fcntl.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/log.h"
#include "base/text.h"

namespace dsec::daemon {

std::string_view to_string(View view) {
  switch (view) {
    case View::plain: return "plain";
    case View::overlay: return "overlay";
    case View::record: return "record";
  }
  return "?";
}

Result<View> parse_view(std::string_view text) {
  for (const View view : {View::plain, View::overlay, View::record}) {
    if (text == to_string(view)) return view;
  }
  return fail(ErrorCode::invalid, "\"{}\" is no view of an environment", escaped(text));
}

namespace {

Json attached_line(const Digest& env, View view, const std::string& owner, const std::optional<LeaseHolder>& holder) {
  Json line = {{"op", "attached"}, {"env", env.hex()}, {"view", to_string(view)}, {"owner", owner}};
  if (holder) {
    line["pid"] = holder->pid;
    line["start"] = holder->start_ticks;
  }
  return line;
}

}  // namespace

Result<std::unique_ptr<AttachLog>> AttachLog::open(const std::filesystem::path& path) {
  auto log = std::unique_ptr<AttachLog>(new AttachLog(path));
  auto state = log->state_.lock();
  const auto bytes = read_file(path, kMaxBytes);
  if (!bytes && bytes.error().code != ErrorCode::not_found) return tl::unexpected(bytes.error());
  if (bytes) {
    const std::string_view text = as_text(*bytes);
    for (const std::string_view line : split(text.substr(0, text.rfind('\n') + 1), '\n')) {
      if (line.empty()) continue;
      const auto document = TRY(parse_json(line, path.native()));
      TRY_IN(path.native(), apply(*state, document));
    }
  }
  remove_unfinished_files(path.parent_path());
  TRY(log->rewrite(*state));
  state.unlock();
  return log;
}

Result<void> AttachLog::apply(State& state, const Json& line) {
  const std::string op = TRY(json_text(line, "op"));
  if (op == "detached") {
    const std::string owner = TRY(json_text(line, "owner"));
    for (Shown& shown : state.shown) shown.owners.erase(owner);
    std::erase_if(state.shown, [](const Shown& shown) { return shown.view == View::record && shown.owners.empty(); });
    return {};
  }
  const Digest env = TRY(Digest::parse(TRY(json_text(line, "env"))));
  if (op == "dropped") {
    std::erase_if(state.shown, [&](const Shown& shown) { return shown.env == env && shown.owners.empty(); });
    return {};
  }
  if (op != "attached") return fail(ErrorCode::corrupt, "\"{}\" is no change", escaped(op));
  const View view = TRY(parse_view(TRY(json_text(line, "view"))));
  const std::string owner = TRY(json_text(line, "owner"));
  auto found = std::find_if(state.shown.begin(), state.shown.end(),
                            [&](const Shown& shown) { return shown.env == env && shown.view == view; });
  if (found == state.shown.end()) found = state.shown.insert(found, Shown{env, view, {}});
  std::optional<LeaseHolder> holder;
  if (line.contains("pid")) {
    holder = LeaseHolder{static_cast<pid_t>(TRY(json_int(line, "pid"))), TRY(json_uint(line, "start"))};
  }
  if (!owner.empty()) found->owners.insert_or_assign(owner, holder);
  return {};
}

// What is shown and nothing of how that came about. An idle environment has one line without an owner.
Result<void> AttachLog::rewrite(State& state) {
  std::string text;
  for (const Shown& shown : state.shown) {
    if (shown.owners.empty()) text += dump_json(attached_line(shown.env, shown.view, "", {})) + "\n";
    for (const auto& [owner, holder] : shown.owners) {
      text += dump_json(attached_line(shown.env, shown.view, owner, holder)) + "\n";
    }
  }
  TRY(write_file_atomic(path_.parent_path(), path_, as_bytes(text)));
  state.file = TRY(open_file(path_, O_WRONLY | O_APPEND));
  state.file_bytes = state.needed_bytes = text.size();
  return {};
}

std::vector<AttachLog::Shown> AttachLog::shown() { return state_.lock()->shown; }

// The lock is held while the line is written, so that the lines stand in the order of the changes.
void AttachLog::change(const Json& line) {
  auto state = state_.lock();
  const std::string text = dump_json(line) + "\n";
  auto outcome = apply(*state, line);
  if (outcome) outcome = write_all(state->file, as_bytes(text));
  state->file_bytes += text.size();
  const bool grown = state->file_bytes > kRewriteBytes && state->file_bytes > 2 * state->needed_bytes;
  if (outcome && grown) outcome = rewrite(*state);
  if (!outcome && !state->warned) {
    state->warned = true;
    log(LogLevel::warn, "attachments_not_recorded",
        {{"reason", outcome.error().message}, {"effect", "they do not survive a restart of lazyfsd"}});
  }
}

void AttachLog::attached(const Digest& env, View view, const std::string& owner,
                         const std::optional<LeaseHolder>& holder) {
  change(attached_line(env, view, owner, holder));
}

void AttachLog::detached(const std::string& owner) { change({{"op", "detached"}, {"owner", owner}}); }

void AttachLog::dropped(const Digest& env) { change({{"op", "dropped"}, {"env", env.hex()}}); }

}  // namespace dsec::daemon
