// SPDX-License-Identifier: Apache-2.0
// Settings of lazyfsd: where a mistake is, and what would be none.
#include "daemon/settings.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "store/store_support.h"

namespace dsec::daemon {
namespace {

using dsec::test::TempDir;
using dsec::test::write_text;

const std::vector<std::string> kNeeded{"--store", "/srv/store", "--dir", "/run/dir"};

// The settings of a file with these lines, over which `more` is given on the command line.
struct Written {
  explicit Written(const std::string& lines) { write_text(file, lines); }
  [[nodiscard]] Result<Settings> load(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = kNeeded;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return load_settings(arguments, file);
  }
  // What is wrong, without the directory of the test.
  [[nodiscard]] std::string mistake() const {
    const auto settings = load();
    if (settings) return "none";
    CHECK(settings.error().code == ErrorCode::invalid);
    const std::string directory = file.parent_path().native() + "/";
    CHECK(starts_with(settings.error().message, directory));
    return settings.error().message.substr(std::min(directory.size(), settings.error().message.size()));
  }
  TempDir dir;
  std::filesystem::path file = dir / "lazyfsd.toml";
};

TEST_CASE("a wrong value in the file is named with file, line and key, and what is allowed") {
  CHECK(Written("# a\nnode_cache = \"yes\"\n").mistake() ==
        R"(lazyfsd.toml:2: "node_cache": "yes" is none of "auto", "on", "off")");
  CHECK(Written("threads = 65\n").mistake() == R"(lazyfsd.toml:1: "threads": "65" is no number from 1 to 64)");
  CHECK(Written("threads = -1\n").mistake() == R"(lazyfsd.toml:1: "threads": "-1" is no number from 1 to 64)");
  CHECK(Written("\nfetch_window = \"5M\"\n").mistake() ==
        R"(lazyfsd.toml:2: "fetch_window": "5M" is not from 1 to 4194304 bytes)");
  CHECK(starts_with(Written("memory_cache = \"5Q\"\n").mistake(),
                    R"(lazyfsd.toml:1: "memory_cache": "5Q" is no size: write )"));
  CHECK(starts_with(Written("read_deadline = \"5y\"\n").mistake(),
                    R"(lazyfsd.toml:1: "read_deadline": "5y" is no duration: write )"));
  CHECK(Written("log_format = \"xml\"\n").mistake() ==
        R"(lazyfsd.toml:1: "log_format": "xml" is none of "text", "json")");
  CHECK(starts_with(Written("metrics_listen = \"localhost:1\"\n").mistake(),
                    R"(lazyfsd.toml:1: "metrics_listen": "localhost:1" )"));
}

TEST_CASE("a value of another type is named likewise") {
  for (const char* value : {"true", "1.5", "[]", "{}", "1979-05-27"}) {
    INFO(value);
    CHECK(Written(fmt::format("\nnode_cache = {}\n", value)).mistake() ==
          R"(lazyfsd.toml:2: "node_cache" must be a string in quotes or a whole number)");
  }
}

TEST_CASE("an empty value stands for the default only where the sample shows one") {
  CHECK(Written("threads = \"\"\n").mistake() == R"(lazyfsd.toml:1: "threads": "" is no number from 1 to 64)");
  CHECK(starts_with(Written("memory_cache = \"\"\n").mistake(), R"(lazyfsd.toml:1: "memory_cache": "" is no size)"));
  CHECK(Written("cache_dir = \"\"\nmetrics_listen = \"\"\n").mistake() == "none");
}

TEST_CASE("a wrong value on the command line is named by its option") {
  const Written written("threads = 2\n");
  CHECK(written.load({"--node-cache", "yes"}).error().message ==
        R"(--node-cache: "yes" is none of "auto", "on", "off")");
  CHECK(written.load({"--threads=0"}).error().message == R"(--threads: "0" is no number from 1 to 64)");
  CHECK(written.load({"--threads=3"})->threads == 3);
  CHECK(written.load()->threads == 2);
}

TEST_CASE("relative paths are refused: nobody knows what they would be relative to") {
  CHECK(Written("cache_dir = \"relative\"\n").mistake() ==
        R"(lazyfsd.toml:1: "cache_dir": "relative" is no absolute path: it has to begin with /)");
  CHECK(starts_with(Written("hf3fs_library = \"./lib.so\"\n").mistake(), R"(lazyfsd.toml:1: "hf3fs_library": )"));
  CHECK(Written("hf3fs_library = \"lib.so\"\n").load()->hf3fs_library == "lib.so");
  CHECK(Written("hf3fs_library = \"/opt/lib.so\"\n").load()->hf3fs_library == "/opt/lib.so");
  CHECK(
      starts_with(Written("metrics_listen = \"unix:relative\"\n").mistake(), R"(lazyfsd.toml:1: "metrics_listen": )"));
  CHECK(starts_with(Written("").load({"--cache-dir", "relative"}).error().message, "--cache-dir: "));
  CHECK(Written("cache_dir = \"/var/cache/x\"\n").load()->cache_dir == "/var/cache/x");
}

TEST_CASE("store and directory, which are given by hand only, are below the directory of who gives them") {
  const auto settings = load_settings({"--store", "a/store", "--dir", "run"}, {});
  CHECK(settings->store == std::filesystem::current_path() / "a/store");
  CHECK(settings->dir == std::filesystem::current_path() / "run");
}

TEST_CASE("a state directory that is relative is refused where the cache would be in it") {
  const char* const before = std::getenv("DSEC_STATE_DIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("DSEC_STATE_DIR", "state", 1);
  const auto refused = load_settings(kNeeded, {});
  const auto unused = Written("cache_dir = \"/var/cache/x\"\n").load();
  before != nullptr ? ::setenv("DSEC_STATE_DIR", kept.c_str(), 1) : ::unsetenv("DSEC_STATE_DIR");
  CHECK(refused.error().message == R"($DSEC_STATE_DIR: "state/cache" is no absolute path: it has to begin with /)");
  CHECK(unused.has_value());
}

}  // namespace
}  // namespace dsec::daemon
