// SPDX-License-Identifier: Apache-2.0
#include "cli/fs_figures.h"

#include "base/paths.h"
#include "store/store.h"

namespace dsec::cli {

std::string short_time(std::uint64_t us) {
  if (us < 1000) return fmt::format("{}us", us);
  if (us < 1'000'000) return fmt::format("{:.1f}ms", static_cast<double>(us) / 1e3);
  const std::uint64_t seconds = us / 1'000'000;
  if (seconds < 60) return fmt::format("{:.1f}s", static_cast<double>(us) / 1e6);
  if (seconds < 3600) return fmt::format("{}m{}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{}m", seconds / 3600, seconds / 60 % 60);
}

std::string ratio_text(const Json& ratio) {
  return ratio.is_number() ? fmt::format("{:.2f}", ratio.get<double>()) : std::string("-");
}

std::string short_digest(const Json& env) { return env.value("env", "").substr(0, 12); }

std::string node_cache_warning(const Json& node_cache) {
  const Json& trouble = part_of(node_cache, "trouble");
  if (!trouble.is_string() || trouble.get<std::string>().empty()) return {};
  return fmt::format("WARNING: the node cache is off: {}\n", trouble.get<std::string>());
}

Result<std::string> env_digest(const CommonArgs& args, const std::string& name) {
  if (name.empty()) return std::string();
  const store::Store store = TRY(store::Store::open(default_store(args.store)));
  return TRY(store.resolve(format::RefKind::env, name)).hex();
}

}  // namespace dsec::cli
