// SPDX-License-Identifier: Apache-2.0
// Whether a location map is that of a layer.
#pragma once

#include "base/result.h"
#include "format/erofs.h"
#include "format/location_map.h"

namespace dsec::store {

// `corrupt` when the map lacks an object of the image (docs/format.md, F-65), with how many it lacks and one of them.
// Chunks of recipes are not looked for: that takes reading the recipes. Walks the whole image, which must be one that
// format::read_layer() accepts.
Result<void> check_map_has_objects(const format::ErofsView& image, const format::LocationMapView& map);

}  // namespace dsec::store
