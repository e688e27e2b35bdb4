// SPDX-License-Identifier: Apache-2.0
// POSIX ACLs from their text form.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dsec::composer {

// The value of system.posix_acl_access or system.posix_acl_default (kernel: include/uapi/linux/posix_acl_xattr.h) for
// the text of acl_to_text(3), entries separated by commas or newlines, as SCHILY.acl.* records hold it. Named users
// and groups must be numbers, or carry one as a fourth field (star): we do not look names up. Empty when the ACL says
// no more than the mode does, or when there is none. `invalid` for anything else.
Result<std::string> acl_xattr_from_text(std::string_view text);

}  // namespace dsec::composer
