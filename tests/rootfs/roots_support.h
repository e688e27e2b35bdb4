// SPDX-License-Identifier: Apache-2.0
// What the tests of object roots share.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "daemon/object_roots.h"
#include "rootfs/object_root.h"
#include "tree/tree_support.h"

namespace dsec::daemon::test {

// Environments and a directory of objects that has none: only names are looked at.
struct RootsWorld {
  RootsWorld() { std::filesystem::create_directories(objects); }
  // Why object roots cannot be tested here; empty when they can.
  [[nodiscard]] std::string why_not() const {
    if (::geteuid() != 0) return "mounting needs root";
    const auto works = rootfs::try_object_mode(world.dir().path());
    return works ? std::string() : works.error().message;
  }
  [[nodiscard]] static bool has(const std::shared_ptr<const Fd>& root, const std::string& name) {
    return open_at(*root, name, O_PATH).has_value();
  }
  tree::test::World world;
  std::filesystem::path objects = world.dir().path() / "objects";
};

}  // namespace dsec::daemon::test
