// SPDX-License-Identifier: Apache-2.0
#include "cli/rootfs_mode.h"

namespace dsec::cli {

Result<control::RootfsMode> parse_rootfs_mode(std::string_view text) {
  if (text == "auto") return control::RootfsMode::automatic;
  if (text == "tree") return control::RootfsMode::tree;
  if (text == "objects") return control::RootfsMode::objects;
  return fail(ErrorCode::invalid, "the rootfs mode is \"{}\"; it is auto, tree or objects", text);
}

}  // namespace dsec::cli
