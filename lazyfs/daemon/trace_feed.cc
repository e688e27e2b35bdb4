// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace_feed.h"

#include <cstring>

namespace dsec::daemon {

std::shared_ptr<fuse::RequestListener> TraceFeed::listener_of(ControlServer::Peer& peer) {
  auto listeners = listeners_.lock();
  auto& listener = (*listeners)[&peer];
  if (listener) return listener;
  listener = std::make_shared<fuse::RequestListener>();
  tap_->add(listener);
  peer.at_end.push_back([this, key = &peer] {
    auto all = listeners_.lock();
    all->erase(key);
    tap_->tidy();
    if (all->empty()) paths_.forget_all();
  });
  return listener;
}

Json TraceFeed::describe(const fuse::RequestEvent& event) {
  const PathFinder::Place place = paths_.find(event.node);
  const char* const error = event.error == 0 ? nullptr : ::strerrorname_np(event.error);
  Json chunks = Json::object();
  for (std::size_t i = 0; i < store::kOrigins; ++i) {
    if (event.cost.shares[i].chunks == 0) continue;
    chunks[store::to_string(static_cast<store::Origin>(i))] = event.cost.shares[i].chunks;
  }
  Json one = {{"time", std::chrono::duration<double>(event.answered.time_since_epoch()).count()},
              {"operation", fuse::to_string(event.operation)},
              {"node", event.node.value()},
              {"path", place.path},
              {"took_us", std::chrono::duration_cast<std::chrono::microseconds>(event.took).count()},
              {"error", event.error == 0   ? Json()
                        : error != nullptr ? Json(error)
                                           : Json(event.error)},
              {"chunks", std::move(chunks)},
              {"store_bytes", event.cost.store_bytes}};
  if (place.layer) one["layer"] = place.layer->hex();
  if (!event.name.empty()) one["name"] = event.name;
  if (event.operation == fuse::Operation::read || event.operation == fuse::Operation::lseek) {
    one["offset"] = event.offset;
    one["length"] = event.length;
  }
  return one;
}

Result<Json> TraceFeed::next(const Json& request, ControlServer::Peer& peer) {
  std::optional<Digest> env;
  const std::string text = TRY(or_default(json_text(request, "env"), std::string()));
  if (!text.empty()) env = TRY(Digest::parse(text));
  const auto batch = listener_of(peer)->take(kMaxEventsInReply, kPatience);
  Json events = Json::array();
  for (const fuse::RequestEvent& event : batch.events) {
    if (!env || paths_.concerns(event.node, *env)) events.push_back(describe(event));
  }
  return Json{{"events", std::move(events)}, {"dropped", batch.dropped}};
}

}  // namespace dsec::daemon
