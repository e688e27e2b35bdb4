// SPDX-License-Identifier: Apache-2.0
#include "store/internal/map_check.h"

#include <vector>

namespace dsec::store {

Result<void> check_map_has_objects(const format::ErofsView& image, const format::LocationMapView& map) {
  std::vector<std::uint64_t> directories{image.root_nid()};
  std::size_t missing = 0;
  Digest first;
  Result<void> outcome;
  const auto visit = [&](const format::DirentView& entry) -> Result<void> {
    if (entry.name == "." || entry.name == "..") return {};
    const format::InodeView inode = TRY(image.inode(entry.nid));
    if (inode.type == format::FileType::directory) directories.push_back(entry.nid);
    if (inode.type != format::FileType::regular || inode.size == 0) return {};
    const Digest object = TRY(image.object(inode));
    if (object.is_zero() || map.find(object)) return {};
    if (++missing == 1) first = object;
    return {};
  };
  while (!directories.empty()) {
    const format::InodeView directory = TRY(image.inode(directories.back()));
    directories.pop_back();
    TRY(image.for_each_entry(directory, [&](const format::DirentView& entry) {
      outcome = visit(entry);
      return outcome.has_value();
    }));
    TRY(std::move(outcome));
  }
  if (missing == 0) return {};
  return fail(ErrorCode::corrupt, "{} files of the layer are not in it, among them object {}", missing, first.hex());
}

}  // namespace dsec::store
