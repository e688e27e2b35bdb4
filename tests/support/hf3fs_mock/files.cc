// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "state.h"

namespace hf3fs_mock {

namespace {

struct Table {
  std::mutex mutex;
  std::map<int, std::shared_ptr<File>> files;  // by the caller's number
};
Table& table() {
  static auto* all = new Table;
  return *all;
}

bool still_open(const File& file) {
  struct stat now {};
  return ::fstat(file.fd, &now) == 0 && now.st_dev == file.info.st_dev && now.st_ino == file.info.st_ino;
}

}  // namespace

File::~File() { ::close(own); }

bool is_below_root(int fd) {
  char path[PATH_MAX];
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  const std::string top = root();
  if (length <= 0 || top.empty()) return false;
  const std::string real(path, static_cast<std::size_t>(length));
  return top == "/" || real == top || real.compare(0, top.size() + 1, top + "/") == 0;
}

int register_fd(int fd) {
  if (const long error = numbers().reg_errno; error != 0) return static_cast<int>(error);
  if (!is_below_root(fd)) return EBADF;
  const std::lock_guard lock(table().mutex);
  if (const auto found = table().files.find(fd); found != table().files.end()) {
    if (!still_open(*found->second)) breach("a registered descriptor was closed, and its number registered again");
    return EINVAL;
  }
  auto file = std::make_shared<File>();
  file->fd = fd;
  file->own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  file->flags = ::fcntl(fd, F_GETFL);
  if (file->own < 0 || ::fstat(fd, &file->info) != 0) return errno;
  const int own = file->own;
  table().files.emplace(fd, std::move(file));
  numbers().regs++;
  numbers().open_fds++;
  return -own;
}

std::shared_ptr<File> deregister_fd(int fd) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().files.find(fd);
  if (found == table().files.end()) return nullptr;
  auto file = std::move(found->second);
  table().files.erase(found);
  if (!still_open(*file)) breach("a descriptor was closed before it was deregistered");
  numbers().deregs++;
  numbers().open_fds--;
  return file;
}

std::shared_ptr<File> registered(int fd) {
  const std::lock_guard lock(table().mutex);
  for (const auto& [number, file] : table().files) {
    if (number != fd && -file->own != fd) continue;
    if (!still_open(*file)) breach("a read of a registered descriptor that was closed");
    return file;
  }
  return nullptr;
}

}  // namespace hf3fs_mock
