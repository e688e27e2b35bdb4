// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/device_policy.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace dsec::launcher {

namespace {

constexpr std::array<DeviceRule, 11> kDefaultRules{{
    {'c', std::nullopt, std::nullopt, "m"},
    {'b', std::nullopt, std::nullopt, "m"},
    {'c', 1, 3, "rwm"},               // null
    {'c', 1, 5, "rwm"},               // zero
    {'c', 1, 7, "rwm"},               // full
    {'c', 1, 8, "rwm"},               // random
    {'c', 1, 9, "rwm"},               // urandom
    {'c', 5, 0, "rwm"},               // tty
    {'c', 5, 1, "rwm"},               // console
    {'c', 5, 2, "rwm"},               // ptmx
    {'c', 136, std::nullopt, "rwm"},  // pts
}};

std::string number_or_star(const std::optional<std::uint32_t>& number) {
  return number ? std::to_string(*number) : "*";
}

std::int32_t access_bits(const char* access) {
  std::int32_t bits = 0;
  for (; *access != '\0'; ++access) {
    if (*access == 'r') bits |= BPF_DEVCG_ACC_READ;
    if (*access == 'w') bits |= BPF_DEVCG_ACC_WRITE;
    if (*access == 'm') bits |= BPF_DEVCG_ACC_MKNOD;
  }
  return bits;
}

constexpr std::int32_t kAllAccess = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE | BPF_DEVCG_ACC_MKNOD;

// Registers: r1 the context, then scratch; r2 type, r3 access, r4 major, r5 minor.
struct bpf_insn insn(int code, int dst, int src, int off, std::int32_t imm) {
  struct bpf_insn i {};
  i.code = static_cast<__u8>(code);
  i.dst_reg = static_cast<__u8>(dst & 0xf);
  i.src_reg = static_cast<__u8>(src & 0xf);
  i.off = static_cast<__s16>(off);
  i.imm = imm;
  return i;
}
struct bpf_insn load(int dst, std::size_t offset) {
  return insn(BPF_LDX | BPF_MEM | BPF_W, dst, BPF_REG_1, static_cast<int>(offset), 0);
}
struct bpf_insn set(int dst, std::int32_t value) {
  return insn(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value);
}
struct bpf_insn exit_program() {
  return insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

// The checks of one rule; each leaves a jump whose distance to the next rule is filled in at the end.
void append_rule(std::vector<struct bpf_insn>& program, const DeviceRule& rule) {
  std::vector<std::size_t> jumps;
  const auto jump_unless = [&](int reg, std::uint32_t value) {
    jumps.push_back(program.size());
    // 32-bit comparison (BPF_JMP32): majors and minors are unsigned 32-bit numbers.
    program.push_back(insn(BPF_JMP32 | BPF_JNE | BPF_K, reg, 0, 0, static_cast<std::int32_t>(value)));
  };
  jump_unless(BPF_REG_2, rule.type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
  const std::int32_t allowed = access_bits(rule.access);
  if (allowed != kAllAccess) {
    program.push_back(insn(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_3, 0, 0));
    program.push_back(insn(BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_1, 0, 0, kAllAccess & ~allowed));
    jump_unless(BPF_REG_1, 0);
  }
  if (rule.major) jump_unless(BPF_REG_4, *rule.major);
  if (rule.minor) jump_unless(BPF_REG_5, *rule.minor);
  program.push_back(set(BPF_REG_0, 1));
  program.push_back(exit_program());
  for (const std::size_t at : jumps) program[at].off = static_cast<__s16>(program.size() - at - 1);
}

}  // namespace

std::span<const DeviceRule> default_device_rules() { return kDefaultRules; }

std::string v1_device_rule(const DeviceRule& rule) {
  return fmt::format("{} {}:{} {}", rule.type, number_or_star(rule.major), number_or_star(rule.minor), rule.access);
}

std::vector<struct bpf_insn> device_program(std::span<const DeviceRule> rules) {
  std::vector<struct bpf_insn> program{
      load(BPF_REG_2, offsetof(struct bpf_cgroup_dev_ctx, access_type)),
      insn(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_2, 0, 0),
      insn(BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_2, 0, 0, 0xffff),
      insn(BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_3, 0, 0, 16),
      load(BPF_REG_4, offsetof(struct bpf_cgroup_dev_ctx, major)),
      load(BPF_REG_5, offsetof(struct bpf_cgroup_dev_ctx, minor)),
  };
  for (const DeviceRule& rule : rules) append_rule(program, rule);
  program.push_back(set(BPF_REG_0, 0));
  program.push_back(exit_program());
  return program;
}

Result<void> attach_device_policy(const Fd& cgroup, std::span<const DeviceRule> rules) {
  const std::vector<struct bpf_insn> program = device_program(rules);
  static constexpr char kLicense[] = "Apache-2.0";
  union bpf_attr attr {};
  attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attr.insns = reinterpret_cast<std::uintptr_t>(program.data());
  attr.insn_cnt = static_cast<__u32>(program.size());
  attr.license = reinterpret_cast<std::uintptr_t>(kLicense);
  const Fd loaded(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr)));
  if (!loaded.valid()) return fail_sys(errno, "load the device policy (bpf, BPF_PROG_TYPE_CGROUP_DEVICE)");
  std::memset(&attr, 0, sizeof attr);
  attr.target_fd = static_cast<__u32>(cgroup.get());
  attr.attach_bpf_fd = static_cast<__u32>(loaded.get());
  attr.attach_type = BPF_CGROUP_DEVICE;
  attr.attach_flags = BPF_F_ALLOW_MULTI;
  if (::syscall(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof attr) != 0) {
    return fail_sys(errno, "attach the device policy to the cgroup (bpf, BPF_CGROUP_DEVICE)");
  }
  return {};
}

}  // namespace dsec::launcher
