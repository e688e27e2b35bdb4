// SPDX-License-Identifier: Apache-2.0
// JSON documents: the one header that includes nlohmann/json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsec {

using Json = nlohmann::json;

// Parses one document of untrusted text. `invalid` names `what`, the byte and the reason. Nesting deeper than
// kMaxJsonDepth and numbers that do not fit are refused; no exception leaves.
inline constexpr int kMaxJsonDepth = 64;
Result<Json> parse_json(std::string_view text, std::string_view what);

// Compact text with sorted keys and no spaces: equal documents give equal bytes. Strings that are no UTF-8 are
// `invalid`.
Result<std::string> canonical_json(const Json& document);
// The same for output to people and programs: bytes that are no UTF-8 become U+FFFD, so it cannot fail.
std::string dump_json(const Json& document, int indent = -1);

// Member `key` of `object` as a type; the error says which key and which type was expected. An absent or null member is
// `not_found`, so optional members are asked with the or_ forms, which fail only on a wrong type.
Result<std::string> json_text(const Json& object, const char* key);
Result<std::uint64_t> json_uint(const Json& object, const char* key);
Result<std::int64_t> json_int(const Json& object, const char* key);
Result<bool> json_bool(const Json& object, const char* key);
Result<std::vector<std::string>> json_texts(const Json& object, const char* key);
// Member `key`, which must be an array or an object.
Result<Json> json_array(const Json& object, const char* key);
Result<Json> json_object(const Json& object, const char* key);

// `value` when it is there, `fallback` when it is absent, the error otherwise.
template <typename T>
Result<T> or_default(Result<T> value, T fallback) {
  if (!value && value.error().code == ErrorCode::not_found) return fallback;
  return value;
}

}  // namespace dsec
