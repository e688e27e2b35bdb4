// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <array>
#include <catch2/catch.hpp>
#include <random>

using namespace dsec;
using namespace std::chrono_literals;

TEST_CASE("escaped text is printable and comes back as it was") {
  CHECK(escaped("plain name.txt") == "plain name.txt");
  CHECK(escaped("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") == "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(escaped("a\nb\x1b[0m\x7f") == "a\\x0ab\\x1b[0m\\x7f");
  CHECK(escaped("\"\\") == "\\x22\\x5c");
  CHECK(escaped(std::string_view("\0", 1)) == "\\x00");
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (auto length = random() % 20; length > 0; --length) bytes += static_cast<char>(random());
    const std::string text = escaped(bytes);
    CHECK(is_utf8(text + "x"));
    CHECK(unescaped(text).value() == bytes);
  }
}

TEST_CASE("bytes that are no UTF-8 are escaped") {
  CHECK(escaped("\xff") == "\\xff");
  CHECK(escaped("\xc3") == "\\xc3");
  CHECK(escaped("\xc0\x80") == "\\xc0\\x80");                    // overlong
  CHECK(escaped("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(escaped("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
}

TEST_CASE("control characters of the second block are escaped: terminals obey them too") {
  CHECK(escaped("\xc2\x9b"
                "2J") == "\\xc2\\x9b2J");
  CHECK(escaped("\xc2\x80\xc2\x9f") == "\\xc2\\x80\\xc2\\x9f");
  CHECK(escaped("\xc2\xa0") == "\xc2\xa0");
}

TEST_CASE("broken escapes are refused without passing control characters on") {
  for (const char* bad : {"\\", "\\x", "\\x0", "\\x0g", "\\xAB", "\\n", "a\\"}) {
    INFO(bad);
    CHECK(unescaped(bad).error().code == ErrorCode::invalid);
  }
  CHECK(unescaped("\x1b\\").error().message.find('\x1b') == std::string::npos);
}

TEST_CASE("text is quoted where a reader would split it") {
  CHECK(quoted_if_needed("plain") == "plain");
  CHECK(quoted_if_needed("") == "\"\"");
  CHECK(quoted_if_needed("a b") == "\"a b\"");
  CHECK(quoted_if_needed("a=b") == "\"a=b\"");
  CHECK(quoted_if_needed("a\n") == "\"a\\x0a\"");
}

TEST_CASE("JSON strings are JSON") {
  CHECK(json_string("a\"\\\n\x01") == "\"a\\\"\\\\\\u000a\\u0001\"");
  CHECK(json_string("\xff\xc3\xa9") == "\"\xef\xbf\xbd\xc3\xa9\"");
}

TEST_CASE("UTF-8 is told from other bytes") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("\xc3\xa9"));
  CHECK_FALSE(is_utf8("\xc3"));
  CHECK_FALSE(is_utf8(std::string_view("a\0", 2)));
}

TEST_CASE("splitting keeps empty parts") {
  CHECK(split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
  CHECK(split(",", ',') == std::vector<std::string_view>{"", ""});
}

TEST_CASE("sizes are read as people write them") {
  CHECK(parse_size("0").value() == 0);
  CHECK(parse_size("4096").value() == 4096);
  CHECK(parse_size("4096B").value() == 4096);
  CHECK(parse_size("64k").value() == 65536);
  CHECK(parse_size("512M").value() == 512u << 20);
  CHECK(parse_size("1.5GiB").value() == 3ull << 29);
  CHECK(parse_size("2TB").value() == 2ull << 40);
  CHECK(parse_size("9007199254740993").value() == 9007199254740993);  // no double holds it
  for (const char* bad : {"", "M", "-1", "+1", "1 M", "1X", "1MM", "1e3", "0x10", "inf", "nan", "1.2.3",
                          "99999999999999999999", "8192P", "1K\n"}) {
    INFO(bad);
    CHECK(parse_size(bad).error().code == ErrorCode::invalid);
  }
}

TEST_CASE("durations are read as people write them") {
  CHECK(parse_duration("30s").value() == 30s);
  CHECK(parse_duration("5m").value() == 5min);
  CHECK(parse_duration("2h").value() == 2h);
  CHECK(parse_duration("1d").value() == 24h);
  CHECK(parse_duration("250ms").value() == 250ms);
  CHECK(parse_duration("1.5").value() == 1500ms);
  CHECK(parse_duration("0").value() == 0ms);
  for (const char* bad : {"", "s", "-1s", "1 s", "1w", "1S", "1e9", "999999999999h"}) {
    INFO(bad);
    CHECK(parse_duration(bad).error().code == ErrorCode::invalid);
  }
}

TEST_CASE("sizes are written for people") {
  CHECK(human_size(0) == "0 B");
  CHECK(human_size(1023) == "1023 B");
  CHECK(human_size(1024) == "1.0 KiB");
  CHECK(human_size(1468006) == "1.4 MiB");
  CHECK(human_size(1048575) == "1.0 MiB");  // not 1024.0 KiB
  CHECK(human_size(~0ull) == "16384.0 PiB");
}

TEST_CASE("letters that were exchanged are one mistake") {
  constexpr std::array<std::string_view, 3> kWords{"env", "rm", "run"};
  CHECK(nearest("rnu", kWords) == "run");
  CHECK(nearest("nev", kWords) == "env");
  CHECK(nearest("mr", kWords) == "rm");
}

TEST_CASE("a typo finds what was meant, nonsense nothing") {
  constexpr std::array<std::string_view, 4> kWords{"compose", "mount", "run", "rm"};
  CHECK(nearest("compsoe", kWords) == "compose");
  CHECK(nearest("mont", kWords) == "mount");
  CHECK(nearest("rnu", kWords) == "run");
  CHECK(nearest("attach", kWords).empty());
  CHECK(nearest("xy", kWords).empty());
  CHECK(nearest("", kWords).empty());
  CHECK(nearest("x", {}).empty());
}
