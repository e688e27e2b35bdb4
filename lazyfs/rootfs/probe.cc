// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cstdlib>

#include "base/digest.h"
#include "format/dump.h"
#include "format/erofs.h"
#include "rootfs/object_root.h"

namespace dsec::rootfs {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kContent = "content of an object\n";

// A directory of its own, removed with all that is in it.
class ScratchDir {
 public:
  static Result<ScratchDir> make(const fs::path& parent) {
    TRY(make_dirs(parent));
    std::string path = (parent / "probe-XXXXXX").native();
    if (::mkdtemp(path.data()) == nullptr) return fail_sys(errno, fmt::format("create {}", path));
    return ScratchDir(path);
  }
  ScratchDir(ScratchDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDir& operator=(ScratchDir&&) = delete;
  ~ScratchDir() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  explicit ScratchDir(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

Result<void> put_file(const fs::path& path, ByteView bytes) {
  const Fd file = TRY(open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  return write_all(file, bytes);
}

Result<Fd> layer_of(const std::string& dump, const fs::path& dir, const char* name) {
  const Bytes image = TRY(format::write_layer(TRY(format::parse_dump(dump))));
  TRY(put_file(dir / name, image));
  return mount_layer(dir / name);
}

}  // namespace

Result<void> try_object_mode(const fs::path& scratch) {
  const ScratchDir dir = TRY(ScratchDir::make(scratch));
  const Digest object = sha256(as_bytes(kContent));
  const std::string hex = object.hex();
  const fs::path objects = dir.path() / "objects";
  TRY(make_dirs(objects / hex.substr(0, 2)));
  TRY(put_file(objects / hex.substr(0, 2) / hex.substr(2), as_bytes(kContent)));
  // The file is in the upper one of two layers: only then does following it depend on the kernel's options.
  const Fd lower = TRY(layer_of("/ directory\n/lower directory\n", dir.path(), "lower"));
  const Fd upper = TRY(layer_of(fmt::format("/ directory\n/file regular size={} object={}\n", kContent.size(), hex),
                                dir.path(), "upper"));
  const Fd data = TRY(open_file(objects, O_PATH | O_DIRECTORY));
  const Fd root = TRY(mount_object_root({&upper, &lower}, data));
  const Fd file = TRY_IN("read through an overlayfs with a data-only layer", open_at(root, "file", O_RDONLY));
  const Bytes read = TRY(read_all(file, 2 * kContent.size(), "a file of an overlayfs with a data-only layer"));
  if (as_text(read) != kContent) return fail(ErrorCode::unsupported, "overlayfs does not read its data-only layer");
  TRY_IN("look into the lower layer", open_at(root, "lower", O_PATH));
  return {};
}

}  // namespace dsec::rootfs
