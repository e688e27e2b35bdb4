// SPDX-License-Identifier: Apache-2.0
#include "daemon/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <map>

#include "base/paths.h"
#include "base/text.h"
#include "base/toml.h"

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

constexpr std::array kSettings{
    Setting{"store", "", "Directory of the store.", Setting::Where::command_line,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.store = text;
              return {};
            }},
    Setting{"dir", "", "Directory for the control socket, the mounts and the slot table.", Setting::Where::command_line,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.dir = text;
              return {};
            }},
    Setting{"ready_fd", "", "Descriptor that gets one byte when the daemon serves.", Setting::Where::command_line,
            [](Settings& s, const std::string& text) -> Result<void> {
              std::uint64_t fd = 0;
              TRY(set_number(fd, text, 0, 1023));
              s.ready_fd = static_cast<int>(fd);
              return {};
            }},
    Setting{"cache_dir", "", "Local copies of layer metadata. Empty: \"cache\" in the state directory.",
            Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.cache_dir = text;
              return {};
            }},
    Setting{"memory_cache", "128M", "Decoded chunks kept in memory.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.memory_cache_bytes = TRY(parse_size(text));
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
    Setting{"read_ahead_kb", "1024", "How far the kernel reads ahead, in KiB: 0 to 16384.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              return set_number(s.read_ahead_kb, text, 0, 16384);
            }},
    Setting{"idle_exit", "0", "End when nothing has been attached for so long; 0: never.", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              s.idle_exit = TRY(parse_duration(text));
              return {};
            }},
    Setting{"log_format", "text", "Log lines as \"text\" or \"json\".", Setting::Where::both,
            [](Settings& s, const std::string& text) -> Result<void> {
              if (text != "text" && text != "json")
                return fail(ErrorCode::invalid, "\"{}\" is neither text nor json", text);
              s.log_format = text == "json" ? LogFormat::json : LogFormat::text;
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

Result<std::map<std::string_view, std::string>> values_of_file(const std::filesystem::path& path) {
  std::map<std::string_view, std::string> values;
  auto loaded = TomlTable::load(path);
  if (!loaded && loaded.error().code == ErrorCode::not_found) return values;
  TomlTable table = TRY(std::move(loaded));
  for (const Setting& setting : kSettings) {
    if (setting.where != Setting::Where::both) continue;
    if (auto number = table.integer(setting.name); number && *number) {
      values[setting.name] = std::to_string(**number);
    } else if (auto text = TRY(table.text(setting.name))) {
      values[setting.name] = *text;
    }
  }
  TRY(table.finish());
  return values;
}

Result<void> take_arguments(const std::vector<std::string>& arguments,
                            std::map<std::string_view, std::string>& values) {
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
    values[kSettings[which].name] =
        equals == std::string_view::npos ? arguments[++i] : std::string(argument.substr(equals + 1));
  }
  return {};
}

}  // namespace

Result<Settings> load_settings(const std::vector<std::string>& arguments) {
  const char* named = std::getenv("DSEC_LAZYFSD_CONF");
  auto values = TRY(values_of_file(named != nullptr ? named : "/etc/dsec/lazyfsd.toml"));
  TRY(take_arguments(arguments, values));
  Settings settings;
  for (const Setting& setting : kSettings) {
    const auto given = values.find(setting.name);
    const std::string text = given != values.end() ? given->second : std::string(setting.fallback);
    if (text.empty()) continue;
    TRY_IN(flag_of(setting), setting.set(settings, text));
  }
  if (settings.store.empty() || settings.dir.empty()) {
    return fail(ErrorCode::invalid, "--store and --dir are needed; `dsec` starts lazyfsd with both when it is wanted");
  }
  if (settings.cache_dir.empty()) settings.cache_dir = state_dir() / "cache";
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
  return text + "  --print-conf       Print a sample of the configuration file.\n  --help             Print this.\n";
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
