// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/text.h"

namespace dsec {

Result<Json> parse_json(std::string_view text, std::string_view what) {
  bool too_deep = false;
  // `depth` counts what is around the event: 0 for the start of the outermost array or object.
  const auto watch_depth = [&](int depth, Json::parse_event_t event, Json&) {
    const bool starts = event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start;
    const bool deep = starts && depth >= kMaxJsonDepth;
    too_deep = too_deep || deep;
    return !deep;
  };
  try {
    Json document = Json::parse(text, watch_depth);
    if (too_deep) return fail(ErrorCode::invalid, "{}: nested deeper than {}", what, kMaxJsonDepth);
    return document;
  } catch (const Json::exception& error) {
    return fail(ErrorCode::invalid, "{} is no valid JSON: {}", what, escaped(error.what()));
  }
}

Result<std::string> canonical_json(const Json& document) {
  try {
    return document.dump(-1, ' ', false, Json::error_handler_t::strict);
  } catch (const Json::exception&) {
    return fail(ErrorCode::invalid, "a text in the JSON document is no UTF-8");
  }
}

std::string dump_json(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

namespace {

Result<const Json*> member(const Json& object, const char* key) {
  if (!object.is_object()) return fail(ErrorCode::invalid, "expected an object with \"{}\"", key);
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fail(ErrorCode::not_found, "\"{}\" is missing", key);
  return &*found;
}

tl::unexpected<Error> wrong_type(const char* key, const char* wanted) {
  return fail(ErrorCode::invalid, "\"{}\" must be {}", key, wanted);
}

}  // namespace

Result<std::string> json_text(const Json& object, const char* key) {
  const Json* value = TRY(member(object, key));
  if (!value->is_string()) return wrong_type(key, "a string");
  return value->get<std::string>();
}

Result<std::uint64_t> json_uint(const Json& object, const char* key) {
  const Json* value = TRY(member(object, key));
  if (!value->is_number_unsigned()) return wrong_type(key, "a number, not negative, without a fraction");
  return value->get<std::uint64_t>();
}

Result<std::int64_t> json_int(const Json& object, const char* key) {
  const Json* value = TRY(member(object, key));
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
  if (!fits) return wrong_type(key, "a number without a fraction");
  return value->get<std::int64_t>();
}

Result<bool> json_bool(const Json& object, const char* key) {
  const Json* value = TRY(member(object, key));
  if (!value->is_boolean()) return wrong_type(key, "true or false");
  return value->get<bool>();
}

Result<std::vector<std::string>> json_texts(const Json& object, const char* key) {
  const Json list = TRY(json_array(object, key));
  std::vector<std::string> texts;
  for (const Json& item : list) {
    if (!item.is_string()) return wrong_type(key, "a list of strings");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Result<Json> json_array(const Json& object, const char* key) {
  const Json* value = TRY(member(object, key));
  if (!value->is_array()) return wrong_type(key, "a list");
  return *value;
}

Result<Json> json_object(const Json& object, const char* key) {
  const Json* value = TRY(member(object, key));
  if (!value->is_object()) return wrong_type(key, "an object");
  return *value;
}

}  // namespace dsec
