// SPDX-License-Identifier: Apache-2.0
#include "daemon/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <map>

#include "base/paths.h"
#include "base/text.h"
#include "base/toml.h"
#include "io/hf3fs_api.h"

namespace dsec::daemon {

namespace {

struct Setting {
  std::string_view name;  // in the file; on the command line with "-" for "_"
  std::string_view fallback;
  std::string_view doc;
  enum class Where { both, command_line } where;
  Result<void> (*set)(Settings&, const std::string&);
};

Result<void> set_number(std::uint64_t& target, const std::string& text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return fail(ErrorCode::invalid, "\"{}\" is no number from {} to {}", escaped(text), low, high);
  }
  target = value;
  return {};
}

// The choice of which `text` is the name.
template <typename Choice, std::size_t kCount>
Result<Choice> choose(const std::string& text, const std::pair<std::string_view, Choice> (&choices)[kCount]) {
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (name == text) return choice;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", name);
  }
  return fail(ErrorCode::invalid, "\"{}\" is none of {}", escaped(text), known);
}

Result<void> set_size(std::uint64_t& target, const std::string& text, std::uint64_t low, std::uint64_t high) {
  const std::uint64_t value = TRY(parse_size(text));
  if (value < low || value > high) {
    return fail(ErrorCode::invalid, "\"{}\" is not from {} to {} bytes", escaped(text), low, high);
  }
  target = value;
  return {};
}

// The directory that one is in now may be another than that of who wrote the path, and the keeper's is "/".
Result<void> set_path(std::filesystem::path& target, const std::string& text) {
  if (!std::filesystem::path(text).is_absolute()) {
    return fail(ErrorCode::invalid, "\"{}\" is no absolute path: it has to begin with /", escaped(text));
  }
  target = text;
  return {};
}

// As dlopen(3) understands it: a name without slashes is looked for.
Result<void> set_library(Settings& settings, const std::string& text) {
  const bool is_path = text.find('/') != std::string::npos;
  if (text.empty() || (is_path && text[0] != '/')) {
    return fail(ErrorCode::invalid, "\"{}\" is neither a name without slashes nor an absolute path", escaped(text));
  }
  settings.hf3fs_library = text;
  return {};
}

constexpr std::pair<std::string_view, AdviceChoice> kAdvice[] = {{"auto", AdviceChoice::automatic},
                                                                 {"off", AdviceChoice::off}};

constexpr std::array kSettings{
    Setting{"store", "", "Directory of the store.", Setting::Where::command_line,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.store = std::filesystem::absolute(text);
              return {};
            }},
    Setting{"dir", "", "Directory for the control socket, the mounts and the slot table.", Setting::Where::command_line,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.dir = std::filesystem::absolute(text);
              return {};
            }},
    Setting{"ready_fd", "", "Descriptor that gets one byte when the daemon serves.", Setting::Where::command_line,
            [](Settings& s, const std::string& text) -> Result<void> {
              std::uint64_t fd = 0;
              TRY(set_number(fd, text, 0, 1023));
              s.ready_fd = static_cast<int>(fd);
              return {};
            }},
    Setting{"handover_fd", "", "Descriptor of what lazyfs-keeper hands over.", Setting::Where::command_line,
            [](Settings& s, const std::string& text) -> Result<void> {
              std::uint64_t fd = 0;
              TRY(set_number(fd, text, 0, 1023));
              s.handover_fd = static_cast<int>(fd);
              return {};
            }},
    Setting{"cache_dir", "", "Local copies of layer metadata. Empty: \"cache\" in the state directory.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> { return set_path(s.cache_dir, text); }},
    Setting{"memory_cache", "128M", "Decoded chunks kept in memory.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.memory_cache_bytes = TRY(parse_size(text));
              return {};
            }},
    Setting{"io_engine", "auto",
            "How packs are read: \"sync\", \"uring\", \"hf3fs\", or \"auto\": hf3fs on 3FS, io_uring on other network "
            "file systems.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.io_engine = TRY(choose<EngineChoice>(text, {{"auto", EngineChoice::automatic},
                                                            {"sync", EngineChoice::sync},
                                                            {"uring", EngineChoice::uring},
                                                            {"hf3fs", EngineChoice::hf3fs}}));
              return {};
            }},
    Setting{"hf3fs_library", io::kHf3fsLibrary, "3FS's library: a name that the dynamic loader finds, or a path.",
            Setting::Where::both, set_library},
    Setting{
        "node_cache", "auto",
        "Keep what was read of packs in cache_dir: \"on\", \"off\", or \"auto\": for a store on a network file system.",
        Setting::Where::both,
        [](Settings& s, const std::string& text) -> Result<void> {
          s.node_cache = TRY(choose<CacheChoice>(
              text, {{"auto", CacheChoice::automatic}, {"on", CacheChoice::on}, {"off", CacheChoice::off}}));
          return {};
        }},
    Setting{"cache_quota", "0", "Size of the node cache; 0: a tenth of its file system, at most 100 GiB.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.cache_quota_bytes = TRY(parse_size(text));
              return {};
            }},
    Setting{"cache_reserve", "1G", "Space that the node cache leaves free on its file system.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.cache_reserve_bytes = TRY(parse_size(text));
              return {};
            }},
    Setting{"merged_roots", "auto",
            "In object mode, layers of an environment as one image in cache_dir: \"auto\": made for what is attached "
            "repeatedly; \"always\": the first one to attach waits for it; \"off\".",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.merged_roots = TRY(choose<MergedRoots>(
                  text,
                  {{"auto", MergedRoots::automatic}, {"always", MergedRoots::always}, {"off", MergedRoots::off}}));
              return {};
            }},
    Setting{"merged_quota", "1G", "Size of all these images; 0: none are made or kept.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.merged_quota_bytes = TRY(parse_size(text));
              return {};
            }},
    Setting{"fetch_first", "16K", "Read at once from the store at a new place, for the node cache: up to 4M.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              return set_size(s.fetch_first_bytes, text, 1, 4 << 20);
            }},
    Setting{"fetch_window", "1M", "The same where reads follow each other: up to 4M.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              return set_size(s.fetch_window_bytes, text, 1, 4 << 20);
            }},
    Setting{"record", "auto",
            "Which runs are recorded for prefetch besides `dsec run --record`: \"auto\": the first one of an "
            "environment; \"off\": none.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.record = TRY(choose<AdviceChoice>(text, kAdvice));
              return {};
            }},
    Setting{"prefetch", "auto",
            "What a run will want is fetched into the node cache when it begins: \"auto\": where there is a record of "
            "an earlier run; \"off\": never.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.prefetch = TRY(choose<AdviceChoice>(text, kAdvice));
              return {};
            }},
    Setting{"prefetch_bandwidth", "0", "Fetched ahead of need from the store in a second, at most; 0: no bound.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.prefetch_bandwidth = TRY(parse_size(text));
              return {};
            }},
    Setting{"prefetch_threads", "8", "Reads of the store ahead of need at a time: 1 to 64.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              return set_number(s.prefetch_threads, text, 1, 64);
            }},
    Setting{"transport", "fuse",
            "How requests come from the kernel: \"fuse\", or \"io_uring\" where the kernel offers it: faster, but when "
            "lazyfsd dies its mounts do, too.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.transport = TRY(choose<TransportChoice>(
                  text, {{"fuse", TransportChoice::fuse}, {"io_uring", TransportChoice::io_uring}}));
              return {};
            }},
    Setting{"threads", "4", "Threads that serve requests of the kernel, for each of the two mounts: 1 to 64.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> { return set_number(s.threads, text, 1, 64); }},
    Setting{"read_deadline", "60s", "A read that the store has not answered by then fails with EIO.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.read_deadline = TRY(parse_duration(text));
              return {};
            }},
    Setting{
        "busy_poll_us", "50",
        "How long, in microseconds, a thread polls for the next request of the kernel before it sleeps, while requests "
        "follow each other that closely: 0 (never) to 1000.",
        Setting::Where::both,
        [](Settings& s, const std::string& text) -> Result<void> { return set_number(s.busy_poll_us, text, 0, 1000); }},
    Setting{"read_ahead_kb", "1024", "How far the kernel reads ahead, in KiB: 0 to 16384.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              return set_number(s.read_ahead_kb, text, 0, 16384);
            }},
    Setting{"idle_exit", "0", "End when nothing has been attached for so long; 0: never.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.idle_exit = TRY(parse_duration(text));
              return {};
            }},
    Setting{
        "metrics_listen", "",
        "Where GET /metrics is answered, for Prometheus: \"127.0.0.1:9400\", \"[::1]:9400\" or \"unix:/PATH\"; empty: "
        "nowhere.",
        Setting::Where::both,
        [](Settings& s, const std::string& text) -> Result<void> {
          s.metrics_listen = TRY(parse_listen_address(text));
          return {};
        }},
    Setting{"log_format", "text", "Log lines as \"text\" or \"json\".", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.log_format = TRY(choose<LogFormat>(text, {{"text", LogFormat::text}, {"json", LogFormat::json}}));
              return {};
            }},
};

std::string flag_of(const Setting& setting) {
  std::string flag(setting.name);
  for (char& c : flag) {
    if (c == '_') c = '-';
  }
  return flag;
}

// A value, and where it was given as errors call that: `FILE:LINE: "node_cache"`, "--node-cache".
struct Given {
  std::string text;
  std::string where;
};
using Values = std::map<std::string_view, Given>;

Result<Values> values_of_file(const std::filesystem::path& path) {
  Values values;
  auto loaded = TomlTable::load(path);
  if (!loaded && loaded.error().code == ErrorCode::not_found) return values;
  TomlTable table = TRY(std::move(loaded));
  for (const Setting& setting : kSettings) {
    if (setting.where != Setting::Where::both) continue;
    const std::string where = fmt::format("{}: \"{}\"", table.where(setting.name), setting.name);
    const auto number = table.integer(setting.name);
    const auto text = table.text(setting.name);
    if (number && *number) {
      values[setting.name] = {std::to_string(**number), where};
    } else if (text && *text) {
      values[setting.name] = {**text, where};
    } else if (!text) {
      return fail(ErrorCode::invalid, "{} must be a string in quotes or a whole number", where);
    }
  }
  TRY(table.finish());
  return values;
}

Result<void> take_arguments(const std::vector<std::string>& arguments, Values& values) {
  std::vector<std::string> flags;
  for (const Setting& setting : kSettings) flags.push_back(flag_of(setting));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const std::string_view name = starts_with(argument, "--") ? argument.substr(2, equals - 2) : argument;
    std::size_t which = 0;
    while (which < flags.size() && flags[which] != name) ++which;
    if (which == flags.size() || !starts_with(argument, "--")) {
      const std::vector<std::string_view> known(flags.begin(), flags.end());
      const std::string_view near = nearest(name, known);
      return fail(ErrorCode::invalid, "unknown argument \"{}\"{}; see --help", escaped(argument),
                  near.empty() ? "" : fmt::format("; did you mean --{}?", near));
    }
    if (equals == std::string_view::npos && i + 1 == arguments.size()) {
      return fail(ErrorCode::invalid, "{} needs a value", argument);
    }
    values[kSettings[which].name] = {
        equals == std::string_view::npos ? arguments[++i] : std::string(argument.substr(equals + 1)),
        fmt::format("--{}", name)};
  }
  return {};
}

}  // namespace

Result<Settings> load_settings(const std::vector<std::string>& arguments) {
  const char* named = std::getenv("DSEC_LAZYFSD_CONF");
  return load_settings(arguments, named != nullptr ? named : "/etc/dsec/lazyfsd.toml");
}

Result<Settings> load_settings(const std::vector<std::string>& arguments, const std::filesystem::path& file) {
  Values values;
  if (!file.empty()) values = TRY(values_of_file(file));
  Settings settings;
  for (const auto& [name, value] : values) settings.of_file.emplace(name, value.text);
  TRY(take_arguments(arguments, values));
  for (const Setting& setting : kSettings) {
    const auto found = values.find(setting.name);
    const Given given = found != values.end() ? found->second : Given{std::string(setting.fallback), flag_of(setting)};
    if (given.text.empty() && setting.fallback.empty()) continue;
    TRY_IN(given.where, setting.set(settings, given.text));
  }
  if (settings.store.empty() || settings.dir.empty()) {
    return fail(ErrorCode::invalid, "--store and --dir are needed; `dsec` starts lazyfsd with both when it is wanted");
  }
  if (settings.cache_dir.empty()) {
    TRY_IN("$DSEC_STATE_DIR", set_path(settings.cache_dir, (state_dir() / "cache").native()));
  }
  return settings;
}

std::string settings_help() {
  std::string text =
      "usage: lazyfsd --store DIR --dir DIR [--SETTING VALUE ...]\n\nServes the environments of a store through "
      "FUSE. `dsec` starts it when it is needed.\n\n";
  for (const Setting& setting : kSettings) {
    text += fmt::format("  --{:<16} {}", flag_of(setting), setting.doc);
    text += setting.fallback.empty() ? "\n" : fmt::format(" [{}]\n", setting.fallback);
  }
  return text +
         "  --print-conf       Print a sample of the configuration file.\n  --check-settings   In first place: read "
         "the settings, say what is wrong with them, and end.\n  --help             Print this.\n";
}

std::string settings_sample() {
  std::string text =
      "# Settings of lazyfsd, read from /etc/dsec/lazyfsd.toml. All are optional; these are the defaults.\n";
  for (const Setting& setting : kSettings) {
    if (setting.where != Setting::Where::both) continue;
    text += fmt::format("\n# {}\n#{} = \"{}\"\n", setting.doc, setting.name, setting.fallback);
  }
  return text;
}

}  // namespace dsec::daemon
