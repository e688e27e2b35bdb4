// SPDX-License-Identifier: Apache-2.0
#include "control/handover.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/atomic_file.h"
#include "base/json.h"

namespace dsec::control {

namespace {

constexpr std::uint64_t kMaxBytes = 1 << 20;
constexpr std::array kInFlightNames{"none", "serve", "refuse"};

std::string to_hex(ByteView bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

Result<Bytes> from_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = value_of(text[i]);
    const int low = value_of(text[i + 1]);
    if (high < 0 || low < 0) return fail(ErrorCode::invalid, "no hexadecimal bytes");
    bytes.push_back(static_cast<std::uint8_t>(high * 16 + low));
  }
  return bytes;
}

Result<Handover::InFlight> parse_in_flight(const std::string& name) {
  for (std::size_t i = 0; i < kInFlightNames.size(); ++i) {
    if (name == kInFlightNames[i]) return static_cast<Handover::InFlight>(i);
  }
  return fail(ErrorCode::invalid, "nothing is done with requests in flight by \"{}\"", name);
}

}  // namespace

void remove_what_was_left(const std::filesystem::path& dir) {
  std::error_code ignored;
  for (const char* name : kLeftForSuccessor) std::filesystem::remove(dir / name, ignored);
  remove_unfinished_files(dir);
}

Result<Fd> write_handover(const Handover& handover) {
  Json document = {{"arguments", handover.arguments},
                   {"in_flight", kInFlightNames[static_cast<std::size_t>(handover.in_flight)]},
                   {"is_first", handover.is_first},
                   {"has_rings", handover.has_rings},
                   {"keeper", handover.keeper},
                   {"daemon", handover.daemon},
                   {"restarts", handover.restarts},
                   {"last_reason", handover.last_reason},
                   {"mountpoints", {handover.mountpoints[0].native(), handover.mountpoints[1].native()}},
                   {"inits", {to_hex(handover.inits[0]), to_hex(handover.inits[1])}}};
  Fd file(::memfd_create("dsec-handover", MFD_CLOEXEC));
  if (!file.valid()) return fail_sys(errno, "make an anonymous file");
  TRY(write_all(file, as_bytes(dump_json(document))));
  return file;
}

Result<Handover> read_handover(const Fd& file) {
  const Bytes bytes = TRY(read_all(file, kMaxBytes, "handover"));
  const Json document = TRY(parse_json(as_text(bytes), "handover"));
  Handover handover;
  handover.arguments = TRY(json_texts(document, "arguments"));
  handover.in_flight = TRY(parse_in_flight(TRY(json_text(document, "in_flight"))));
  handover.is_first = or_default(json_bool(document, "is_first"), false).value_or(false);
  handover.has_rings = or_default(json_bool(document, "has_rings"), false).value_or(false);
  handover.keeper = static_cast<pid_t>(TRY(json_int(document, "keeper")));
  handover.daemon = static_cast<pid_t>(TRY(json_int(document, "daemon")));
  handover.restarts = TRY(json_uint(document, "restarts"));
  handover.last_reason = TRY(json_text(document, "last_reason"));
  const auto mountpoints = TRY(json_texts(document, "mountpoints"));
  const auto inits = TRY(json_texts(document, "inits"));
  if (mountpoints.size() != handover.mountpoints.size() || inits.size() != handover.inits.size()) {
    return fail(ErrorCode::invalid, "a handover has two mounts");
  }
  for (std::size_t i = 0; i < inits.size(); ++i) {
    handover.mountpoints[i] = mountpoints[i];
    handover.inits[i] = TRY(from_hex(inits[i]));
  }
  return handover;
}

Result<void> send_signal(const Fd& channel, Signal signal) {
  const char byte = static_cast<char>(signal);
  const ssize_t n = ::send(channel.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n == 1 || errno == EAGAIN) return {};  // full: the other side has plenty to read
  return fail(ErrorCode::unavailable, "the other side of the channel is gone: {}", errno_text(errno));
}

}  // namespace dsec::control
