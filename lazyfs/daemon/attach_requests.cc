// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach_requests.h"

#include <optional>

namespace dsec::daemon {

Result<Json> AttachRequests::attach(const Json& request, ControlServer::Peer& peer) {
  const Digest env = TRY(Digest::parse(TRY(json_text(request, "env"))));
  const View view = TRY(parse_view(TRY(json_text(request, "view"))));
  const Purpose purpose =
      TRY(parse_purpose(or_default(json_text(request, "purpose"), std::string("other")).value_or("other")));
  const std::string owner = TRY(json_text(request, "owner"));
  const bool leased = TRY(json_bool(request, "leased"));
  if (!parts_.attachments->layers(env)) TRY(parts_.store_check->verdict());
  std::optional<LeaseHolder> holder;
  if (leased) holder = holder_of(peer.pid);
  TRY(parts_.prefetch->before_attach(env, purpose, owner));
  const auto made = parts_.attachments->attach(env, view, owner, holder);
  if (!made) {
    parts_.prefetch->before_detach(owner);
    return tl::unexpected(made.error());
  }
  parts_.leases->forget(owner);  // it has a connection again
  if (leased) {
    peer.at_end.push_back([this, owner] {
      if (!parts_.is_leaving()) detach_owner(owner);
    });
  }
  parts_.prefetch->after_attach(env, purpose, owner);
  const auto why_not = choose_root(request, env, peer);
  if (!why_not) {
    if (!leased) detach_owner(owner);
    return tl::unexpected(why_not.error());
  }
  return Json{{"path", made->path.native()},
              {"has_xattrs", made->has_xattrs},
              {"why_not", *why_not},
              {"recorded", parts_.prefetch->is_recorded(owner)}};
}

Result<Json> AttachRequests::detach(const Json& request) {
  const std::string owner = TRY(json_text(request, "owner"));
  parts_.leases->forget(owner);
  detach_owner(owner);
  return Json::object();
}

void AttachRequests::detach_owner(const std::string& owner) {
  parts_.prefetch->before_detach(owner);
  parts_.prefetch->after_detach(parts_.attachments->detach(owner));
}

// Gives the client an object root when it wants one; returns why there is none when it would do without.
Result<std::string> AttachRequests::choose_root(const Json& request, const Digest& env, ControlServer::Peer& peer) {
  const std::string mode = or_default(json_text(request, "rootfs_mode"), std::string("tree")).value_or("tree");
  if (mode == "tree") return std::string();
  auto root = parts_.attachments->object_root(env);
  if (!root && mode == "objects") return tl::unexpected(root.error().within("object mode"));
  if (!root) return root.error().message;
  peer.reply_fd = *root;
  return std::string();
}

Result<Json> AttachRequests::usage(const Json& request) {
  const Digest env = TRY(Digest::parse(TRY(json_text(request, "env"))));
  const Attachments::Usage usage = TRY(parts_.attachments->usage(env));
  return Json{{"store_bytes", usage.store_bytes}, {"read_bytes", usage.read_bytes}, {"reads", usage.reads}};
}

}  // namespace dsec::daemon
