// SPDX-License-Identifier: Apache-2.0
#include "keeper/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "control/client.h"

namespace dsec::keeper {

namespace {

Result<int> parse_fd(const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return fail(ErrorCode::invalid, "\"{}\" is no descriptor", escaped(text));
  }
  return value;
}

Result<void> read_environment(KeeperOptions& options) {
  if (const char* resend = std::getenv("DSEC_KEEPER_RESEND"); resend != nullptr && std::string_view(resend) == "never")
    options.resend = KeeperOptions::Resend::never;
  if (const char* patience = std::getenv("DSEC_KEEPER_PATIENCE")) {
    const auto parsed = TRY_IN("DSEC_KEEPER_PATIENCE", parse_duration(patience));
    options.patience = parsed.count() == 0 ? std::chrono::hours(24 * 365) : parsed;
    options.start_patience = std::min(options.start_patience, options.patience);
  }
  return {};
}

}  // namespace

Result<KeeperOptions> parse_options(const std::vector<std::string>& arguments) {
  KeeperOptions options;
  TRY(read_environment(options));
  std::string store;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--adopt") {
      options.begin = KeeperOptions::Begin::adopt;
      continue;
    }
    if (i + 1 == arguments.size()) return fail(ErrorCode::invalid, "{} needs a value", escaped(arguments[i]));
    const std::string& value = arguments[i + 1];
    if (arguments[i] == "--ready-fd") {
      options.ready_fd = TRY(parse_fd(value));
    } else if (arguments[i] == "--dir") {
      options.dir = std::filesystem::absolute(value);
    } else if (arguments[i] == "--store") {
      store = std::filesystem::absolute(value);
    } else {
      options.arguments.insert(options.arguments.end(), {arguments[i], value});
    }
    ++i;
  }
  if (options.begin == KeeperOptions::Begin::adopt) return options;
  if (store.empty())
    return fail(ErrorCode::invalid, "--store is needed; `dsec` starts lazyfs-keeper when it is wanted");
  if (options.dir.empty()) options.dir = control::daemon_dir(store);
  options.arguments.insert(options.arguments.begin(), {"--store", store, "--dir", options.dir.native()});
  return options;
}

std::string options_help() {
  return "usage: lazyfs-keeper --store DIR [--dir DIR] [--ready-fd N] [--SETTING VALUE ...]\n\n"
         "Mounts, starts lazyfsd and starts it again when it dies, so that readers wait and go on. `dsec` starts it "
         "when "
         "it is needed.\n"
         "SIGTERM unmounts and ends both. Settings are those of lazyfsd and are handed to it.\n";
}

}  // namespace dsec::keeper
