// SPDX-License-Identifier: Apache-2.0
#include "composer/sources/source.h"

#include <array>

#include "base/text.h"
#include "composer/sources/internal/entry_path.h"
#include "composer/sources/internal/openers.h"

namespace dsec::composer {

namespace {

namespace fs = std::filesystem;

struct Scheme {
  std::string_view name;
  Result<std::unique_ptr<Source>> (*open)(const SourceSpec&);
};

constexpr Scheme kSchemes[] = {
    {"oci", open_oci_layout},
    {"docker-archive", open_docker_archive},
    {"tar", open_tar},
    {"dir", open_dir},
};

constexpr std::string_view kKnown = "oci:DIR[:REF], docker-archive:FILE[:REF], tar:FILE, dir:PATH";

const Scheme* find_scheme(std::string_view name) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) return &scheme;
  }
  return nullptr;
}

// What a path without a scheme most likely is.
std::string guess(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return "tar:";
  if (fs::exists(path / "oci-layout", error)) return "oci:";
  return fs::is_directory(path, error) ? "dir:" : "";
}

tl::unexpected<Error> unknown_scheme(std::string_view spec, std::string_view name, const fs::path& base_dir) {
  const std::string scheme = guess(base_dir / spec);
  if (!scheme.empty()) {
    return fail(ErrorCode::invalid, "source \"{}\" does not say what it is; did you mean \"{}{}\"? Sources are {}",
                shown(spec), scheme, shown(spec), kKnown);
  }
  std::array<std::string_view, std::size(kSchemes)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSchemes[i].name;
  const std::string_view near = nearest(name, names);
  const std::string hint = near.empty() ? "" : fmt::format("; did you mean \"{}:\"?", near);
  return fail(ErrorCode::invalid, "source \"{}\" is of no known kind{} Sources are {}", shown(spec),
              hint.empty() ? "." : hint, kKnown);
}

}  // namespace

Result<PathAndRef> split_ref(const std::string& rest) {
  std::error_code error;
  if (fs::exists(rest, error)) return PathAndRef{rest, {}};
  for (std::size_t colon = rest.find(':'); colon != std::string::npos; colon = rest.find(':', colon + 1)) {
    std::string path = rest.substr(0, colon);
    if (fs::exists(path, error)) return PathAndRef{std::move(path), rest.substr(colon + 1)};
  }
  return fail(ErrorCode::not_found, "{} does not exist", shown(rest));
}

Result<std::unique_ptr<Source>> open_source(std::string_view spec, const fs::path& base_dir) {
  const std::size_t colon = std::min(spec.find(':'), spec.size());
  const std::string_view name = spec.substr(0, colon);
  const Scheme* scheme = colon == spec.size() ? nullptr : find_scheme(name);
  if (scheme == nullptr) return unknown_scheme(spec, name, base_dir);
  const std::string_view rest = spec.substr(colon + 1);
  if (rest.empty()) return fail(ErrorCode::invalid, "source \"{}\" names nothing; sources are {}", shown(spec), kKnown);
  return scheme->open({std::string(spec), (base_dir / rest).string()});
}

}  // namespace dsec::composer
