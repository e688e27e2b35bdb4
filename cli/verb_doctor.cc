// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"
#include "cli/doctor/doctor.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace dsec::cli {

Result<int> doctor_verb(const CommonArgs& args) {
  const auto findings = doctor::examine_host({default_store(args.store), runtime_dir(), state_dir()});
  TRY(print(args.json ? doctor::to_json(findings) : doctor::to_text(findings)));
  return doctor::exit_code(findings);
}

}  // namespace dsec::cli
