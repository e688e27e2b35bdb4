// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/device_policy.h"

#include <catch2/catch.hpp>

using namespace dsec;
using namespace dsec::launcher;

namespace {

// Runs the few instructions that device_program() uses.
std::uint64_t interpret(const std::vector<struct bpf_insn>& program, const struct bpf_cgroup_dev_ctx& context) {
  std::uint64_t r[11] = {};
  for (std::size_t at = 0; at < program.size(); ++at) {
    const struct bpf_insn& i = program[at];
    switch (i.code) {
      case BPF_LDX | BPF_MEM | BPF_W:
        r[i.dst_reg] = i.off == 0 ? context.access_type : i.off == 4 ? context.major : context.minor;
        break;
      case BPF_ALU64 | BPF_MOV | BPF_X: r[i.dst_reg] = r[i.src_reg]; break;
      case BPF_ALU64 | BPF_MOV | BPF_K: r[i.dst_reg] = static_cast<std::uint64_t>(std::int64_t{i.imm}); break;
      case BPF_ALU64 | BPF_AND | BPF_K: r[i.dst_reg] &= static_cast<std::uint64_t>(std::int64_t{i.imm}); break;
      case BPF_ALU64 | BPF_RSH | BPF_K: r[i.dst_reg] >>= i.imm; break;
      case BPF_JMP32 | BPF_JNE | BPF_K:
        if (static_cast<std::uint32_t>(r[i.dst_reg]) != static_cast<std::uint32_t>(i.imm))
          at += static_cast<std::size_t>(i.off);
        break;
      case BPF_JMP | BPF_EXIT: return r[0];
      default: FAIL("unknown instruction " << int{i.code});
    }
  }
  FAIL("the program runs off its end");
  return 0;
}

bool allows(std::span<const DeviceRule> rules, char type, std::uint32_t major, std::uint32_t minor,
            std::uint32_t access) {
  const std::uint32_t kind = type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR;
  return interpret(device_program(rules), {access << 16 | kind, major, minor}) == 1;
}

constexpr std::uint32_t kMknod = BPF_DEVCG_ACC_MKNOD;
constexpr std::uint32_t kRead = BPF_DEVCG_ACC_READ;
constexpr std::uint32_t kWrite = BPF_DEVCG_ACC_WRITE;

}  // namespace

TEST_CASE("the default policy lets Docker's devices through and no others") {
  const auto rules = default_device_rules();
  for (const auto& [major, minor] : {std::pair{1u, 3u},
                                     {1u, 5u},
                                     {1u, 7u},
                                     {1u, 8u},
                                     {1u, 9u},
                                     {5u, 0u},
                                     {5u, 1u},
                                     {5u, 2u},
                                     {136u, 0u},
                                     {136u, 1000000u}}) {
    CHECK(allows(rules, 'c', major, minor, kRead | kWrite));
    CHECK(allows(rules, 'c', major, minor, kRead | kWrite | kMknod));
    CHECK_FALSE(allows(rules, 'b', major, minor, kRead));
  }
  for (const auto& [major, minor] :
       {std::pair{1u, 1u}, {1u, 2u}, {1u, 11u}, {10u, 229u}, {10u, 200u}, {0xffffffffu, 3u}}) {
    CHECK_FALSE(allows(rules, 'c', major, minor, kRead));
    CHECK_FALSE(allows(rules, 'c', major, minor, kWrite));
    CHECK(allows(rules, 'c', major, minor, kMknod));
    CHECK_FALSE(allows(rules, 'c', major, minor, kMknod | kRead));
  }
  CHECK(allows(rules, 'b', 254, 0, kMknod));
  CHECK_FALSE(allows(rules, 'b', 254, 0, kRead));
}

TEST_CASE("rules combine type, numbers and access") {
  const DeviceRule rules[] = {{'b', 8, std::nullopt, "r"}, {'c', std::nullopt, 7, "rw"}};
  CHECK(allows(rules, 'b', 8, 1, kRead));
  CHECK_FALSE(allows(rules, 'b', 8, 1, kRead | kWrite));
  CHECK_FALSE(allows(rules, 'b', 9, 1, kRead));
  CHECK(allows(rules, 'c', 123, 7, kWrite));
  CHECK_FALSE(allows(rules, 'c', 123, 8, kWrite));
  CHECK_FALSE(allows({}, 'c', 1, 3, kRead));
}

TEST_CASE("rules are written as cgroup v1 takes them") {
  CHECK(v1_device_rule({'c', 1, 3, "rwm"}) == "c 1:3 rwm");
  CHECK(v1_device_rule({'b', std::nullopt, std::nullopt, "m"}) == "b *:* m");
  CHECK(v1_device_rule({'c', 136, std::nullopt, "rwm"}) == "c 136:* rwm");
}
