// SPDX-License-Identifier: Apache-2.0
// The engine over 3FS's interface while nothing goes wrong, and while everything does: the bytes are right, or there is
// an error.
#include <atomic>
#include <thread>

#include "io/engines.h"
#include "io/hf3fs_support.h"

namespace dsec::io {
namespace {

using namespace dsec::test;
using std::chrono::milliseconds;

constexpr std::size_t kFileBytes = (2 << 20) + 777;

Hf3fsOptions small_rings(std::shared_ptr<Hf3fsCounters> counters) {
  Hf3fsOptions options;
  options.mount_point = "/";
  options.rings = 3;
  options.slots = 4;
  options.slot_bytes = 64 << 10;
  options.first_retry = milliseconds(5);
  options.last_retry = milliseconds(20);
  options.counters = std::move(counters);
  return options;
}

struct Faults {
  const char* name;
  std::vector<std::pair<const char*, long>> settings;
  bool falls_back;
};

const std::vector<Faults>& all_faults() {
  static const std::vector<Faults> all{
      {"none", {}, false},
      {"in order and only when submitted", {{"early", 0}, {"reorder", 0}}, false},
      {"slow answers", {{"delay_us", 500}}, false},
      {"short answers", {{"short_every", 3}}, false},
      {"answers to nothing", {{"stray_every", 5}}, false},
      {"errors", {{"error_every", 4}}, true},
      {"too long answers", {{"over_every", 7}}, true},
      {"no answers", {{"never_every", 23}}, true},
      {"all of it", {{"error_every", 11}, {"short_every", 5}, {"never_every", 41}, {"delay_us", 100}}, true},
  };
  return all;
}

// Reads of many threads; returns how many were wrong or failed.
int read_from_threads(ReadEngine& engine, const std::shared_ptr<const Fd>& file, const Bytes& content,
                      std::uint64_t seed) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      for (int i = 0; i < 40; ++i) {
        const std::size_t length = 1 + random() % (i % 8 == 0 ? 1000000 : 70000);
        const std::size_t offset = random() % (content.size() - length);
        const auto bytes = engine.read(file, offset, length, later());
        if (!bytes || !std::equal(bytes->begin(), bytes->end(), content.begin() + offset)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST_CASE("whatever a ring does, readers of 3FS get the right bytes and its rules are kept") {
  const std::uint64_t seed = std::random_device()();
  const TempDir dir;
  const Bytes content = noise(1, kFileBytes);
  const auto file = file_with(dir / "file", content);
  for (const Faults& faults : all_faults()) {
    INFO(faults.name << ", seed " << seed);
    Hf3fsMock mock;
    mock.set("seed", static_cast<long>(seed));
    for (const auto& [name, value] : faults.settings) mock.set(name, value);
    const auto counters = std::make_shared<Hf3fsCounters>();
    auto options = small_rings(counters);
    if (faults.falls_back) options.ring_timeout = milliseconds(100);
    const auto engine = make_hf3fs_engine(mock.api(), options, make_sync_engine());
    REQUIRE(engine);
    CHECK(read_from_threads(**engine, file, content, seed) == 0);
    CHECK(counters->reads.get() + counters->fallbacks.get() == 320);
    CHECK((counters->fallbacks.get() > 0) == faults.falls_back);
    CHECK(counters->reads.get() > 0);
  }
}

TEST_CASE("a read longer than a slot is put together from several rings") {
  const TempDir dir;
  const Bytes content = noise(2, kFileBytes);
  const auto file = file_with(dir / "file", content);
  Hf3fsMock mock;
  const auto counters = std::make_shared<Hf3fsCounters>();
  const auto engine = make_hf3fs_engine(mock.api(), small_rings(counters), make_sync_engine());
  REQUIRE(engine);
  const auto bytes = (*engine)->read(file, 0, kFileBytes, later());
  REQUIRE(bytes);
  CHECK(*bytes == content);
  CHECK(counters->fallbacks.get() == 0);
  CHECK(counters->rings_opened.get() == 3);
  CHECK(mock.count("preps") == kFileBytes / (64 << 10) + 1);
}

TEST_CASE("a hole in a file on 3FS is corrupt, never zeros") {
  const TempDir dir;
  const auto file = file_with(dir / "file", noise(3, 100000));
  REQUIRE(::ftruncate(file->get(), 1 << 20) == 0);  // a hole at the end
  REQUIRE(::pwrite(file->get(), "x", 1, 600000) == 1);
  Hf3fsMock mock;
  const auto counters = std::make_shared<Hf3fsCounters>();
  auto options = small_rings(counters);
  options.slot_bytes = 1 << 20;
  const auto engine = make_hf3fs_engine(mock.api(), options, make_sync_engine());
  REQUIRE(engine);
  CHECK((*engine)->read(file, 0, 100000, later()));
  for (const std::size_t length : {700000, 500000, 1 << 20}) {
    const auto bytes = (*engine)->read(file, 50000, std::min<std::size_t>(length, (1 << 20) - 50000), later());
    REQUIRE_FALSE(bytes);
    CHECK(bytes.error().code == ErrorCode::corrupt);
  }
  CHECK(counters->fallbacks.get() == 0);
}

}  // namespace
}  // namespace dsec::io
