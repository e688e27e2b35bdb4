// SPDX-License-Identifier: Apache-2.0
#include "format/env.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/json.h"
#include "base/text.h"

namespace dsec::format {

namespace {

constexpr std::int64_t kEnvVersion = 1;

Result<void> check(const Env& env) {
  if (env.layers.empty() || env.layers.size() > kMaxLayers) {
    return fail(ErrorCode::invalid, "an environment has 1 to {} layers, this has {}", kMaxLayers, env.layers.size());
  }
  const RunConfig& config = env.config;
  // A NUL would end the text early wherever the kernel takes it.
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (has_nul(config.workdir) || has_nul(config.user) || std::any_of(config.cmd.begin(), config.cmd.end(), has_nul) ||
      std::any_of(config.entrypoint.begin(), config.entrypoint.end(), has_nul)) {
    return fail(ErrorCode::invalid, "a text of an environment holds a NUL");
  }
  std::set<std::string_view> names;
  for (const auto& [name, value] : env.config.env) {
    const bool bad = name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos ||
                     value.find('\0') != std::string::npos;
    if (bad) return fail(ErrorCode::invalid, "\"{}\" is no name of an environment variable", escaped(name));
    if (!names.insert(name).second) return fail(ErrorCode::invalid, "environment variable {} is set twice", name);
  }
  return {};
}

Result<Env> decode(const Json& document) {
  const std::int64_t version = TRY(json_int(document, "version"));
  if (version != kEnvVersion)
    return fail(ErrorCode::corrupt, "environment of version {}, this program reads {}", version, kEnvVersion);
  Env env;
  for (const std::string& text : TRY(json_texts(document, "layers"))) env.layers.push_back(TRY(Digest::parse(text)));
  const Json config = TRY(json_object(document, "config"));
  env.config.entrypoint = TRY(json_texts(config, "entrypoint"));
  env.config.cmd = TRY(json_texts(config, "cmd"));
  env.config.workdir = TRY(json_text(config, "workdir"));
  env.config.user = TRY(json_text(config, "user"));
  for (const std::string& pair : TRY(json_texts(config, "env"))) {
    const std::size_t at = pair.find('=');
    if (at == std::string::npos) return fail(ErrorCode::corrupt, "\"{}\" has no '='", escaped(pair));
    env.config.env.emplace_back(pair.substr(0, at), pair.substr(at + 1));
  }
  return env;
}

}  // namespace

void set_variables(Variables& variables, const Variables& over) {
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < variables.size(); ++i) places.emplace(variables[i].first, i);
  for (const auto& [name, value] : over) {
    const auto [place, is_new] = places.emplace(name, variables.size());
    if (is_new)
      variables.emplace_back(name, value);
    else
      variables[place->second].second = value;
  }
}

Result<std::string> write_env(const Env& env) {
  TRY(check(env));
  Json layers = Json::array();
  for (const Digest& layer : env.layers) layers.push_back(layer.hex());
  Json variables = Json::array();
  for (const auto& [name, value] : env.config.env) variables.push_back(name + "=" + value);
  const Json document = {{"version", kEnvVersion},
                         {"layers", layers},
                         {"config",
                          {{"entrypoint", env.config.entrypoint},
                           {"cmd", env.config.cmd},
                           {"env", variables},
                           {"workdir", env.config.workdir},
                           {"user", env.config.user}}}};
  std::string text = TRY(canonical_json(document));
  if (text.size() > kMaxEnvBytes)
    return fail(ErrorCode::invalid, "the environment's document has more than {} bytes", kMaxEnvBytes);
  return text;
}

Result<Env> read_env(std::string_view json) {
  auto read = [&]() -> Result<Env> {
    if (json.size() > kMaxEnvBytes) return fail(ErrorCode::corrupt, "environment: too large");
    const Json document = TRY(parse_json(json, "environment"));
    Env env = TRY(decode(document));
    const std::string again = TRY(write_env(env));
    if (again != json) return fail(ErrorCode::corrupt, "the environment's document is not in canonical form");
    return env;
  }();
  if (!read) return fail(ErrorCode::corrupt, "{}", read.error().message);
  return read;
}

namespace {

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_word(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_name_part(std::string_view part) {
  if (part.empty() || !is_lower_or_digit(part.front()) || !is_lower_or_digit(part.back())) return false;
  if (part.size() > 4 && part.substr(part.size() - 4) == ".ref") return false;  // how a store names its ref files
  return std::all_of(part.begin(), part.end(),
                     [](char c) { return is_lower_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

bool is_tag(std::string_view tag) {
  if (tag.empty() || tag.size() > 128 || !is_word(tag.front())) return false;
  return std::all_of(tag.begin(), tag.end(), [](char c) { return is_word(c) || c == '.' || c == '+' || c == '-'; });
}

}  // namespace

Result<RefName> parse_ref(RefKind kind, std::string_view text) {
  const char separator = kind == RefKind::env ? ':' : '@';
  const std::size_t at = text.find(separator);
  RefName ref{std::string(text.substr(0, at)),
              at == std::string_view::npos ? "latest" : std::string(text.substr(at + 1))};
  const auto parts = split(ref.name, '/');
  if (ref.name.size() > 200 || !std::all_of(parts.begin(), parts.end(), is_name_part)) {
    return fail(ErrorCode::invalid,
                "\"{}\" is no name: write parts of a-z, 0-9 and inner . _ - joined by /, as in {}, at most 200 bytes",
                escaped(text), kind == RefKind::env ? "swe/django:4.2" : "base/debian@12");
  }
  if (!is_tag(ref.tag)) {
    return fail(ErrorCode::invalid, "\"{}\" is no {}: write A-Z, a-z, 0-9 and _ . + -, at most 128 bytes",
                escaped(ref.tag), kind == RefKind::env ? "tag" : "version");
  }
  return ref;
}

std::string to_string(RefKind kind, const RefName& ref) {
  return fmt::format("{}{}{}", ref.name, kind == RefKind::env ? ':' : '@', ref.tag);
}

}  // namespace dsec::format
