// SPDX-License-Identifier: Apache-2.0
// The C interface of 3FS's user-space I/O library (USRBIO), found at run time: the project neither links nor ships it.
// Names, layouts and rules follow src/lib/api/hf3fs_usrbio.h and UsrbIo.md of the public 3FS sources.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace dsec::io {

// Memory that this process and the file system's client process share; what is read arrives in it.
struct Hf3fsIov {
  std::uint8_t* base;
  void* handle;
  char id[16];
  char mount_point[256];
  std::size_t size;
  std::size_t block_size;  // 0: one block. One I/O must lie within one block.
  int numa;
};

// A ring of requests, either of reads or of writes.
struct Hf3fsIor {
  Hf3fsIov iov;
  void* handle;
  char mount_point[256];
  bool for_read;
  int io_depth;
  int priority;
  int timeout;
  std::uint64_t flags;
};

struct Hf3fsCqe {
  std::int32_t index;
  std::int32_t reserved;
  std::int64_t result;  // bytes, or -errno
  const void* userdata;
};

// The library keeps and copies these itself, so their layout is part of the interface.
static_assert(sizeof(Hf3fsIov) == 312 && offsetof(Hf3fsIov, size) == 288 && offsetof(Hf3fsIov, numa) == 304);
static_assert(sizeof(Hf3fsIor) == 600 && offsetof(Hf3fsIor, handle) == 312 && offsetof(Hf3fsIor, for_read) == 576 &&
              offsetof(Hf3fsIor, io_depth) == 580 && offsetof(Hf3fsIor, flags) == 592);
static_assert(sizeof(Hf3fsCqe) == 24 && offsetof(Hf3fsCqe, result) == 8);

// Flag of a ring: data behind a hole is an error (ENODATA) and not zeros. A hole at the end of what was asked for reads
// like the end of the file in any case.
inline constexpr std::uint64_t kHf3fsForbidReadHoles = 2;

// The functions that are used, each under its name in the library without "hf3fs_". Only prep_io, submit_ios and
// wait_for_ios have a thread rule: for one ring, one thread may prepare and submit, and one (the same or another) wait.
struct Hf3fsApi {
  // Whether an open file lies on 3FS.
  bool (*is_hf3fs)(int fd);
  // Length of the mount point with its NUL, which is stored when it fits `size`; -1: not on 3FS. The path must exist.
  int (*extract_mount_point)(char* out, int size, const char* path);
  // 0 or -errno.
  int (*iovcreate)(Hf3fsIov* iov, const char* mount_point, std::size_t size, std::size_t block_size, int numa);
  void (*iovdestroy)(Hf3fsIov* iov);
  // 0 or -errno. `io_depth` 0: run what is there at once; n > 0: only in batches of exactly n; n < 0: at most -n at a
  // time, waiting up to `timeout` milliseconds for so many.
  int (*iorcreate4)(Hf3fsIor* ior, const char* mount_point, int entries, bool for_read, int io_depth, int timeout,
                    int numa, std::uint64_t flags);
  void (*iordestroy)(Hf3fsIor* ior);
  // A positive result is an errno, all others are success. The descriptor must stay open until it is deregistered, and
  // registered for as long as a request on it runs.
  int (*reg_fd)(int fd, std::uint64_t flags);
  void (*dereg_fd)(int fd);
  // Index in the ring, or -errno. The request may run, and even be done, before submit_ios().
  int (*prep_io)(const Hf3fsIor* ior, const Hf3fsIov* iov, bool read, void* data, int fd, std::size_t offset,
                 std::uint64_t length, const void* userdata);
  // 0 or -errno.
  int (*submit_ios)(const Hf3fsIor* ior);
  // How many were stored in `cqes`, fewer than `min_results` when the time (of CLOCK_REALTIME) came first; or -errno.
  int (*wait_for_ios)(const Hf3fsIor* ior, Hf3fsCqe* cqes, int size, int min_results, const struct timespec* until);
};

inline constexpr const char* kHf3fsLibrary = "libhf3fs_api_shared.so";

// Loads `library`: a file name that the dynamic loader searches for, or a path. It stays loaded until the process ends,
// since it has threads and tables of its own. `unsupported` when it is not found or cannot be loaded, with the loader's
// words, and when it lacks a function, with its name.
Result<std::shared_ptr<const Hf3fsApi>> load_hf3fs_api(const std::string& library = kHf3fsLibrary);

}  // namespace dsec::io
