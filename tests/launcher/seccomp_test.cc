// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/seccomp_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "launcher/internal/seccomp_table.h"

using namespace dsec;
using namespace dsec::launcher;

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArch = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kArch = AUDIT_ARCH_AARCH64;
#endif

std::uint32_t interpret(const Bytes& bytes, const struct seccomp_data& data) {
  std::vector<struct sock_filter> program(bytes.size() / sizeof(struct sock_filter));
  std::memcpy(program.data(), bytes.data(), bytes.size());
  std::uint32_t a = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const struct sock_filter& i = program[at];
    switch (i.code) {
      case BPF_LD | BPF_W | BPF_ABS: std::memcpy(&a, reinterpret_cast<const char*>(&data) + i.k, 4); break;
      case BPF_ALU | BPF_AND | BPF_K: a &= i.k; break;
      case BPF_JMP | BPF_JA: at += i.k; break;
      case BPF_JMP | BPF_JEQ | BPF_K: at += a == i.k ? i.jt : i.jf; break;
      case BPF_JMP | BPF_JGT | BPF_K: at += a > i.k ? i.jt : i.jf; break;
      case BPF_JMP | BPF_JGE | BPF_K: at += a >= i.k ? i.jt : i.jf; break;
      case BPF_RET | BPF_K: return i.k;
      default: FAIL("unknown instruction " << i.code);
    }
  }
  FAIL("the program runs off its end");
  return 0;
}

const Bytes& program() {
  static const Bytes compiled = compile_seccomp().value();
  return compiled;
}

std::uint32_t verdict(long number, std::uint64_t first = 0, std::uint32_t arch = kArch) {
  struct seccomp_data data {};
  data.nr = static_cast<int>(number);
  data.arch = arch;
  data.args[0] = first;
  return interpret(program(), data);
}

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t errno_of(int error) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error); }

}  // namespace

TEST_CASE("calls in the table are allowed, others are refused") {
  for (const long number :
       {SYS_read, SYS_openat, SYS_execve, SYS_ptrace, SYS_futex, SYS_chroot, SYS_openat2, SYS_rseq}) {
    CHECK(verdict(number) == kAllow);
  }
  for (const long number :
       {SYS_mount, SYS_umount2, SYS_unshare, SYS_setns, SYS_bpf, SYS_keyctl, SYS_kexec_load, SYS_reboot,
        SYS_io_uring_setup, SYS_open_by_handle_at, SYS_pivot_root, SYS_userfaultfd, SYS_fsopen, SYS_process_madvise,
        SYS_pidfd_getfd, SYS_init_module, SYS_mbind, SYS_syslog, SYS_acct}) {
    CHECK(verdict(number) == errno_of(EPERM));
  }
}

TEST_CASE("calls younger than libseccomp are allowed by number, those younger than the table do not exist") {
  for (const NumberedCall& call : allowed_new_calls()) CHECK(verdict(call.number) == kAllow);
  CHECK(verdict(459) == errno_of(EPERM));  // lsm_get_self_attr
  CHECK(verdict(kFirstUnknownCall - 1) == kAllow);
  CHECK(verdict(kFirstUnknownCall) == errno_of(ENOSYS));
  CHECK(verdict(100000) == errno_of(ENOSYS));
  CHECK(verdict(SYS_clone3) == errno_of(ENOSYS));
}

TEST_CASE("arguments decide where the table says so") {
  CHECK(verdict(SYS_clone, 17) == kAllow);
  CHECK(verdict(SYS_clone, 0x3d0f00) == kAllow);  // a thread
  for (const std::uint64_t flag :
       {0x20000ull, 0x2000000ull, 0x4000000ull, 0x8000000ull, 0x10000000ull, 0x20000000ull, 0x40000000ull}) {
    CHECK(verdict(SYS_clone, flag | 17) == errno_of(EPERM));
  }
  for (const std::uint64_t persona : {0x0ull, 0x8ull, 0x20000ull, 0x20008ull, 0xffffffffull}) {
    CHECK(verdict(SYS_personality, persona) == kAllow);
  }
  CHECK(verdict(SYS_personality, 0x40000) == errno_of(EPERM));
  for (const std::uint64_t family : {1, 2, 10, 16, 17, 37, 39, 41, 44}) CHECK(verdict(SYS_socket, family) == kAllow);
  CHECK(verdict(SYS_socket, 38) == errno_of(EPERM));
  CHECK(verdict(SYS_socket, 40) == errno_of(EPERM));
}

#if defined(__x86_64__)
TEST_CASE("32-bit programs are filtered by their own numbers") {
  constexpr std::uint32_t k386 = AUDIT_ARCH_I386;
  CHECK(verdict(3, 0, k386) == kAllow);                 // read
  CHECK(verdict(21, 0, k386) == errno_of(EPERM));       // mount
  CHECK(verdict(102, 0, k386) == kAllow);               // socketcall
  CHECK(verdict(310, 0, k386) == errno_of(EPERM));      // unshare
  CHECK(verdict(0x40000000 | 0) == kAllow);             // x32 read
  CHECK(verdict(0x40000000 | 165) == errno_of(EPERM));  // x32 mount
  CHECK(verdict(3, 0, AUDIT_ARCH_ARM) != kAllow);
}
#endif

TEST_CASE("the compiled filter is kept and a broken cache does not matter") {
  std::string name = "/tmp/dsec-seccomp-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  const std::string expected = base64(program());
  CHECK(cached_seccomp_base64(name).value() == expected);
  CHECK(std::distance(std::filesystem::directory_iterator(name), std::filesystem::directory_iterator()) == 1);
  CHECK(cached_seccomp_base64(name).value() == expected);
  CHECK(cached_seccomp_base64("/proc/nowhere").value() == expected);
  std::filesystem::remove_all(name);
}

TEST_CASE("base64 is RFC 4648's") {
  CHECK(base64(as_bytes("")) == "");
  CHECK(base64(as_bytes("f")) == "Zg==");
  CHECK(base64(as_bytes("fo")) == "Zm8=");
  CHECK(base64(as_bytes("foo")) == "Zm9v");
  CHECK(base64(as_bytes("foobar")) == "Zm9vYmFy");
  CHECK(base64(as_bytes("\xff\xfe\xfd")) == "//79");
}
