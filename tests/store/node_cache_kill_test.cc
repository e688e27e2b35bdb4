// SPDX-License-Identifier: Apache-2.0
// kill -9 of the process that owns a node cache.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "store/node_cache_support.h"

namespace dsec::store {
namespace {

using namespace dsec::test;

// Small, so that windows are evicted and their slots used again all the time.
constexpr std::uint64_t kSmallQuota = 5 << 20;

// Reads at random for ever; ends by itself, with 1, only when a byte is wrong.
[[noreturn]] void read_for_ever(const std::shared_ptr<ScriptedPacks>& packs, const std::vector<Digest>& names,
                                const std::filesystem::path& dir, std::uint64_t seed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Cached cached(packs, cache_options(dir, kSmallQuota));
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      while (true) {
        const Digest& pack = names[random() % names.size()];
        const std::size_t length = 1 + random() % 200000;
        if (!cached.is_right(pack, random() % (packs->content(pack).size() - length), length)) ::_exit(1);
        if (random() % 50 == 0) cached.cache->evict(random() % kSmallQuota);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  ::_exit(2);
}

TEST_CASE("a cache whose owner was killed at any moment has no wrong byte") {
  const std::uint64_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const TempDir dir;
  const auto packs = std::make_shared<ScriptedPacks>();
  const std::vector<Digest> names{packs->add(1, (3 << 20) + 5), packs->add(2, 2 << 20), packs->add(3, 4 << 20)};
  const int rounds = std::getenv("DSEC_LONG_TESTS") != nullptr ? 500 : 50;
  std::uint64_t found = 0;
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    const pid_t child = ::fork();
    if (child == 0) read_for_ever(packs, names, dir / "cache", random());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    random.discard(1);
    const Cached cached(packs, cache_options(dir / "cache", kSmallQuota));
    REQUIRE(cached.cache->stats().trouble == "");
    found += cached.cache->stats().windows;
    REQUIRE(cached.cache->stats().used_bytes <= kSmallQuota);
    for (const Digest& pack : names) REQUIRE(cached.is_all_right(pack, 150000));
  }
  CHECK(found > 0);
}

}  // namespace
}  // namespace dsec::store
