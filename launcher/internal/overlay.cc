// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/overlay.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"

namespace dsec::launcher {

namespace {

namespace fs = std::filesystem;

struct Option {
  const char* key;
  std::string value;
};

// The directories of an overlay, open, and their names in /proc/self/fd.
struct OpenLayers {
  std::vector<Fd> fds;
  std::vector<std::string> lowers;  // top first, as overlayfs counts
  std::string upper;
  std::string work;
};

Result<std::string> open_layer(OpenLayers& layers, const fs::path& path) {
  layers.fds.push_back(TRY(open_file(path, O_PATH | O_DIRECTORY)));
  return fmt::format("/proc/self/fd/{}", layers.fds.back().get());
}

Result<OpenLayers> open_layers(const OverlayLayout& layout) {
  OpenLayers layers;
  for (const fs::path& lower : layout.lowers) layers.lowers.push_back(TRY(open_layer(layers, lower)));
  std::reverse(layers.lowers.begin(), layers.lowers.end());
  layers.upper = TRY(open_layer(layers, layout.upper));
  layers.work = TRY(open_layer(layers, layout.work));
  return layers;
}

std::vector<Option> common_options(const OpenLayers& layers) {
  return {{"upperdir", layers.upper}, {"workdir", layers.work}, {"index", "off"}, {"xino", "off"},
          {"metacopy", "off"},        {"redirect_dir", "off"}};
}

// What the kernel wrote about a failed fsconfig or fsmount ("e overlay: ..."), if anything.
std::string kernel_message(const Fd& context) {
  char text[512];
  const ssize_t n = ::read(context.get(), text, sizeof text);
  return n > 2 ? fmt::format(" ({})", std::string_view(text + 2, static_cast<std::size_t>(n) - 2)) : std::string();
}

// Before Linux 6.5 overlayfs collects options unread, and refuses one that it does not know only when the mount is
// made, in words that other mistakes also have. So ask with one that no kernel knows.
bool reads_options_one_by_one() {
  const Fd context(::fsopen("overlay", FSOPEN_CLOEXEC));
  return ::fsconfig(context.get(), FSCONFIG_SET_FLAG, "dsec-unknown", nullptr, 0) != 0;
}

// With fsopen(2): one option a call, so no limit on the number of layers (Linux 6.8 for lowerdir+). `unsupported` when
// the kernel does not know a call or an option; nothing is mounted then.
Result<void> mount_with_fsopen(const OpenLayers& layers, const OverlayLayout& layout) {
  if (!reads_options_one_by_one()) return fail(ErrorCode::unsupported, "overlayfs takes its options as one text only");
  const Fd context(::fsopen("overlay", FSOPEN_CLOEXEC));
  if (!context.valid()) return fail_sys(errno, "fsopen overlay");
  const auto set = [&](const char* key, const std::string& value) {
    return ::fsconfig(context.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) == 0;
  };
  set("source", "overlay");
  for (const std::string& lower : layers.lowers) {
    if (!set("lowerdir+", lower)) return fail(ErrorCode::unsupported, "lowerdir+ is not known");
  }
  for (const Option& option : common_options(layers)) {
    if (!set(option.key, option.value)) {
      const int error = errno;
      return fail_sys(error, fmt::format("overlay option {}{}", option.key, kernel_message(context)));
    }
  }
  // Linux 5.10; without it the upper layer is synced at unmounting, which is slow but right.
  if (layout.durable == OverlayLayout::Durable::no)
    ::fsconfig(context.get(), FSCONFIG_SET_FLAG, "volatile", nullptr, 0);
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    const int error = errno;
    return fail_sys(error, fmt::format("create the overlay{}", kernel_message(context)));
  }
  const Fd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV));
  if (!mount.valid()) return fail_sys(errno, "mount the overlay");
  if (::move_mount(mount.get(), "", AT_FDCWD, layout.target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return fail_sys(errno, fmt::format("mount the overlay on {}", layout.target.native()));
  }
  return {};
}

// With mount(2): all options in one page of text.
Result<void> mount_with_string(const OpenLayers& layers, const OverlayLayout& layout) {
  std::string data = "lowerdir=";
  for (const std::string& lower : layers.lowers) data += (data.back() == '=' ? "" : ":") + lower;
  for (const Option& option : common_options(layers)) data += fmt::format(",{}={}", option.key, option.value);
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (data.size() + 16 > page) {
    return fail(ErrorCode::unsupported, "{} lower directories are too many for this kernel", layers.lowers.size());
  }
  const auto mount = [&](const std::string& options) {
    return ::mount("overlay", layout.target.c_str(), "overlay", MS_NODEV, options.c_str()) == 0;
  };
  if (layout.durable == OverlayLayout::Durable::no && mount(data + ",volatile")) return {};
  if (mount(data)) return {};
  return fail_sys(errno, fmt::format("mount the overlay on {}", layout.target.native()));
}

}  // namespace

Result<void> mount_overlay(const OverlayLayout& layout) {
  const OpenLayers layers = TRY(open_layers(layout));
  const Result<void> mounted = mount_with_fsopen(layers, layout);
  if (mounted || mounted.error().code != ErrorCode::unsupported) {
    if (!mounted && mounted.error().sys == EINVAL) {
      return tl::unexpected(
          mounted.error().within(fmt::format("{} cannot be the upper layer of an overlay, or a lower directory is on a "
                                             "file system that cannot be below one",
                                             layout.upper.native())));
    }
    return mounted;
  }
  return mount_with_string(layers, layout);
}

}  // namespace dsec::launcher
