// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/internal/host_text.h"

#include <array>
#include <charconv>

#include "base/text.h"

namespace dsec::doctor {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

template <typename T>
bool read_number(std::string_view text, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::optional<KernelVersion> parse_kernel_release(std::string_view release) {
  const std::size_t dot = release.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view rest = release.substr(dot + 1);
  KernelVersion version;
  if (!read_number(release.substr(0, dot), version.major)) return std::nullopt;
  if (!read_number(rest.substr(0, rest.find_first_not_of("0123456789")), version.minor)) return std::nullopt;
  return version;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  if (!read_number(trimmed(text), value)) return std::nullopt;
  return value;
}

bool lists_filesystem(std::string_view filesystems, std::string_view type) {
  for (const std::string_view line : split(filesystems, '\n')) {
    if (line.substr(line.find('\t') + 1) == type) return true;
  }
  return false;
}

std::uint64_t effective_capabilities(std::string_view status) {
  constexpr std::string_view kKey = "CapEff:";
  for (const std::string_view line : split(status, '\n')) {
    std::uint64_t value = 0;
    if (starts_with(line, kKey) && read_number(trimmed(line.substr(kKey.size())), value, 16)) return value;
  }
  return 0;
}

CgroupLayout cgroup_layout(const std::vector<MountEntry>& mounts) {
  constexpr std::array<std::string_view, 4> kControllers{"cpu", "devices", "memory", "pids"};
  CgroupLayout layout;
  for (const MountEntry& mount : mounts) {
    if (mount.type == "cgroup2" && layout.unified.empty()) layout.unified = mount.point;
    if (mount.type != "cgroup") continue;
    for (const std::string_view option : split(mount.options, ',')) {
      for (const std::string_view controller : kControllers) {
        if (option == controller) layout.v1.emplace(controller, mount.point);
      }
    }
  }
  if (layout.v1.empty())
    layout.kind = layout.unified.empty() ? CgroupLayout::Kind::none : CgroupLayout::Kind::v2;
  else
    layout.kind = layout.unified.empty() ? CgroupLayout::Kind::v1 : CgroupLayout::Kind::hybrid;
  return layout;
}

const char* to_string(CgroupLayout::Kind kind) {
  switch (kind) {
    case CgroupLayout::Kind::none: return "none";
    case CgroupLayout::Kind::v1: return "version 1";
    case CgroupLayout::Kind::v2: return "version 2";
    case CgroupLayout::Kind::hybrid: return "hybrid (limits by version 1)";
  }
  return "none";
}

std::string own_group(std::string_view cgroups, std::string_view controller) {
  for (const std::string_view line : split(cgroups, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    for (const std::string_view name : split(line.substr(first + 1, second - first - 1), ',')) {
      if (name == controller) return std::string(line.substr(second + 1));
    }
  }
  return "/";
}

std::optional<FuseOffer> parse_fuse_init(ByteView request) {
  constexpr std::uint32_t kInitOpcode = 26;
  constexpr std::size_t kHeaderBytes = 40;
  constexpr std::uint32_t kFlags2Follow = 1u << 30;  // FUSE_INIT_EXT
  ByteReader reader(request);
  reader.get<std::uint32_t>();  // length
  const auto opcode = reader.get<std::uint32_t>();
  reader.get_bytes(kHeaderBytes - 8);
  const auto major = reader.get<std::uint32_t>();
  FuseOffer offer;
  offer.minor = reader.get<std::uint32_t>();
  reader.get<std::uint32_t>();  // max_readahead
  const auto flags = reader.get<std::uint32_t>();
  if (!reader.ok() || opcode != kInitOpcode || major != 7) return std::nullopt;
  if ((flags & kFlags2Follow) == 0) return offer;
  const auto flags2 = reader.get<std::uint32_t>();
  offer.passthrough = (flags2 & (1u << 5)) != 0;  // bit 37
  offer.resend = (flags2 & (1u << 7)) != 0;       // bit 39
  offer.io_uring = (flags2 & (1u << 9)) != 0;     // bit 41
  return offer;
}

std::string parse_crun_version(std::string_view text) {
  constexpr std::string_view kKey = "crun version ";
  if (!starts_with(text, kKey)) return {};
  const std::string_view rest = text.substr(kKey.size());
  return std::string(trimmed(rest.substr(0, rest.find('\n'))));
}

}  // namespace dsec::doctor
