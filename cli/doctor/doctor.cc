// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/doctor.h"

#include <sys/utsname.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"
#include "cli/doctor/internal/host.h"

namespace dsec::doctor {

namespace {

const char* level_name(Finding::Level level) {
  switch (level) {
    case Finding::Level::ok: return "ok";
    case Finding::Level::degraded: return "degraded";
    case Finding::Level::missing: return "missing";
  }
  return "missing";
}

std::ptrdiff_t count(std::span<const Finding> findings, Finding::Level level) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.level == level; });
}

}  // namespace

std::vector<Finding> examine_host(const DoctorOptions& options) {
  const HostFiles host;
  struct utsname name {};
  ::uname(&name);
  Findings all;
  const auto add = [&](Findings findings) { std::move(findings.begin(), findings.end(), std::back_inserter(all)); };
  add(examine_kernel(host, name.release));
  add(examine_privileges(host));
  add(examine_fuse(host));
  if (const auto scratch = ScratchDir::create(options.state_dir)) {
    add(examine_file_systems(host, scratch->path()));
    add(examine_runtime(scratch->path()));
  } else {
    add({missing("scratch directory", scratch.error().message, "overlayfs, EROFS and crun were not tried",
                 "name a directory that can be written with DSEC_STATE_DIR")});
  }
  add(examine_cgroups(host));
  add(examine_namespaces(host));
  add(examine_security(host));
  add(examine_limits(host));
  add(examine_storage(host, options));
  add(examine_daemon(options));
  return all;
}

std::string to_text(std::span<const Finding> findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.topic.size());
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:8}  {:{}}  {}\n", level_name(finding.level), finding.topic, width, finding.found);
    if (!finding.consequence.empty()) text += fmt::format("{:{}}so: {}\n", "", width + 12, finding.consequence);
    if (!finding.remedy.empty()) text += fmt::format("{:{}}do: {}\n", "", width + 12, finding.remedy);
  }
  text += fmt::format("{} ok, {} degraded, {} missing\n", count(findings, Finding::Level::ok),
                      count(findings, Finding::Level::degraded), count(findings, Finding::Level::missing));
  return text;
}

std::string to_json(std::span<const Finding> findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", level_name(finding.level)},
                    {"topic", finding.topic},
                    {"found", finding.found},
                    {"consequence", finding.consequence},
                    {"remedy", finding.remedy}});
  }
  return dump_json({{"findings", std::move(list)}, {"ok", exit_code(findings) == 0}}, 2) + "\n";
}

int exit_code(std::span<const Finding> findings) { return count(findings, Finding::Level::missing) > 0 ? 1 : 0; }

}  // namespace dsec::doctor
