// SPDX-License-Identifier: Apache-2.0
#include "io/hf3fs_api.h"

#include <dlfcn.h>

namespace dsec::io {

namespace {

template <typename Function>
Result<void> find(void* library, const std::string& name, Function*& out) {
  void* symbol = ::dlsym(library, name.c_str());
  if (symbol == nullptr) return fail(ErrorCode::unsupported, "it has no {}", name);
  out = reinterpret_cast<Function*>(symbol);
  return {};
}

Result<void> find_all(void* library, Hf3fsApi& api) {
  TRY(find(library, "hf3fs_is_hf3fs", api.is_hf3fs));
  TRY(find(library, "hf3fs_extract_mount_point", api.extract_mount_point));
  TRY(find(library, "hf3fs_iovcreate", api.iovcreate));
  TRY(find(library, "hf3fs_iovdestroy", api.iovdestroy));
  TRY(find(library, "hf3fs_iorcreate4", api.iorcreate4));
  TRY(find(library, "hf3fs_iordestroy", api.iordestroy));
  TRY(find(library, "hf3fs_reg_fd", api.reg_fd));
  TRY(find(library, "hf3fs_dereg_fd", api.dereg_fd));
  TRY(find(library, "hf3fs_prep_io", api.prep_io));
  TRY(find(library, "hf3fs_submit_ios", api.submit_ios));
  return find(library, "hf3fs_wait_for_ios", api.wait_for_ios);
}

}  // namespace

Result<std::shared_ptr<const Hf3fsApi>> load_hf3fs_api(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::unsupported, "the 3FS library cannot be loaded: {}", why != nullptr ? why : library.c_str());
  }
  auto api = std::make_shared<Hf3fsApi>();
  TRY_IN(fmt::format("the 3FS library {}", library), find_all(handle, *api));
  return api;
}

}  // namespace dsec::io
