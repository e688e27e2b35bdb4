// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/root_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <deque>
#include <vector>

#include "base/text.h"

namespace dsec::launcher {

namespace {

constexpr int kMaxLinks = 40;  // as the kernel (MAXSYMLINKS)

std::deque<std::string> components(std::string_view path) {
  std::deque<std::string> parts;
  for (const std::string_view part : split(path, '/')) {
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

tl::unexpected<Error> cannot_open(int error, std::string_view path) {
  return fail_sys(error, fmt::format("open {} in the sandbox's root", escaped(path)));
}

std::string parent_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string name_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

// Reads the link that `fd` (O_PATH | O_NOFOLLOW) stands for.
Result<std::string> read_link(const Fd& fd) {
  char target[PATH_MAX];
  const ssize_t n = ::readlinkat(fd.get(), "", target, sizeof target);
  if (n < 0) return fail_sys(errno, "read a symbolic link");
  return std::string(target, static_cast<std::size_t>(n));
}

}  // namespace

Result<Fd> open_in_root_by_hand(const Fd& root, std::string_view path, int flags) {
  std::deque<std::string> left = components(path);
  std::vector<Fd> trail;  // from the root down to where we are
  int links = 0;
  const auto here = [&] { return trail.empty() ? root.get() : trail.back().get(); };
  while (!left.empty()) {
    const std::string part = std::move(left.front());
    left.pop_front();
    if (part == "..") {
      if (!trail.empty()) trail.pop_back();
      continue;
    }
    Fd next(::openat(here(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) return cannot_open(errno, path);
    if (S_ISLNK(TRY(stat_fd(next)).st_mode)) {
      if (++links > kMaxLinks) return cannot_open(ELOOP, path);
      const std::string target = TRY(read_link(next));
      if (starts_with(target, "/")) trail.clear();
      const std::deque<std::string> more = components(target);
      left.insert(left.begin(), more.begin(), more.end());
      continue;
    }
    trail.push_back(std::move(next));
  }
  // Opened again through /proc, which names exactly the file that was reached.
  Fd fd(::open(fmt::format("/proc/self/fd/{}", here()).c_str(), flags | O_CLOEXEC));
  if (!fd.valid()) return cannot_open(errno, path);
  return fd;
}

Result<Fd> open_in_root(const Fd& root, std::string_view path, int flags) {
  struct open_how how {};
  how.flags = static_cast<__u64>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const std::string name(path);
  int fd = -1;
  do {
    fd = static_cast<int>(::syscall(SYS_openat2, root.get(), name.c_str(), &how, sizeof how));
  } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  if (fd >= 0) return Fd(fd);
  if (errno == ENOSYS || errno == EPERM) return open_in_root_by_hand(root, path, flags);
  return cannot_open(errno, path);
}

Result<std::string> read_in_root(const Fd& root, std::string_view path, std::uint64_t limit) {
  // Not blocking: an image may have a fifo there.
  const Fd fd = TRY(open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (!S_ISREG(TRY(stat_fd(fd)).st_mode)) {
    return fail(ErrorCode::invalid, "{} in the sandbox's root is no regular file", escaped(path));
  }
  const Bytes bytes = TRY(read_all(fd, limit, path));
  return std::string(as_text(bytes));
}

Result<Fd> make_dirs_in_root(const Fd& root, std::string_view path, mode_t mode) {
  std::string done = "/";
  Fd here = TRY(open_in_root(root, done, O_PATH | O_DIRECTORY));
  for (const std::string& part : components(path)) {
    const std::string next = (done == "/" ? "" : done) + "/" + part;
    Result<Fd> opened = open_in_root(root, next, O_PATH | O_DIRECTORY);
    if (!opened && opened.error().code == ErrorCode::not_found && part != "..") {
      if (::mkdirat(here.get(), part.c_str(), mode) != 0) {
        return fail_sys(errno, fmt::format("create directory {} in the sandbox's root", escaped(next)));
      }
      ::fchmodat(here.get(), part.c_str(), mode, 0);  // whatever the umask; the name is ours, made just now
      opened = open_in_root(root, next, O_PATH | O_DIRECTORY);
    }
    if (!opened && opened.error().sys == ENOTDIR) {
      return fail(ErrorCode::invalid, "{} in the sandbox's root is no directory", escaped(next));
    }
    if (!opened) return opened;
    here = std::move(*opened);
    done = next;
  }
  return here;
}

Result<void> make_file_in_root(const Fd& root, std::string_view path) {
  const Result<Fd> there = open_in_root(root, path, O_PATH);
  if (there || there.error().code != ErrorCode::not_found)
    return there ? Result<void>() : tl::unexpected(there.error());
  const Fd parent = TRY(make_dirs_in_root(root, parent_of(path), 0755));
  const std::string name = name_of(path);
  ::unlinkat(parent.get(), name.c_str(), 0);  // a link that leads nowhere, or nothing
  const Fd made(::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!made.valid()) return fail_sys(errno, fmt::format("create {} in the sandbox's root", escaped(path)));
  return {};
}

}  // namespace dsec::launcher
