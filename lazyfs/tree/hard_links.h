// SPDX-License-Identifier: Apache-2.0
// All names of hard-linked files of a layer.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "format/erofs.h"

namespace dsec::tree {

// nid -> paths ("usr/bin/perl", no leading slash) of every non-directory with more than one name.
using HardLinks = std::unordered_map<std::uint64_t, std::vector<std::string>>;

// Walks the whole image: costs about as much as `find -ls`. Only environments ask for it in which a file with several
// names lies below another layer.
Result<HardLinks> collect_hard_links(const format::ErofsView& image);

}  // namespace dsec::tree
