// SPDX-License-Identifier: Apache-2.0
#include "composer/compose.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "composer/hidden_symlinks.h"
#include "composer/locator.h"
#include "composer/sources/merged_tree.h"
#include "composer/sources/source.h"
#include "format/erofs.h"

namespace dsec::composer {

using format::Env;
using format::LayerTree;
using format::RefKind;
using format::RunConfig;

namespace {

// A layer of this run that is complete but for its place in the store.
struct NewLayer {
  LayerTree tree;
  Bytes image;
  Digest digest;  // of the image
};

// One [[layer]] of the plan: a stack of layers under one name.
struct Stack {
  const LayerEntry* entry = nullptr;
  std::vector<Digest> layers;
  RunConfig config;
};

RunConfig to_run_config(const ImageConfig& image) {
  return RunConfig{image.entrypoint, image.cmd, image.env, image.workdir, image.user};
}

// Later stacks and the manifest override what they say; an image's command goes with its entrypoint.
void merge_config(RunConfig& config, const RunConfig& over) {
  if (!over.entrypoint.empty() || !over.cmd.empty()) {
    config.entrypoint = over.entrypoint;
    config.cmd = over.cmd;
  }
  format::set_variables(config.env, over.env);
  if (!over.workdir.empty()) config.workdir = over.workdir;
  if (!over.user.empty()) config.user = over.user;
}

void apply_overrides(RunConfig& config, const ConfigOverrides& over) {
  if (over.entrypoint) {
    config.entrypoint = *over.entrypoint;
    config.cmd.clear();
  }
  if (over.cmd) config.cmd = *over.cmd;
  format::set_variables(config.env, over.env);
  if (over.workdir) config.workdir = *over.workdir;
  if (over.user) config.user = *over.user;
}

std::uint64_t count_files(const LayerTree& tree) {
  std::uint64_t count = 0;
  for (format::InodeId id = 0; id < tree.capacity(); ++id) count += tree.inode(id).object.is_zero() ? 0 : 1;
  return count;
}

class Composer {
 public:
  Composer(const store::Store& store, const ComposePlan& plan, const ComposeOptions& options)
      : store_(store), plan_(plan), options_(options) {}

  Result<ComposeReport> run() {
    remove_litter();
    index_ = TRY(ChunkIndex::load(store_));
    pipeline_ = Pipeline::create(store_, index_, {options_.jobs, options_.effort});
    locator_ = std::make_unique<Locator>(store_, index_, *pipeline_);
    for (const LayerEntry& entry : plan_.layers) {
      stacks_.push_back({&entry, {}, {}});
      auto done = entry.from.empty() ? take_stack(stacks_.back()) : read_stack(stacks_.back());
      if (!done) return tl::unexpected(entry.where.empty() ? done.error() : done.error().within(entry.where));
    }
    if (options_.strict == ComposeOptions::Strict::yes && !report_.warnings.empty()) {
      return fail(ErrorCode::invalid, "{}", fmt::join(report_.warnings, "\n"));
    }
    TRY(pipeline_->finish());
    TRY(store_layers());
    TRY(store_env());
    report_.stats = pipeline_->stats();
    return std::move(report_);
  }

 private:
  // What composers that were killed left behind. Not being able to is no reason to fail.
  void remove_litter() const {
    const auto removed = remove_unfinished_files(store_.tmp_dir(), kLitterAge);
    if (!removed) {
      log(LogLevel::warn, "litter_not_removed", {{"reason", removed.error().message}});
    } else if (removed->files > 0) {
      log(LogLevel::info, "litter_removed",
          {{"files", fmt::format("{}", removed->files)}, {"bytes", fmt::format("{}", removed->bytes)}});
    }
  }

  // A layer that must be in the store: an own stack, or one single layer by digest.
  Result<void> take_stack(Stack& stack) {
    const std::string name = to_string(RefKind::layer, stack.entry->ref);
    const Digest document = TRY(store_.resolve(RefKind::layer, name));
    const Env env = TRY(store_.read_env(document));
    stack.config = env.config;
    for (const Digest& layer : env.layers) {
      const std::string context = fmt::format("layer {}", layer.hex());
      const Bytes image = TRY_IN(context, store_.read_layer_image(layer));
      const LayerTree tree = TRY_IN(context, format::read_layer(image));
      TRY(locator_->add_stored_layer(layer, tree));
      TRY(put_on_top(tree, name));
      stack.layers.push_back(layer);
      report_.layers.push_back({layer, name, true, count_files(tree), image.size()});
    }
    return {};
  }

  Result<void> read_stack(Stack& stack) {
    const auto source = TRY(open_source(stack.entry->from, plan_.base_dir));
    if (source->layer_count() == 0) return fail(ErrorCode::invalid, "{} has no layers", stack.entry->from);
    if (source->config() != nullptr) stack.config = to_run_config(*source->config());
    const bool squash = options_.squash == ComposeOptions::Squash::yes;
    MergedTree merged;  // of this source alone, when it is squashed
    for (std::size_t i = 0; i < source->layer_count(); ++i) {
      const auto stream = TRY(source->layer(i));
      LayerTree tree = TRY(read_layer_stream(*stream, *stack.entry, squash ? merged : below_, i));
      if (squash)
        TRY(merged.apply(tree));
      else
        TRY(finish_layer(stack, std::move(tree), stream->description()));
    }
    return squash ? finish_layer(stack, LayerTree(merged.tree()), stack.entry->from) : Result<void>();
  }

  Result<LayerTree> read_layer_stream(LayerStream& stream, const LayerEntry& entry, const MergedTree& below,
                                      std::size_t index) {
    LayerTree tree;
    BuilderOptions builder_options;
    builder_options.target_dir = entry.target;
    // The layers of one image belong together; what is put on top of others must not change with their times.
    builder_options.implied_times = index > 0 ? ImpliedTimes::from_below : ImpliedTimes::zero;
    LayerBuilder builder = TRY(LayerBuilder::create(tree, &below, builder_options));
    const auto sink = pipeline_->sink();
    ComposeProgress progress{stream.description(), report_.layers.size(), 0, stream.size_bytes()};
    TRY(stream.apply(builder, *sink, [&](std::uint64_t read_bytes) {
      progress.read_bytes = read_bytes;
      if (options_.progress) options_.progress(progress);
    }));
    TRY(builder.resolve(TRY(sink->finish())));
    return tree;
  }

  Result<void> finish_layer(Stack& stack, LayerTree tree, const std::string& source) {
    TRY(put_on_top(tree, source));
    NewLayer layer{std::move(tree), {}, {}};
    layer.image = TRY_IN(source, format::write_layer(layer.tree));
    layer.digest = sha256(layer.image);
    stack.layers.push_back(layer.digest);
    report_.layers.push_back(
        {layer.digest, source, store_.has_layer(layer.digest), count_files(layer.tree), layer.image.size()});
    new_layers_.push_back(std::move(layer));
    return {};
  }

  Result<void> put_on_top(const LayerTree& tree, const std::string& source) {
    for (const HiddenLink& link : find_hidden_symlinks(tree, below_)) {
      report_.warnings.push_back(fmt::format("{}: the directory {} hides the symlink {} -> {} of a layer below it",
                                             source, link.path, link.path, link.target));
    }
    return below_.apply(tree);
  }

  Result<void> store_layers() {
    using OldMap = store::Store::OldMap;
    for (const NewLayer& layer : new_layers_) {
      const Bytes map = TRY(locator_->map_of(layer.tree));
      const bool is_good = locator_->has_good_map(layer.digest, map);
      if (!is_good && store_.has_layer(layer.digest)) {
        log(LogLevel::warn, "location_map_replaced", {{"layer", layer.digest.hex()}});
      }
      TRY(store_.put_layer(layer.image, map, is_good ? OldMap::keep : OldMap::replace));
    }
    return {};
  }

  Result<void> store_env() {
    Env env;
    for (const Stack& stack : stacks_) {
      env.layers.insert(env.layers.end(), stack.layers.begin(), stack.layers.end());
      merge_config(env.config, stack.config);
    }
    apply_overrides(env.config, plan_.config);
    report_.env = TRY(store_.put_env(env));
    report_.name = plan_.name;
    for (const Stack& stack : stacks_) {
      if (stack.entry->from.empty()) continue;
      const Digest document = TRY(store_.put_env(Env{stack.layers, stack.config}));
      TRY(store_.write_ref(RefKind::layer, stack.entry->ref, document));
    }
    return store_.write_ref(RefKind::env, plan_.name, report_.env);
  }

  const store::Store& store_;
  const ComposePlan& plan_;
  const ComposeOptions& options_;
  ChunkIndex index_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Locator> locator_;
  MergedTree below_;  // of everything composed so far
  std::vector<Stack> stacks_;
  std::vector<NewLayer> new_layers_;
  ComposeReport report_;
};

}  // namespace

Result<ComposeReport> compose(const store::Store& store, const ComposePlan& plan, const ComposeOptions& options) {
  return Composer(store, plan, options).run();
}

}  // namespace dsec::composer
