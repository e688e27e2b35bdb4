// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/paths.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "composer/compose.h"

namespace dsec::cli {

using composer::ComposeOptions;
using composer::ComposePlan;
using composer::ComposeReport;
using format::RefKind;

namespace {

Result<ComposePlan> plan_of(const ComposeArgs& args) {
  if (!args.manifest.empty()) {
    if (!args.from.empty() || !args.target.empty()) {
      return fail(ErrorCode::invalid, "-f and --from exclude each other: name the source in the manifest");
    }
    ComposePlan plan = TRY(composer::load_manifest(args.manifest));
    if (!args.name.empty()) plan.name = TRY(format::parse_ref(RefKind::env, args.name));
    return plan;
  }
  if (args.from.empty() || args.name.empty()) {
    return fail(ErrorCode::invalid, "name what to compose: -f env.toml, or --from SOURCE --name NAME[:TAG]");
  }
  ComposePlan plan;
  plan.name = TRY(format::parse_ref(RefKind::env, args.name));
  plan.base_dir = ".";
  plan.layers.push_back({plan.name, args.from, args.target, ""});
  return plan;
}

Json to_json(const ComposeReport& report) {
  Json layers = Json::array();
  for (const auto& layer : report.layers) {
    layers.push_back({{"digest", layer.digest.hex()},
                      {"source", layer.source},
                      {"reused", layer.reused},
                      {"files", layer.files},
                      {"metadata_bytes", layer.metadata_bytes}});
  }
  return {{"env", report.env.hex()},
          {"name", to_string(RefKind::env, report.name)},
          {"layers", layers},
          {"warnings", report.warnings},
          {"content_bytes", report.stats.content_bytes},
          {"chunks", report.stats.chunks},
          {"new_chunks", report.stats.new_chunks},
          {"new_plain_bytes", report.stats.new_plain_bytes},
          {"packs", report.stats.packs},
          {"pack_bytes", report.stats.pack_bytes}};
}

std::string to_text(const ComposeReport& report) {
  std::string text;
  for (const auto& layer : report.layers) {
    text += fmt::format("layer {}  {:>7} files  {}  {}\n", layer.digest.brief(), layer.files,
                        layer.reused ? "in the store" : "new         ", layer.source);
  }
  text += fmt::format("{} of content, {} of {} chunks new, {} written to {} packs\n",
                      human_size(report.stats.content_bytes), report.stats.new_chunks, report.stats.chunks,
                      human_size(report.stats.pack_bytes), report.stats.packs);
  return text + fmt::format("env {} = {}\n", to_string(RefKind::env, report.name), report.env.hex());
}

}  // namespace

Result<int> compose_verb(const ComposeArgs& args) {
  const ComposePlan plan = TRY(plan_of(args));
  const store::Store store = TRY(store::Store::open_or_create(default_store(args.common.store)));
  ProgressLine line(args.common.json);
  ComposeOptions options;
  options.jobs = args.jobs;
  options.effort = args.high_compression ? format::Effort::high : format::Effort::fast;
  options.squash = args.squash ? ComposeOptions::Squash::yes : ComposeOptions::Squash::no;
  options.strict = args.strict ? ComposeOptions::Strict::yes : ComposeOptions::Strict::no;
  options.progress = [&](const composer::ComposeProgress& progress) {
    line.update(progress.layer, progress.read_bytes, progress.total_bytes);
  };
  const ComposeReport report = TRY(composer::compose(store, plan, options));
  for (const std::string& warning : report.warnings) fmt::print(stderr, "dsec: warning: {}\n", warning);
  TRY(args.common.json ? print_json(to_json(report)) : print(to_text(report)));
  return kExitOk;
}

}  // namespace dsec::cli
