// SPDX-License-Identifier: Apache-2.0
// One tree with every kind of entry (tests/support/make_zoo.py), read in several ways that must agree.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/text.h"
#include "composer/sources_support.h"
#include "format/dump.h"
#include "support/skip.h"

using namespace dsec;
using namespace dsec::composer;
using namespace dsec::composer::test;

namespace {

constexpr const char* kZoo = "python3 " DSEC_TEST_DIR "/../support/make_zoo.py ";

// What GNU tar cannot say: sockets, and that two names are one device or FIFO.
const std::vector<std::string> kNotInGnuTar = {" socket ", "/hard/b/device ", "/hard/b/fifo "};

// Lines that one of two dumps has and the other has not, a few of them.
std::string difference(const std::string& a, const std::string& b, const std::vector<std::string>& ignored = {}) {
  std::vector<std::string_view> left = split(a, '\n');
  std::vector<std::string_view> right = split(b, '\n');
  std::sort(left.begin(), left.end());
  std::sort(right.begin(), right.end());
  std::vector<std::string_view> differ;
  std::set_symmetric_difference(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(differ));
  std::string out;
  for (const std::string_view line : differ) {
    const bool counts = std::none_of(ignored.begin(), ignored.end(), [line](const std::string& part) {
      return line.find(part) != std::string_view::npos;
    });
    if (counts && out.size() < 3000) out.append(line.substr(0, 400)).append("\n");
  }
  return out;
}

std::string dump_of(const std::string& spec, const std::filesystem::path& dir) {
  const auto read = read_source(spec, dir);
  if (!read) FAIL(read.error().message);
  return format::dump_layer(read->layers[0]);
}

}  // namespace

TEST_CASE("a directory, GNU tar's archives of it and the archive it was made from are one tree") {
  if (::geteuid() != 0) SKIP_TEST("making the tree needs root");
  const TempDir dir;
  shell(dir.path(), std::string(kZoo) + "zoo --max-xattr 3000 2>skipped; " + kZoo + "--tar zoo.tar --max-xattr 3000");
  CHECK(read_text(dir / "skipped").empty());
  const std::string live = dump_of("dir:zoo", dir.path());
  CHECK(difference(live, dump_of("tar:zoo.tar", dir.path()), {" socket "}) == "");
  for (const std::string version : {"0.0", "0.1", "1.0"}) {
    shell(dir.path(), "tar --format=posix -S --sparse-version=" + version +
                          " --xattrs --xattrs-include='*' --acls --sort=name -C zoo -cf gnu.tar . 2>/dev/null");
    INFO("sparse version " << version);
    CHECK(difference(live, dump_of("tar:gnu.tar", dir.path()), kNotInGnuTar) == "");
  }
}

TEST_CASE("GNU tar's ACLs in text alone give the kernel's binary form") {
  const TempDir dir;
  shell(dir.path(),
        "mkdir src; touch src/f; mkdir src/d; setfacl -m u:1234:rw,g:4321:r src/f || exit 0; "
        "setfacl -m d:u:99:rwx,d:g::r-x src/d; setfacl -m u:98765:- src/d; "
        "tar --format=posix --acls -C src -cf a.tar .");
  if (!std::filesystem::exists(dir / "a.tar")) SKIP_TEST("this file system has no ACLs");
  CHECK(difference(dump_of("dir:src", dir.path()), dump_of("tar:a.tar", dir.path())) == "");
}

TEST_CASE("GNU format keeps what it can hold") {
  const TempDir dir;
  shell(dir.path(), std::string(kZoo) + "--tar pax.tar; " + kZoo + "--tar gnu.tar --format gnu");
  const auto pax = read_source("tar:pax.tar", dir.path());
  const auto gnu = read_source("tar:gnu.tar", dir.path());
  INFO(message_of(pax) << message_of(gnu));
  REQUIRE((pax && gnu));
  const auto without = [](const format::LayerTree& tree) {
    std::string kept;
    const std::string text = brief(tree, {"mtime"});
    for (const std::string_view line : split(text, '\n'))
      kept.append(line.substr(0, line.find(" xattr:"))).append("\n");
    return kept;
  };
  CHECK(difference(without(pax->layers[0]), without(gnu->layers[0])) == "");
}
