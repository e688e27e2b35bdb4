// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/seccomp_filter.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/atomic_file.h"
#include "launcher/internal/seccomp_table.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr std::uint32_t kNativeArch = SCMP_ARCH_X86_64;
constexpr std::uint32_t kOtherArches[] = {SCMP_ARCH_X86, SCMP_ARCH_X32};
constexpr const char* kArchNames[] = {"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"};
#elif defined(__aarch64__)
constexpr std::uint32_t kNativeArch = SCMP_ARCH_AARCH64;
constexpr std::uint32_t kOtherArches[] = {SCMP_ARCH_ARM};
constexpr const char* kArchNames[] = {"SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"};
#else
#error "add this architecture's seccomp names here"
#endif

constexpr std::uint32_t kX32Bit = 0x40000000;  // set in the numbers of x32 calls, which have the arch of x86_64

struct ReleaseFilter {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, ReleaseFilter>;

Result<void> add_rule(const Filter& filter, std::uint32_t action, const char* call, const ArgumentRule* rule) {
  const int number = ::seccomp_syscall_resolve_name(call);
  if (number == __NR_SCMP_ERROR) return {};  // younger than this libseccomp
  int error = 0;
  if (rule == nullptr) {
    error = ::seccomp_rule_add(filter.get(), action, number, 0);
  } else {
    struct scmp_arg_cmp compare {};
    compare.arg = rule->argument;
    compare.datum_a = rule->value;
    compare.datum_b = rule->masked;
    switch (rule->compare) {
      case ArgumentRule::Compare::equal: compare.op = SCMP_CMP_EQ; break;
      case ArgumentRule::Compare::less: compare.op = SCMP_CMP_LT; break;
      case ArgumentRule::Compare::greater: compare.op = SCMP_CMP_GT; break;
      case ArgumentRule::Compare::masked_equal: compare.op = SCMP_CMP_MASKED_EQ; break;
    }
    error = ::seccomp_rule_add_array(filter.get(), action, number, 1, &compare);
  }
  if (error != 0) return fail_sys(-error, fmt::format("add {} to the seccomp filter", call));
  return {};
}

Result<Filter> build_filter() {
  Filter filter(::seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!filter) return fail(ErrorCode::unsupported, "libseccomp cannot make a filter");
  for (const std::uint32_t arch : kOtherArches) {
    const int error = ::seccomp_arch_add(filter.get(), arch);
    if (error != 0) return fail_sys(-error, "add an architecture to the seccomp filter");
  }
  // A binary search instead of one comparison for each call; refused by libseccomp before 2.5, which is slower but
  // right.
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  for (const char* call : allowed_calls()) TRY(add_rule(filter, SCMP_ACT_ALLOW, call, nullptr));
  for (const ArgumentRule& rule : argument_rules()) TRY(add_rule(filter, SCMP_ACT_ALLOW, rule.call, &rule));
  for (const char* call : absent_calls()) TRY(add_rule(filter, SCMP_ACT_ERRNO(ENOSYS), call, nullptr));
  return filter;
}

Result<Bytes> export_program(const Filter& filter) {
  const Fd file(::memfd_create("seccomp", MFD_CLOEXEC));
  if (!file.valid()) return fail_sys(errno, "memfd_create");
  const int error = ::seccomp_export_bpf(filter.get(), file.get());
  if (error != 0) return fail_sys(-error, "compile the seccomp filter");
  return read_all(file, BPF_MAXINSNS * sizeof(struct sock_filter), "the seccomp filter");
}

struct sock_filter statement(int code, std::uint32_t k) {
  return {static_cast<__u16>(code), 0, 0, k};
}
struct sock_filter jump(int code, std::uint32_t k, std::size_t if_true, std::size_t if_false) {
  return {static_cast<__u16>(code), static_cast<__u8>(if_true), static_cast<__u8>(if_false), k};
}

// Runs before libseccomp's program, for native calls: allows what is younger than libseccomp and answers ENOSYS to what
// is younger than the table. Falls through to the program for the rest.
std::vector<struct sock_filter> new_call_program() {
  constexpr int kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr int kEqual = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr int kAtLeast = BPF_JMP | BPF_JGE | BPF_K;
  const std::span<const NumberedCall> calls = allowed_new_calls();
  const std::size_t n = calls.size();
  // After the six instructions of the head: n comparisons, a jump, two returns.
  std::vector<struct sock_filter> program{
      statement(kLoad, offsetof(struct seccomp_data, arch)),
      jump(kEqual, kNativeArch, 0, n + 7),
      statement(kLoad, offsetof(struct seccomp_data, nr)),
      jump(kAtLeast, kX32Bit, n + 5, 0),
      jump(kAtLeast, static_cast<std::uint32_t>(kFirstUnknownCall), n + 2, 0),
      jump(kAtLeast, static_cast<std::uint32_t>(calls[0].number), 0, n + 3),
  };
  for (std::size_t i = 0; i < n; ++i) {
    program.push_back(jump(kEqual, static_cast<std::uint32_t>(calls[i].number), n - i + 1, 0));
  }
  program.push_back(statement(BPF_JMP | BPF_JA, 2));
  program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
  program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return program;
}

// FNV-1a over all that the program depends on.
class Fingerprint {
 public:
  void add(std::string_view text) {
    for (const char c : text) step(static_cast<unsigned char>(c));
    step(0);
  }
  void add(std::uint64_t number) { add(std::to_string(number)); }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void step(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string cache_name() {
  Fingerprint print;
  for (const char* call : allowed_calls()) print.add(call);
  for (const NumberedCall& call : allowed_new_calls()) print.add(static_cast<std::uint64_t>(call.number));
  for (const char* call : absent_calls()) print.add(call);
  for (const ArgumentRule& rule : argument_rules()) {
    print.add(rule.call);
    for (const std::uint64_t number :
         {std::uint64_t{rule.argument}, static_cast<std::uint64_t>(rule.compare), rule.value, rule.masked}) {
      print.add(number);
    }
  }
  const struct scmp_version* version = ::seccomp_version();
  return fmt::format("seccomp-{}-{}.{}.{}-{:016x}.base64", DSEC_VERSION, version->major, version->minor, version->micro,
                     print.value());
}

}  // namespace

Result<Bytes> compile_seccomp() {
  const Filter filter = TRY(build_filter());
  const Bytes main_part = TRY(export_program(filter));
  const std::vector<struct sock_filter> head = new_call_program();
  Bytes program(head.size() * sizeof(struct sock_filter));
  std::memcpy(program.data(), head.data(), program.size());
  program.insert(program.end(), main_part.begin(), main_part.end());
  if (program.size() > BPF_MAXINSNS * sizeof(struct sock_filter)) {
    return fail(ErrorCode::internal, "the seccomp filter is longer than the kernel takes");
  }
  return program;
}

Result<std::string> cached_seccomp_base64(const fs::path& cache_dir) {
  constexpr std::uint64_t kMaxCached = 1u << 20;
  const fs::path cached = cache_dir / cache_name();
  if (const Result<Bytes> text = read_file(cached, kMaxCached); text && !text->empty()) {
    return std::string(as_text(*text));
  }
  const std::string text = base64(TRY(compile_seccomp()));
  if (make_dirs(cache_dir)) std::ignore = write_file_atomic(cache_dir, cached, as_bytes(text));
  return text;
}

std::vector<std::string> seccomp_architectures() { return {std::begin(kArchNames), std::end(kArchNames)}; }

std::string base64(ByteView bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < have ? bytes[i + j] : 0u);
    for (std::size_t j = 0; j < 4; ++j) text += j <= have ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

}  // namespace dsec::launcher
