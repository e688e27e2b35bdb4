// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <xxhash.h>

namespace dsec {

std::uint64_t checksum64(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace dsec
