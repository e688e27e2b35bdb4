// SPDX-License-Identifier: Apache-2.0
// Several processes at one store.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/fd.h"
#include "format/erofs.h"
#include "format/location_map.h"
#include "store/store_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

// Runs `body` in `count` processes that start together; the number of them in which it returned false.
int failures_of(int count, bool (*body)(const std::filesystem::path&), const std::filesystem::path& root) {
  const Pipe start = *make_pipe();
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::uint8_t byte = 0;
      [[maybe_unused]] const ssize_t n = ::read(start.read_end.get(), &byte, 1);
      ::_exit(body(root) ? 0 : 1);
    }
    children.push_back(child);
  }
  const Bytes go(static_cast<std::size_t>(count));
  REQUIRE(write_all(start.write_end, go));
  int failures = 0;
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    failures += status == 0 ? 0 : 1;
  }
  return failures;
}

TEST_CASE("processes that make one store at once all get the same one") {
  for (int round = 0; round < 30; ++round) {
    const TempDir dir;
    const int failures = failures_of(
        4,
        [](const std::filesystem::path& root) {
          const auto store = Store::open_or_create(root);
          if (!store) return false;
          const auto again = Store::open(root);  // what the others see is what we were told
          return again && again->uuid() == store->uuid();
        },
        dir / "store");
    CHECK(failures == 0);
    CHECK(count_files(dir / "store/tmp") == 0);
  }
}

TEST_CASE("processes that store the same objects at once leave whole ones and no litter") {
  const TempDir dir;
  const Store store = new_store(dir / "store");
  const int failures = failures_of(
      4,
      [](const std::filesystem::path& root) {
        const Store own = *Store::open(root);
        for (int i = 0; i < 20; ++i) {
          format::LayerTree tree;
          format::Inode file;
          file.mode = static_cast<std::uint16_t>(i);
          if (!tree.add(0, "f", file)) return false;
          const auto layer = own.put_layer(*format::write_layer(tree), format::write_location_map({}));
          if (!layer || !own.read_layer_image(*layer)) return false;
          format::Env env;
          env.layers = {*layer};
          const auto digest = own.put_env(env);
          if (!digest || !own.write_ref(format::RefKind::env, {"e", std::to_string(i)}, *digest)) return false;
        }
        return true;
      },
      dir / "store");
  CHECK(failures == 0);
  CHECK(store.list_layers()->size() == 20);
  CHECK(store.list_refs(format::RefKind::env)->size() == 20);
  CHECK(count_files(store.tmp_dir()) == 0);
}

}  // namespace
}  // namespace dsec::store
