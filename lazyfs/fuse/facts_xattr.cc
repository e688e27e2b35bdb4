// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/facts_xattr.h"

#include <cerrno>

namespace dsec::fuse {

namespace {

tl::unexpected<Error> absent() { return fail_sys(ENODATA, "no such xattr"); }

}  // namespace

Result<std::string> facts_xattr(const tree::Namespace& names, tree::NodeId node, std::string_view name,
                                const tree::Whereabouts& where, store::Deadline deadline) {
  const std::string_view what = name.substr(kFactsPrefix.size());
  const bool is_known = what == "digest" || what == "layer" || what == "env" || what == "chunks" || what == "cached";
  if (!is_known) return absent();  // without a look at the node, which may ask the store
  const tree::NodeFacts facts = TRY(names.facts(node, deadline));
  if (what == "layer") return facts.layer.hex();
  if (what == "env" && facts.env) return facts.env->hex();
  if (what == "digest" && facts.object) return facts.object->hex();
  if (what == "chunks" && facts.object) return std::to_string(facts.chunks.size());
  if (what == "cached" && facts.object && where) {
    const tree::Residence found = tree::residence(facts, where);
    return fmt::format("memory={} disk={} store={}", found.of(store::Origin::memory).chunks,
                       found.of(store::Origin::cache).chunks, found.of(store::Origin::store).chunks);
  }
  return absent();
}

}  // namespace dsec::fuse
