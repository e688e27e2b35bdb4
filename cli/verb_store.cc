// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "composer/check.h"

namespace dsec::cli {

using composer::CheckProblem;
using composer::CheckReport;

namespace {

Json to_json(const CheckReport& report) {
  Json problems = Json::array();
  for (const CheckProblem& problem : report.problems) {
    problems.push_back(
        {{"what", problem.what}, {"name", problem.name}, {"message", problem.message}, {"hurts", problem.hurts}});
  }
  return {{"packs", report.packs},
          {"chunks", report.chunks},
          {"pack_bytes", report.pack_bytes},
          {"layers", report.layers},
          {"envs", report.envs},
          {"refs", report.refs},
          {"unfinished", {{"files", report.unfinished.files}, {"bytes", report.unfinished.bytes}}},
          {"problems", problems}};
}

std::string to_text(const CheckReport& report) {
  std::string text;
  for (const CheckProblem& problem : report.problems) {
    text += fmt::format("{} {}: {}\n", problem.what, problem.name, problem.message);
    if (!problem.hurts.empty()) text += fmt::format("    hurts {}\n", fmt::join(problem.hurts, ", "));
  }
  if (report.unfinished.files > 0) {
    text += fmt::format(
        "unfinished files in tmp/: {} ({}), being written or of a killed compose; the next one removes what is a day "
        "old\n",
        report.unfinished.files, human_size(report.unfinished.bytes));
  }
  return text + fmt::format("{} packs ({}, {} chunks), {} layers, {} environments, {} refs: {}\n", report.packs,
                            human_size(report.pack_bytes), report.chunks, report.layers, report.envs, report.refs,
                            report.problems.empty() ? "all good" : fmt::format("{} problems", report.problems.size()));
}

}  // namespace

Result<int> store_check_verb(const CommonArgs& args) {
  const store::Store store = TRY(store::Store::open(default_store(args.store)));
  ProgressLine line(false);
  const CheckReport report =
      TRY(composer::check_store(store, [&](const std::string& what) { line.say("checking " + what); }));
  TRY(args.json ? print_json(to_json(report)) : print(to_text(report)));
  return report.problems.empty() ? kExitOk : kExitProblems;
}

}  // namespace dsec::cli
