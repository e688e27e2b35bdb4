// SPDX-License-Identifier: Apache-2.0
// The functions that the caller finds, as the library has them.
#include <limits.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "ring.h"
#include "state.h"

using namespace hf3fs_mock;
using dsec::io::Hf3fsCqe;
using dsec::io::Hf3fsIor;
using dsec::io::Hf3fsIov;

namespace {

// What handles stand for.
struct Things {
  std::mutex mutex;
  std::map<void*, std::unique_ptr<Ring>> rings;
  std::map<void*, std::unique_ptr<Iov>> iovs;
};
Things& things() {
  static auto* known = new Things;
  return *known;
}

template <typename Thing>
bool in_use(const Thing& thing) {
  const std::lock_guard lock(things().mutex);
  for (const auto& [handle, ring] : things().rings) {
    if (ring->uses(thing)) return true;
  }
  return false;
}

// Both fields have room for 256 bytes.
void store_path(char* out, const std::string& path) { out[path.copy(out, 255)] = '\0'; }

template <typename Thing>
void* keep(std::map<void*, std::unique_ptr<Thing>>& known, std::unique_ptr<Thing> thing) {
  void* handle = thing.get();
  const std::lock_guard lock(things().mutex);
  known.emplace(handle, std::move(thing));
  return handle;
}

template <typename Thing>
std::unique_ptr<Thing> take(std::map<void*, std::unique_ptr<Thing>>& known, void* handle) {
  const std::lock_guard lock(things().mutex);
  auto node = known.extract(handle);
  if (node.empty()) {
    breach("something was destroyed that is not there");
    return nullptr;
  }
  return std::move(node.mapped());
}

bool is_mount_point(const char* path) { return path != nullptr && !root().empty() && root() == path; }

}  // namespace

extern "C" {

bool hf3fs_is_hf3fs(int fd) { return is_below_root(fd); }

int hf3fs_extract_mount_point(char* out, int size, const char* path) {
  const std::string top = root();
  char* real = ::realpath(path, nullptr);
  const std::string place = real != nullptr ? real : "";
  std::free(real);
  const bool below = top == "/" || place == top || place.compare(0, top.size() + 1, top + "/") == 0;
  if (top.empty() || !below) return -1;
  if (static_cast<int>(top.size()) < size) store_path(out, top);
  return static_cast<int>(top.size()) + 1;
}

int hf3fs_iovcreate(Hf3fsIov* iov, const char* mount_point, std::size_t size, std::size_t block_size, int numa) {
  if (const long error = numbers().iovcreate_errno; error != 0) return -static_cast<int>(error);
  if (!is_mount_point(mount_point)) return -ENOENT;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  *iov = {};
  iov->base = static_cast<std::uint8_t*>(memory);
  iov->handle = keep(things().iovs, std::make_unique<Iov>(Iov{iov->base, size, block_size}));
  store_path(iov->mount_point, mount_point);
  iov->size = size;
  iov->block_size = block_size;
  iov->numa = numa;
  numbers().iovs++;
  numbers().open_iovs++;
  return 0;
}

void hf3fs_iovdestroy(Hf3fsIov* iov) {
  const auto made = take(things().iovs, iov->handle);
  if (!made) return;
  if (in_use(*made)) breach("memory was given back before the requests in it were reaped");
  ::munmap(made->base, made->size);
  iov->handle = nullptr;
  numbers().open_iovs--;
}

int hf3fs_iorcreate4(Hf3fsIor* ior, const char* mount_point, int entries, bool for_read, int io_depth, int timeout,
                     int numa, std::uint64_t flags) {
  if (const long error = numbers().iorcreate_errno; error != 0) return -static_cast<int>(error);
  if (!is_mount_point(mount_point)) return -ENOENT;
  if (entries <= 0 || timeout < 0) return -EINVAL;
  *ior = {};
  ior->handle = keep(things().rings, std::make_unique<Ring>(entries, io_depth, flags));
  store_path(ior->mount_point, mount_point);
  ior->for_read = for_read;
  ior->io_depth = io_depth;
  ior->timeout = timeout;
  ior->flags = flags;
  ior->iov.numa = numa;
  numbers().rings++;
  numbers().open_rings++;
  return 0;
}

void hf3fs_iordestroy(Hf3fsIor* ior) {
  if (!take(things().rings, ior->handle)) return;
  ior->handle = nullptr;
  numbers().open_rings--;
}

int hf3fs_reg_fd(int fd, std::uint64_t) { return register_fd(fd); }

void hf3fs_dereg_fd(int fd) {
  const auto file = deregister_fd(fd);
  if (file && in_use(*file)) breach("a descriptor was deregistered before a request on it was reaped");
}

int hf3fs_prep_io(const Hf3fsIor* ior, const Hf3fsIov* iov, bool read, void* data, int fd, std::size_t offset,
                  std::uint64_t length, const void* userdata) {
  if (ior->handle == nullptr || iov->handle == nullptr || read != ior->for_read || data == nullptr) return -EINVAL;
  Request request;
  request.iov = static_cast<const Iov*>(iov->handle);
  request.data = static_cast<std::uint8_t*>(data);
  request.offset = offset;
  request.length = length;
  request.userdata = userdata;
  request.file = registered(fd);
  return static_cast<Ring*>(ior->handle)->prepare(std::move(request));
}

int hf3fs_submit_ios(const Hf3fsIor* ior) { return static_cast<Ring*>(ior->handle)->submit(); }

int hf3fs_wait_for_ios(const Hf3fsIor* ior, Hf3fsCqe* cqes, int size, int min_results, const struct timespec* until) {
  return static_cast<Ring*>(ior->handle)->wait(cqes, size, min_results, until);
}
}
