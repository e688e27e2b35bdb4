// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/text.h"

namespace dsec::launcher {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

constexpr int kDirFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Removes all entries of `dir` that are no directories or empty ones; returns the name of one that is not empty, or "".
Result<std::string> remove_simple_entries(const Fd& dir, std::string_view keep) {
  Fd listing = TRY_IN("open a directory to remove", open_at(dir, ".", kDirFlags));
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(listing.release()));
  std::string full;
  while (const struct dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || name == keep) continue;
    if (::unlinkat(dir.get(), entry->d_name, 0) == 0 || errno == ENOENT) continue;
    if (errno == EISDIR || errno == EPERM) {
      if (::unlinkat(dir.get(), entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT) continue;
      if (errno == ENOTEMPTY || errno == EEXIST) {
        full = name;
        continue;
      }
    }
    return fail_sys(errno, fmt::format("remove \"{}\"", escaped(name)));
  }
  return full;
}

Result<Fd> enter(const Fd& dir, const std::string& name, dev_t device) {
  Fd child(::openat(dir.get(), name.c_str(), kDirFlags));
  if (!child.valid()) return fail_sys(errno, fmt::format("open \"{}\" to remove it", escaped(name)));
  if (TRY(stat_fd(child)).st_dev != device) {
    return fail(ErrorCode::io, "\"{}\" is on another file system: unmount it, then try again", escaped(name));
  }
  return child;
}

}  // namespace

// Depth first with a stack of names: going up is "..", which nobody moves away as nobody uses the tree any more.
Result<void> remove_contents(const Fd& dir, std::string_view keep) {
  const dev_t device = TRY(stat_fd(dir)).st_dev;
  Fd here(::openat(dir.get(), ".", kDirFlags));
  if (!here.valid()) return fail_sys(errno, "open a directory to remove");
  std::vector<std::string> above;
  while (true) {
    const std::string full = TRY(remove_simple_entries(here, above.empty() ? keep : std::string_view()));
    if (!full.empty()) {
      here = TRY(enter(here, full, device));
      above.push_back(full);
      continue;
    }
    if (above.empty()) return {};
    Fd parent(::openat(here.get(), "..", kDirFlags));
    if (!parent.valid()) return fail_sys(errno, "go up from a removed directory");
    if (::unlinkat(parent.get(), above.back().c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return fail_sys(errno, fmt::format("remove \"{}\"", escaped(above.back())));
    }
    above.pop_back();
    here = std::move(parent);
  }
}

Result<void> remove_tree(const Fd& parent, const std::string& name) {
  const Fd dir(::openat(parent.get(), name.c_str(), kDirFlags));
  if (!dir.valid()) {
    if (errno == ENOENT) return {};
    return fail_sys(errno, fmt::format("open \"{}\" to remove it", escaped(name)));
  }
  TRY_IN(name, remove_contents(dir));
  if (::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return fail_sys(errno, fmt::format("remove \"{}\"", escaped(name)));
  }
  return {};
}

}  // namespace dsec::launcher
