// SPDX-License-Identifier: Apache-2.0
// Registered descriptors of the stand-in.
#pragma once

#include <sys/stat.h>

#include <memory>

namespace hf3fs_mock {

struct File {
  int fd = -1;
  int own = -1;  // duplicate, as the library keeps one
  struct stat info {};
  int flags = 0;
  ~File();
};

// A positive errno, or minus the duplicate.
int register_fd(int fd);
std::shared_ptr<File> deregister_fd(int fd);
// By the caller's number or by minus the duplicate's; null when it is not registered. A number that has come to mean
// another file, or none, is a breach.
std::shared_ptr<File> registered(int fd);

// Whether an open file lies below the root.
bool is_below_root(int fd);

}  // namespace hf3fs_mock
