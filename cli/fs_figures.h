// SPDX-License-Identifier: Apache-2.0
// Reading and writing the figures of lazyfsd.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "cli/args.h"

namespace dsec::cli {

// A number of a document of lazyfsd; 0 when it is not there, since an older or newer one may answer.
inline std::uint64_t count_of(const Json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<std::uint64_t>() : 0;
}

// A member of a document; null when it is not there.
inline const Json& part_of(const Json& object, std::string_view key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found != object.end() ? *found : kNull;
}

// "512us", "1.5ms", "2.1s", "3h12m": for people.
std::string short_time(std::uint64_t us);
// "1.31", or "-" for null.
std::string ratio_text(const Json& ratio);
// The first 12 digits of "env".
std::string short_digest(const Json& env);

// A line for people when the node cache cannot be used, of its part of a document; empty when all is well.
std::string node_cache_warning(const Json& node_cache);

// The digest of the environment that a person means; empty for an empty name.
Result<std::string> env_digest(const CommonArgs& args, const std::string& name);

}  // namespace dsec::cli
