// SPDX-License-Identifier: Apache-2.0
#include "composer/pipeline.h"

#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/guarded.h"
#include "base/queue.h"
#include "composer/chunker.h"
#include "composer/pack_writer.h"
#include "format/recipe.h"

namespace dsec::composer {

using format::ChunkLocation;
using format::Codec;
using format::Encoded;
using format::MapEntry;
using format::PackEntry;
using format::Recipe;

namespace {

constexpr std::size_t kBatchBytes = 512 << 10;  // of plain bytes that one worker takes at once
constexpr std::size_t kBatchesPerWorker = 4;    // in flight; beyond that the reader waits

// One step in the life of the open file.
struct Step {
  enum class Kind { chunk, hole, end } kind = Kind::chunk;
  Bytes plain;              // chunk
  std::uint64_t bytes = 0;  // hole
  // Filled by a worker:
  Digest digest;
  Encoded encoded;
  bool is_known = false;
};

struct Batch {
  std::uint64_t number = 0;
  std::vector<Step> steps;
};

// Which pack of this run, or a place in the store from before.
struct Place {
  static constexpr std::uint32_t kInStore = ~std::uint32_t{0};
  std::uint32_t pack_number = kInStore;
  ChunkLocation location;
};

class PipelineImpl final : public Pipeline {
 public:
  PipelineImpl(const store::Store& store, const ChunkIndex& index, PipelineOptions options)
      : index_(index),
        effort_(options.effort),
        packs_(store),
        workers_count_(options.workers > 0 ? options.workers : std::max(1u, std::thread::hardware_concurrency())),
        todo_(workers_count_ * kBatchesPerWorker) {
    for (unsigned i = 0; i < workers_count_; ++i) workers_.emplace_back([this] { work(); });
    writer_ = std::thread([this] { write(); });
  }

  ~PipelineImpl() override { stop(); }

  std::unique_ptr<ContentSink> sink() override;

  Result<void> finish() override {
    stop();
    TRY(failure());
    return packs_.finish();
  }

  Result<void> locate(const Digest& object, std::vector<MapEntry>& entries) const override {
    TRY(locate_one(object, entries));
    const auto parts = recipes_.find(object);
    if (parts == recipes_.end()) return {};
    for (const Digest& chunk : parts->second) TRY(locate_one(chunk, entries));
    return {};
  }

  [[nodiscard]] PipelineStats stats() const override {
    PipelineStats stats = stats_;
    stats.pack_bytes = packs_.written_bytes();
    stats.packs = packs_.pack_count();
    return stats;
  }

  // --- for the sink, on the reader's thread ---

  Result<void> submit(std::vector<Step> steps) {
    TRY(failure());
    auto flow = flow_.lock();
    flow.wait([&] { return flow->submitted - flow->written < workers_count_ * kBatchesPerWorker || flow->error; });
    const std::uint64_t number = flow->submitted++;
    flow.unlock();
    todo_.push(Batch{number, std::move(steps)});
    return {};
  }

  // Waits until everything submitted is written; gives the objects of the files that ended since the last call.
  Result<std::vector<Digest>> drain() {
    auto flow = flow_.lock();
    flow.wait([&] { return flow->written == flow->submitted || flow->error; });
    if (flow->error) return tl::unexpected(*flow->error);
    return std::exchange(flow->objects, {});
  }

 private:
  struct Flow {
    std::uint64_t submitted = 0;
    std::uint64_t written = 0;
    std::map<std::uint64_t, Batch> ready;  // worked on, waiting for their turn
    std::vector<Digest> objects;
    std::optional<Error> error;
    bool closed = false;
  };

  Result<void> failure() {
    auto flow = flow_.lock();
    if (flow->error) return tl::unexpected(*flow->error);
    return {};
  }

  void stop() {
    todo_.close();
    for (std::thread& worker : workers_) {
      if (worker.joinable()) worker.join();
    }
    flow_.lock()->closed = true;
    flow_.notify_all();
    if (writer_.joinable()) writer_.join();
  }

  void work() {
    while (auto batch = todo_.pop()) {
      for (Step& step : batch->steps) {
        if (step.kind != Step::Kind::chunk) continue;
        step.digest = sha256(step.plain);
        step.is_known = index_.find(step.digest).has_value() || !claim(step.digest);
        if (!step.is_known) step.encoded = format::encode_chunk(step.plain, effort_);
      }
      flow_.lock()->ready.emplace(batch->number, std::move(*batch));
      flow_.notify_all();
    }
  }

  // True for the first of equal chunks: only that one is compressed. The writer copes with the second coming first.
  bool claim(const Digest& digest) { return claimed_.lock()->insert(digest).second; }

  void write() {
    while (auto batch = next_batch()) {
      Result<std::vector<Digest>> objects = write_batch(*batch);
      auto flow = flow_.lock();
      if (objects) {
        flow->objects.insert(flow->objects.end(), objects->begin(), objects->end());
        ++flow->written;
      } else if (!flow->error) {
        flow->error = objects.error();
      }
      const bool failed = flow->error.has_value();
      flow.unlock();
      flow_.notify_all();
      if (failed) return;
    }
  }

  std::optional<Batch> next_batch() {
    auto flow = flow_.lock();
    flow.wait([&] { return flow->ready.count(flow->written) > 0 || flow->closed; });
    const auto found = flow->ready.find(flow->written);
    if (found == flow->ready.end()) return std::nullopt;
    std::optional<Batch> batch(std::move(found->second));
    flow->ready.erase(found);
    return batch;
  }

  Result<std::vector<Digest>> write_batch(Batch& batch) {
    std::vector<Digest> ended;
    for (Step& step : batch.steps) {
      switch (step.kind) {
        case Step::Kind::chunk:
          if (file_.size == 0) file_needs_recipe_ = format::looks_like_recipe(step.plain);
          TRY(store_chunk(step.digest, step.plain, step.is_known ? nullptr : &step.encoded));
          format::add_chunk(file_, step.digest, step.plain.size());
          break;
        case Step::Kind::hole: format::add_hole(file_, step.bytes); break;
        case Step::Kind::end: ended.push_back(TRY(end_file())); break;
      }
    }
    return ended;
  }

  Result<Digest> end_file() {
    const Recipe recipe = std::exchange(file_, {});
    const bool needs_recipe = std::exchange(file_needs_recipe_, false);
    stats_.content_bytes += recipe.size;
    if (recipe.parts.empty()) return Digest{};
    if (recipe.parts.size() == 1 && !recipe.parts[0].is_hole() && !needs_recipe) return recipe.parts[0].chunk;
    const Bytes bytes = format::write_recipe(recipe);
    if (bytes.size() > format::kMaxRecipeBytes) {
      return fail(ErrorCode::invalid, "a file of {} bytes has too many chunks", recipe.size);
    }
    const Digest object = sha256(bytes);
    TRY(store_chunk(object, bytes, nullptr));
    std::vector<Digest>& parts = recipes_[object];
    if (parts.empty()) {
      for (const auto& part : recipe.parts) {
        if (!part.is_hole()) parts.push_back(part.chunk);
      }
    }
    return object;
  }

  Result<void> store_chunk(const Digest& digest, ByteView plain, const Encoded* encoded) {
    ++stats_.chunks;
    if (places_.find(digest) != places_.end()) return {};
    if (const auto location = index_.find(digest)) {
      places_.emplace(digest, Place{Place::kInStore, *location});
      return {};
    }
    Encoded own;
    if (encoded == nullptr) {
      own = format::encode_chunk(plain, effort_);
      encoded = &own;
    }
    PackEntry entry;
    entry.digest = digest;
    entry.plain_bytes = static_cast<std::uint32_t>(plain.size());
    entry.codec = encoded->codec;
    const std::uint32_t number = TRY(packs_.add(entry, entry.codec == Codec::plain ? plain : ByteView(encoded->bytes)));
    places_.emplace(digest, Place{number, {{}, entry.offset, entry.stored_bytes, entry.plain_bytes, entry.codec}});
    ++stats_.new_chunks;
    stats_.new_plain_bytes += plain.size();
    return {};
  }

  Result<void> locate_one(const Digest& digest, std::vector<MapEntry>& entries) const {
    const auto found = places_.find(digest);
    if (found == places_.end()) return fail(ErrorCode::not_found, "{} did not come through this run", digest.hex());
    MapEntry entry{digest, found->second.location};
    if (found->second.pack_number != Place::kInStore)
      entry.location.pack = packs_.pack_digest(found->second.pack_number);
    entries.push_back(entry);
    return {};
  }

  const ChunkIndex& index_;
  format::Effort effort_;
  PackWriter packs_;
  unsigned workers_count_;
  BoundedQueue<Batch> todo_;
  Guarded<Flow> flow_;
  Guarded<std::unordered_set<Digest>> claimed_;
  std::vector<std::thread> workers_;
  std::thread writer_;

  // The writer's own; read by others only after stop().
  Recipe file_;
  bool file_needs_recipe_ = false;
  std::unordered_map<Digest, Place> places_;
  std::unordered_map<Digest, std::vector<Digest>> recipes_;
  PipelineStats stats_;
};

class PipelineSink final : public ContentSink {
 public:
  explicit PipelineSink(PipelineImpl& pipeline)
      : pipeline_(pipeline),
        chunker_({[this](ByteView chunk) {
                    add({Step::Kind::chunk, Bytes(chunk.begin(), chunk.end())});
                  },
                  [this](std::uint64_t bytes) {
                    add({Step::Kind::hole, {}, bytes});
                  }}) {}

  Result<void> begin() override { return {}; }

  Result<void> data(ByteView bytes) override {
    while (!bytes.empty()) {
      const ByteView part = bytes.first(std::min(bytes.size(), kBatchBytes));
      chunker_.data(part);
      bytes = bytes.subspan(part.size());
      TRY(submit_full());
    }
    return {};
  }

  Result<void> hole(std::uint64_t length) override {
    chunker_.hole(length);
    return submit_full();
  }

  Result<Ticket> end() override {
    chunker_.end();
    add({Step::Kind::end});
    TRY(submit_full());
    return next_ticket_++;
  }

  Result<std::vector<Digest>> finish() override {
    if (!steps_.empty()) TRY(pipeline_.submit(std::exchange(steps_, {})));
    return pipeline_.drain();
  }

 private:
  void add(Step step) {
    batch_bytes_ += step.plain.size() + sizeof(Step);
    steps_.push_back(std::move(step));
  }

  Result<void> submit_full() {
    if (batch_bytes_ < kBatchBytes) return {};
    batch_bytes_ = 0;
    return pipeline_.submit(std::exchange(steps_, {}));
  }

  PipelineImpl& pipeline_;
  Chunker chunker_;
  std::vector<Step> steps_;
  std::size_t batch_bytes_ = 0;
  Ticket next_ticket_ = 0;
};

std::unique_ptr<ContentSink> PipelineImpl::sink() { return std::make_unique<PipelineSink>(*this); }

}  // namespace

std::unique_ptr<Pipeline> Pipeline::create(const store::Store& store, const ChunkIndex& index,
                                           PipelineOptions options) {
  return std::make_unique<PipelineImpl>(store, index, options);
}

}  // namespace dsec::composer
