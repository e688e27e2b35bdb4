// SPDX-License-Identifier: Apache-2.0
// Where the store, the state and the sockets are.
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"
#include "cli/doctor/internal/host.h"
#include "store/store.h"

namespace dsec::doctor {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kStorePatience{2000};
constexpr std::uint64_t kMinFreeBytes = std::uint64_t{1} << 30;
// lazyfsd's socket is "<runtime dir>/lazyfs/<16 hex digits>/control.sock" or so; the kernel takes 107 bytes.
constexpr std::size_t kSocketTail = 48;

struct Place {
  fs::path path;  // exists
  std::string type;
  std::uint64_t free_bytes = 0;
  [[nodiscard]] std::string text() const { return fmt::format("{}, {} free", type, human_size(free_bytes)); }
};

Place place_of(const std::vector<MountEntry>& mounts, const fs::path& path) {
  Place place;
  place.path = nearest_existing(path);
  std::error_code error;
  const fs::path real = fs::canonical(place.path, error);
  const MountEntry* mount = mount_of(mounts, real.native());
  place.type = mount == nullptr ? "unknown file system" : mount->type;
  struct statvfs info {};
  if (::statvfs(place.path.c_str(), &info) == 0) place.free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  return place;
}

// Whether what follows will not hang, as far as that can be known.
bool answers(const fs::path& path) {
  const auto ask = [&path]() -> std::string {
    struct statvfs info {};
    ::statvfs(path.c_str(), &info);
    [[maybe_unused]] const auto ignored = store::Store::open(path);
    return {};
  };
  return ask_apart(ask, kStorePatience).has_value();
}

Finding store_finding(const std::vector<MountEntry>& mounts, const fs::path& path) {
  if (!answers(path)) {
    return missing("store", fmt::format("{} does not answer", path.native()),
                   "what is on this node is read; everything else waits, or fails at its deadline",
                   "look at its server and at the network");
  }
  const Place place = place_of(mounts, path);
  const auto opened = store::Store::open(path);
  const std::string found = fmt::format("{}: {}", path.native(), place.text());
  if (!opened && opened.error().code != ErrorCode::not_found) {
    return missing("store", opened.error().message, "nothing can be composed or run",
                   "name another store with --store or DSEC_STORE");
  }
  if (!opened) return fine("store", found + "; not made yet (`dsec compose` does)");
  if (::access(path.c_str(), W_OK) != 0) {
    return degraded("store", found + "; read-only", "environments can be run but not composed",
                    "write access to the store");
  }
  if (place.free_bytes < kMinFreeBytes) {
    return degraded("store", found, "there is little room for new layers", "free some space, or use a larger disk");
  }
  return fine("store", found);
}

Finding state_finding(const std::vector<MountEntry>& mounts, const fs::path& path) {
  const Place place = place_of(mounts, path);
  const std::string found = fmt::format("{}: {}", path.native(), place.text());
  if (place.free_bytes >= kMinFreeBytes) return fine("state directory", found);
  return degraded("state directory", found, "sandboxes that write much fail with \"no space left\"",
                  "free some space, or point DSEC_STATE_DIR to a larger disk");
}

Finding runtime_finding(const std::vector<MountEntry>& mounts, const fs::path& path) {
  const Place place = place_of(mounts, path);
  const std::string found = fmt::format("{}: {}", path.native(), place.type);
  if (path.native().size() + kSocketTail >= sizeof(sockaddr_un{}.sun_path)) {
    return missing("runtime directory", found, "its path is too long for a socket: lazyfsd cannot be reached",
                   "point DSEC_RUNTIME_DIR to a shorter path");
  }
  if (::access(place.path.c_str(), W_OK) != 0) {
    return missing("runtime directory", found + "; cannot be written", "lazyfsd cannot be started",
                   "run as root, or set DSEC_RUNTIME_DIR");
  }
  return fine("runtime directory", found);
}

}  // namespace

Findings examine_storage(const HostFiles& host, const DoctorOptions& options) {
  const std::vector<MountEntry> mounts = parse_mountinfo(host.read("proc/self/mountinfo"));
  return {store_finding(mounts, options.store), state_finding(mounts, options.state_dir),
          examine_upper(options.state_dir), runtime_finding(mounts, options.runtime_dir)};
}

}  // namespace dsec::doctor
