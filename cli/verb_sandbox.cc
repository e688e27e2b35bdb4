// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "launcher/sandbox.h"

namespace dsec::cli {

Result<int> ps_verb(const CommonArgs& args) {
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"ID", "NAME", "STATE", "ENV", "CREATED", "COMMAND"}};
  for (const SandboxInfo& info : TRY(list_sandboxes())) {
    const std::string command = escaped(fmt::format("{}", fmt::join(info.argv, " ")));
    rows.push_back({info.id, info.name.empty() ? "-" : info.name, info.state, info.env_ref, info.created_at, command});
    list.push_back({{"id", info.id},
                    {"name", info.name},
                    {"state", info.state},
                    {"env", info.env_digest},
                    {"env_ref", info.env_ref},
                    {"argv", info.argv},
                    {"created_at", info.created_at},
                    {"monitor_pid", info.monitor_pid},
                    {"init_pid", info.init_pid},
                    {"upper", info.upper.native()}});
  }
  TRY(args.json ? print_json({{"sandboxes", list}}) : print(format_table(rows)));
  return kExitOk;
}

Result<int> rm_verb(const RemoveArgs& args) {
  for (const std::string& name : args.names) TRY(remove_sandbox(name, args.force ? Force::yes : Force::no));
  if (args.common.json) TRY(print_json({{"removed", args.names}}));
  return kExitOk;
}

}  // namespace dsec::cli
