// SPDX-License-Identifier: Apache-2.0
#include "daemon/figures.h"

#include <map>
#include <set>

namespace dsec::daemon {

using store::Origin;
using store::Urgency;

LatencyHistogram::Snapshot sum(LatencyHistogram::Snapshot left, const LatencyHistogram::Snapshot& right) {
  for (std::size_t i = 0; i < LatencyHistogram::kBuckets; ++i) left.buckets[i] += right.buckets[i];
  left.count += right.count;
  left.total_us += right.total_us;
  return left;
}

RequestFigures request_figures(const Sight& sight) {
  RequestFigures figures;
  for (const MountedNames* mount : sight.attachments->mounts()) {
    const fuse::RequestStats& stats = mount->session->stats();
    for (std::size_t i = 0; i < fuse::kOperations; ++i) {
      figures.operations[i].took = sum(figures.operations[i].took, stats.took[i].snapshot());
      figures.operations[i].eio += stats.eio[i].get();
    }
    figures.overdue += stats.overdue.get();
    figures.in_flight += mount->session->requests_in_flight().size();
  }
  return figures;
}

StoreFigures store_figures(const store::PackMeter& meter) {
  StoreFigures figures;
  for (std::size_t i = 0; i < store::kOrigins; ++i) {
    const auto origin = static_cast<Origin>(i);
    figures.demand_bytes += meter.of(Urgency::demand, origin).store_bytes.get();
    figures.prefetch_bytes += meter.of(Urgency::prefetch, origin).store_bytes.get();
  }
  return figures;
}

namespace {

void add(EnvFigures& figures, const tree::ReadMeter* meter) {
  if (meter == nullptr) return;
  figures.reads += meter->reads.get();
  figures.read_bytes += meter->read_bytes.get();
  figures.store_bytes += meter->store_bytes.get();
  figures.chunk_bytes[static_cast<std::size_t>(Origin::memory)] += meter->from_memory_bytes.get();
  figures.chunk_bytes[static_cast<std::size_t>(Origin::cache)] += meter->from_disk_bytes.get();
  figures.chunk_bytes[static_cast<std::size_t>(Origin::store)] += meter->from_store_bytes.get();
  figures.touched_bytes += meter->touched_bytes.get();
}

using LayerSet = std::set<Digest>;

LayerSet layers_of(const tree::EnvTree& tree) {
  LayerSet layers;
  for (const auto& layer : tree.layers()) layers.insert(layer->digest());
  return layers;
}

}  // namespace

std::vector<EnvFigures> env_figures(const Sight& sight) {
  std::map<Digest, EnvFigures> found;
  std::map<Digest, LayerSet> layers;                // by environment
  std::map<Digest, std::set<const void*>> counted;  // meters
  for (const Attachments::Seen& seen : sight.attachments->seen()) {
    const Digest& env = seen.tree->digest();
    EnvFigures& figures = found[env];
    figures.env = env;
    figures.paths.push_back(seen.path.native());
    figures.owners.insert(figures.owners.end(), seen.owners.begin(), seen.owners.end());
    figures.layers = seen.tree->layers().size();
    layers[env] = layers_of(*seen.tree);
    const auto add_once = [&](const std::shared_ptr<const tree::ReadMeter>& meter) {
      if (meter && counted[env].insert(meter.get()).second) add(figures, meter.get());
    };
    const tree::Namespace& names = *seen.mount->names;
    for (const Digest& layer : layers[env]) add_once(names.meter(layer));
    add_once(names.private_meter(seen.path.filename().native()));
    for (const MountedNames* mount : sight.attachments->mounts()) {
      if (mount->names->objects()) add_once(mount->names->objects()->meter(env));
    }
  }
  std::map<Digest, std::size_t> users;  // of layers
  for (const auto& [env, set] : layers) {
    for (const Digest& layer : set) ++users[layer];
  }
  std::vector<EnvFigures> all;
  for (auto& [env, figures] : found) {
    for (const Digest& layer : layers[env]) figures.shared_layers += users[layer] > 1 ? 1 : 0;
    all.push_back(std::move(figures));
  }
  return all;
}

}  // namespace dsec::daemon
