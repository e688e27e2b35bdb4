// SPDX-License-Identifier: Apache-2.0
// Environments, and the names of refs.
#include "format/env.h"
#include "fuzz/fuzz.h"

using namespace dsec;
using namespace dsec::format;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text({data, size});
  const auto env = read_env(text);
  if (env)
    fuzz::require(write_env(*env).value() == text, "an environment is written as it was read");
  else
    fuzz::require(env.error().code == ErrorCode::corrupt, "a bad environment is corrupt");

  for (const RefKind kind : {RefKind::env, RefKind::layer}) {
    const auto ref = parse_ref(kind, text);
    if (!ref) continue;
    const auto again = parse_ref(kind, to_string(kind, *ref));
    fuzz::require(again && again->name == ref->name && again->tag == ref->tag, "a ref comes back as it was");
    const std::string path = "/" + ref->name + "/" + ref->tag + "/";
    fuzz::require(path.find("//") == std::string::npos && path.find("/.") == std::string::npos,
                  "a name stays in its folder");
  }
  return 0;
}
