// SPDX-License-Identifier: Apache-2.0
// Environments and names. docs/format.md, sections "Environment" and "Names".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace dsec::format {

inline constexpr std::size_t kMaxLayers = 512;  // of one environment
inline constexpr std::size_t kMaxEnvBytes = 4 << 20;

using Variables = std::vector<std::pair<std::string, std::string>>;  // names and values, in order

// Sets each variable of `over`: in the place of the one that has its name, else at the end. Time is linear in both.
void set_variables(Variables& variables, const Variables& over);

// How a command runs by default; from the OCI image's config or the manifest.
struct RunConfig {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  Variables env;  // in the order given; names are unique
  std::string workdir;
  std::string user;
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

struct Env {
  std::vector<Digest> layers;  // bottom to top
  RunConfig config;
  friend bool operator==(const Env&, const Env&) = default;
};

// The canonical JSON document; its SHA-256 names the environment. `invalid` for texts that are no UTF-8 or hold a
// NUL, no layer or too many, and variables whose names repeat, are empty or hold '='.
Result<std::string> write_env(const Env& env);
// Accepts exactly what write_env() makes; `corrupt` otherwise.
Result<Env> read_env(std::string_view json);

// A name with a tag (environments, "swe/django:4.2") or a version (layers, "base/debian@12").
struct RefName {
  std::string name;
  std::string tag;
};

enum class RefKind { env, layer };

// Parses "NAME[:TAG]" or "NAME[@VERSION]"; the tag defaults to "latest". A name is one or more parts of
// [a-z0-9]+([._-]+[a-z0-9]+)* joined by "/", 200 bytes at most; a tag is [A-Za-z0-9_][A-Za-z0-9_.+-]*, 128 bytes at
// most. `invalid` says which part is wrong.
Result<RefName> parse_ref(RefKind kind, std::string_view text);
std::string to_string(RefKind kind, const RefName& ref);

}  // namespace dsec::format
