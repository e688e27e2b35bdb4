// SPDX-License-Identifier: Apache-2.0
// The kernel's overlayfs on top of a layer image: the xattrs of rules F-35 to F-39 mean there what the rules say.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>

#include "base/atomic_file.h"
#include "format/dump.h"
#include "format/erofs.h"
#include "format/erofs_mount.h"
#include "format/internal/xattr_codec.h"
#include "support/skip.h"
#include "support/temp_dir.h"

using namespace dsec;
using namespace dsec::format;

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kContent = "content of the object\n";

std::string dump() {
  return fmt::format(
      "/ directory\n"
      "/file regular size={} object={}\n"
      "/empty regular\n"
      "/gone whiteout\n"
      "/opaque directory opaque\n"
      "/opaque/mine regular\n"
      "/merged directory\n"
      "/merged/mine regular\n"
      "/nested directory\n"
      "/nested/opaque directory xattr:trusted.overlay.opaque=y\n"
      "/nested/device char_device device=0:0\n",
      kContent.size(), sha256(as_bytes(kContent)).hex());
}

// An overlay of a layer image over a directory over objects; unmounted by the destructor.
class Overlay {
 public:
  explicit Overlay(const fs::path& layer) {
    write("below/gone", "x");
    write("below/opaque/hidden", "x");
    write("below/merged/theirs", "x");
    write("objects" + object_path(sha256(as_bytes(kContent))), kContent);
    fs::create_directory(root());
    const std::string options = fmt::format("metacopy=on,lowerdir={}:{}::{}", layer.native(), (dir_ / "below").native(),
                                            (dir_ / "objects").native());
    error_ = ::mount("overlay", root().c_str(), "overlay", MS_RDONLY, options.c_str()) == 0 ? 0 : errno;
  }
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;
  ~Overlay() { ::umount2(root().c_str(), MNT_DETACH); }

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] fs::path root() const { return dir_ / "root"; }

 private:
  void write(const std::string& path, std::string_view text) {
    REQUIRE(write_file_atomic(dir_.path(), dir_ / path, as_bytes(text)));
  }

  dsec::test::TempDir dir_;
  int error_ = 0;
};

std::string xattr(const fs::path& path, const char* name) {
  std::string value(100, '\0');
  const ssize_t size = ::lgetxattr(path.c_str(), name, value.data(), value.size());
  return size < 0 ? std::string("absent") : value.substr(0, static_cast<std::size_t>(size));
}

}  // namespace

TEST_CASE("overlayfs takes a layer image as the rules mean it") {
  const auto layer = dsec::format::test::ErofsMount::of_image(write_layer(parse_dump(dump()).value()).value());
  if (!layer && layer.error().code == ErrorCode::permission) SKIP_TEST(layer.error().message);
  if (!layer && layer.error().code == ErrorCode::unsupported) SKIP_TEST(layer.error().message);
  REQUIRE(layer);
  const Overlay overlay(layer->root());
  if (overlay.error() == EINVAL) SKIP_TEST("this kernel's overlayfs has no data-only layers (6.5 has)");
  REQUIRE(overlay.error() == 0);
  const fs::path root = overlay.root();

  const auto content = read_file(root / "file", 1000);
  INFO((content ? "" : content.error().message));
  REQUIRE(content);
  CHECK(as_text(*content) == kContent);  // F-35
  CHECK(fs::file_size(root / "empty") == 0);
  CHECK_FALSE(fs::exists(root / "gone"));  // F-28
  CHECK(fs::exists(root / "opaque/mine"));
  CHECK_FALSE(fs::exists(root / "opaque/hidden"));  // F-36
  CHECK(fs::exists(root / "merged/mine"));
  CHECK(fs::exists(root / "merged/theirs"));
  CHECK(xattr(root / "file", "trusted.overlay.redirect") == "absent");
  // One level of escaping is gone, so that an overlayfs in a sandbox sees what the tree holds.
  CHECK(xattr(root / "nested/opaque", "trusted.overlay.opaque") == "y");     // F-37
  CHECK(xattr(root / "nested/device", "trusted.overlay.whiteout").empty());  // F-38
  CHECK(fs::is_regular_file(root / "nested/device"));
  CHECK(xattr(root / "nested/device", "trusted.overlay.dsec.device") == "absent");
  CHECK(xattr(root / "nested", "trusted.overlay.opaque") == "x");  // F-39
  CHECK(xattr(root / "nested", "trusted.overlay.dsec.xwhiteouts") == "absent");
}
