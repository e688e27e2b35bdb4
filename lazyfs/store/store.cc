// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.h"
#include "base/toml.h"
#include "format/erofs.h"
#include "store/internal/wide_read.h"

namespace dsec::store {

namespace fs = std::filesystem;
using format::RefKind;
using format::RefName;

namespace {

constexpr std::int64_t kStoreVersion = 1;
constexpr std::string_view kChunking = "fastcdc-16-64-256";
constexpr std::uint64_t kMaxMapBytes = std::uint64_t{8} << 30;
constexpr std::string_view kRefSuffix = ".ref";
constexpr std::size_t kMinPrefix = 6;

const char* kind_folder(RefKind kind) { return kind == RefKind::env ? "env" : "layer"; }

std::string random_uuid() {
  std::array<std::uint8_t, 16> bytes{};
  [[maybe_unused]] const ssize_t filled = ::getrandom(bytes.data(), bytes.size(), 0);
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80);
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::string settings_text(const std::string& uuid) {
  return fmt::format("version = {}\nuuid = \"{}\"\nchunking = \"{}\"\n", kStoreVersion, uuid, kChunking);
}

fs::path object_path(const fs::path& root, const char* folder, const Digest& digest, std::string_view suffix) {
  const std::string hex = digest.hex();
  return root / folder / hex.substr(0, 2) / fmt::format("{}{}", hex, suffix);
}

// Digests of the files "<64 hex digits><suffix>" two levels below `dir`.
Result<std::vector<Digest>> list_objects(const fs::path& dir, std::string_view suffix) {
  std::vector<Digest> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.size() != Digest::kHexSize + suffix.size() || name.substr(Digest::kHexSize) != suffix) continue;
    if (auto digest = Digest::parse(std::string_view(name).substr(0, Digest::kHexSize))) found.push_back(*digest);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail_sys(error.value(), fmt::format("list {}", dir.native()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<Store> Store::open(const fs::path& root) {
  Store store(root);
  TRY(store.load_settings(root / "store.toml"));
  return store;
}

Result<Store> Store::recall(const fs::path& root, const fs::path& copy) {
  Store store(root);
  TRY(store.load_settings(copy));
  return store;
}

Result<void> Store::remember(const fs::path& copy) const {
  return write_file_atomic(copy.parent_path(), copy, as_bytes(settings_text(uuid_)));
}

namespace {

constexpr std::array<const char*, 8> kFolders{"tmp",      "packs",      "layers", "envs",
                                              "refs/env", "refs/layer", "traces", "leases"};

// Whether `root` holds nothing, or only what a store holds before it has its settings: another process may be making
// it right now, or died doing so.
bool may_become_store(const fs::path& root) {
  constexpr std::array<std::string_view, 7> kOurs{"tmp", "packs", "layers", "envs", "refs", "traces", "leases"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename();
    if (name != "store.toml" && std::find(kOurs.begin(), kOurs.end(), name) == kOurs.end()) return false;
  }
  return !error || error == std::errc::no_such_file_or_directory;
}

// Puts the settings in place unless they are there: of several that create at once, link(2) lets one win.
Result<void> write_settings(const fs::path& root, const std::string& uuid) {
  const std::string settings = settings_text(uuid);
  const fs::path ours = root / "tmp" / fmt::format("store.toml.{}", uuid);
  const fs::path place = root / "store.toml";
  TRY(write_file_atomic(root / "tmp", ours, as_bytes(settings)));
  std::error_code error;
  fs::create_hard_link(ours, place, error);
  const bool no_links = error && error != std::errc::file_exists;  // this file system has none: the last one wins
  if (no_links)
    fs::rename(ours, place, error);
  else
    fs::remove(ours, error);
  if (error) return fail_sys(error.value(), fmt::format("create {}", place.native()));
  return sync_dir(root);
}

}  // namespace

Result<Store> Store::open_or_create(const fs::path& root) {
  auto opened = open(root);
  if (opened || opened.error().code != ErrorCode::not_found) return opened;
  if (!may_become_store(root)) {
    return fail(ErrorCode::exists, "{} is neither a store nor empty: choose another directory", root.native());
  }
  for (const char* folder : kFolders) TRY(make_dirs(root / folder));
  TRY(write_settings(root, random_uuid()));
  return open(root);
}

Result<void> Store::load_settings(const fs::path& file) {
  auto loaded = TomlTable::load(file);
  if (!loaded && loaded.error().code == ErrorCode::not_found) {
    return fail(ErrorCode::not_found, "{} is no store: make one with `dsec compose`, or name another with --store",
                root_.native());
  }
  TomlTable table = TRY(std::move(loaded));
  const auto version = TRY(table.integer("version"));
  const auto uuid = TRY(table.text("uuid"));
  const auto chunking = TRY(table.text("chunking"));
  if (version.value_or(0) != kStoreVersion) {
    return fail(ErrorCode::unsupported, "{}: the store has version {}, this program knows {}", file.native(),
                version.value_or(0), kStoreVersion);
  }
  if (chunking.value_or("") != kChunking) {
    return fail(ErrorCode::unsupported, "{}: chunking \"{}\" is unknown to this program", file.native(),
                chunking.value_or(""));
  }
  uuid_ = uuid.value_or("");
  return table.finish();
}

fs::path Store::pack_path(const Digest& pack) const { return object_path(root_, "packs", pack, ".pack"); }
fs::path Store::layer_image_path(const Digest& layer) const { return object_path(root_, "layers", layer, ".erofs"); }
fs::path Store::layer_map_path(const Digest& layer) const { return object_path(root_, "layers", layer, ".map"); }
fs::path Store::trace_path(const Digest& env) const { return root_ / "traces" / env.hex(); }
fs::path Store::env_path(const Digest& env) const { return object_path(root_, "envs", env, ".json"); }

Result<std::vector<Digest>> Store::list_packs() const { return list_objects(root_ / "packs", ".pack"); }
Result<std::vector<Digest>> Store::list_layers() const { return list_objects(root_ / "layers", ".erofs"); }
Result<std::vector<Digest>> Store::list_envs() const { return list_objects(root_ / "envs", ".json"); }

Result<std::vector<format::PackEntry>> Store::read_pack_index(const Digest& pack) const {
  const auto read = [&]() -> Result<std::vector<format::PackEntry>> {
    const Fd fd = TRY(open_file(pack_path(pack), O_RDONLY));
    const struct stat st = TRY(stat_fd(fd));
    const auto size = static_cast<std::uint64_t>(st.st_size);
    if (size < format::kPackHeaderBytes + format::kPackFooterBytes) {
      return fail(ErrorCode::corrupt, "the file has only {} bytes", size);
    }
    Bytes tail(format::kPackFooterBytes);
    TRY(pread_exact(fd, tail, size - tail.size()));
    const format::PackFooter footer = TRY(format::read_pack_footer(tail, size));
    Bytes index(footer.index_bytes());
    TRY(pread_exact(fd, index, footer.index_offset));
    return format::read_pack_index(footer, index);
  };
  return TRY_IN(fmt::format("pack {}", pack.hex()), read());
}

bool Store::has_layer(const Digest& layer) const { return ::access(layer_image_path(layer).c_str(), F_OK) == 0; }

Result<Bytes> Store::read_layer_image(const Digest& layer) const {
  Bytes image = TRY(read_wide(layer_image_path(layer), format::kMaxLayerImageBytes));
  if (sha256(image) != layer) {
    return fail(ErrorCode::corrupt, "the layer image {} is damaged", layer_image_path(layer).native());
  }
  return image;
}

Result<Bytes> Store::read_layer_map(const Digest& layer) const {
  return read_wide(layer_map_path(layer), kMaxMapBytes);
}

namespace {

// Whether what was read is whole. That it is absent or damaged is no error; that it cannot be read is.
template <typename T>
Result<bool> is_whole(const Result<T>& read) {
  if (read) return true;
  if (read.error().code == ErrorCode::not_found || read.error().code == ErrorCode::corrupt) return false;
  return tl::unexpected(read.error());
}

}  // namespace

Result<Digest> Store::put_layer(ByteView image, ByteView map, OldMap old_map) const {
  const Digest digest = sha256(image);
  const bool has_image = TRY(is_whole(read_layer_image(digest)));
  const bool has_map = ::access(layer_map_path(digest).c_str(), F_OK) == 0;
  if (!has_map || old_map == OldMap::replace) TRY(write_file_atomic(tmp_dir(), layer_map_path(digest), map));
  if (!has_image) TRY(write_file_atomic(tmp_dir(), layer_image_path(digest), image));
  return digest;
}

Result<format::Env> Store::read_env(const Digest& env) const {
  const Bytes bytes = TRY(read_file(env_path(env), format::kMaxEnvBytes));
  if (sha256(bytes) != env) {
    return fail(ErrorCode::corrupt, "environment {}: its document {} is damaged", env.hex(), env_path(env).native());
  }
  return TRY_IN(fmt::format("environment {}", env.hex()), format::read_env(as_text(bytes)));
}

Result<format::Trace> Store::read_trace(const Digest& env) const {
  const std::uint64_t most = (format::kMaxTraceEntries + 2) * Digest::kSize;
  const Bytes bytes = TRY(read_file(trace_path(env), most));
  return TRY_IN(trace_path(env).native(), format::read_trace(bytes));
}

Result<void> Store::put_trace(const Digest& env, const format::Trace& trace) const {
  return write_file_atomic(tmp_dir(), trace_path(env), format::write_trace(trace));
}

Result<Digest> Store::put_env(const format::Env& env) const {
  const std::string document = TRY(format::write_env(env));
  const Digest digest = sha256(as_bytes(document));
  if (!TRY(is_whole(read_env(digest)))) TRY(write_file_atomic(tmp_dir(), env_path(digest), as_bytes(document)));
  return digest;
}

fs::path Store::ref_path(RefKind kind, const RefName& ref) const {
  return root_ / "refs" / kind_folder(kind) / ref.name / fmt::format("{}{}", ref.tag, kRefSuffix);
}

namespace {

Result<Digest> parse_ref_file(const fs::path& path) {
  const Bytes bytes = TRY(read_file(path, 4096));
  const std::string_view text = as_text(bytes);
  auto digest = Digest::parse(text.substr(0, text.find('\n')));
  if (!digest || text.size() != Digest::kHexSize + 1) {
    return fail(ErrorCode::corrupt, "the ref {} is damaged: it must hold one digest", path.native());
  }
  return digest;
}

}  // namespace

Result<Digest> Store::read_ref(RefKind kind, const RefName& ref) const {
  auto digest = parse_ref_file(ref_path(kind, ref));
  if (!digest && digest.error().code == ErrorCode::not_found) {
    return fail(ErrorCode::not_found, "no {} {} in the store {}", kind == RefKind::env ? "environment" : "layer",
                to_string(kind, ref), root_.native());
  }
  return digest;
}

Result<void> Store::write_ref(RefKind kind, const RefName& ref, const Digest& digest) const {
  return write_file_atomic(tmp_dir(), ref_path(kind, ref), as_bytes(digest.hex() + "\n"));
}

Result<void> Store::remove_ref(RefKind kind, const RefName& ref) const {
  const fs::path path = ref_path(kind, ref);
  std::error_code error;
  const bool removed = fs::remove(path, error);
  if (error) return fail_sys(error.value(), fmt::format("remove {}", path.native()));
  if (!removed) return fail(ErrorCode::not_found, "no {} in the store {}", to_string(kind, ref), root_.native());
  return sync_dir(path.parent_path());
}

Result<std::vector<RefName>> Store::list_ref_names(RefKind kind) const {
  const fs::path base = root_ / "refs" / kind_folder(kind);
  std::vector<RefName> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    if (path.extension() != kRefSuffix || !it->is_regular_file(error)) continue;
    names.push_back({path.parent_path().lexically_relative(base).native(), path.stem().native()});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail_sys(error.value(), fmt::format("list {}", base.native()));
  }
  std::sort(names.begin(), names.end(),
            [](const RefName& a, const RefName& b) { return std::tie(a.name, a.tag) < std::tie(b.name, b.tag); });
  return names;
}

Result<std::vector<RefEntry>> Store::list_refs(RefKind kind) const {
  std::vector<RefEntry> entries;
  for (RefName& name : TRY(list_ref_names(kind))) {
    const Digest digest = TRY(parse_ref_file(ref_path(kind, name)));
    entries.push_back({std::move(name), digest});
  }
  return entries;
}

namespace {

bool is_hex_prefix(std::string_view text) {
  return text.size() >= kMinPrefix && text.size() <= Digest::kHexSize &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Result<Digest> Store::resolve(RefKind kind, std::string_view text) const {
  const RefName ref = TRY(format::parse_ref(kind, text));
  auto found = read_ref(kind, ref);
  if (found || found.error().code != ErrorCode::not_found) return found;
  if (is_hex_prefix(text)) {
    const std::vector<Digest> all = TRY(kind == RefKind::env ? list_envs() : list_layers());
    std::vector<Digest> matching;
    std::copy_if(all.begin(), all.end(), std::back_inserter(matching),
                 [&](const Digest& digest) { return starts_with(digest.hex(), text); });
    if (matching.size() == 1) return matching[0];
    if (matching.size() > 1) {
      return fail(ErrorCode::invalid, "{} digests begin with {}: write more digits", matching.size(), text);
    }
  }
  std::vector<std::string> names;
  for (const RefEntry& entry : TRY(list_refs(kind))) names.push_back(to_string(kind, entry.ref));
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = nearest(to_string(kind, ref), views);
  Error error = std::move(found).error();
  error.message += near.empty() ? fmt::format("; `dsec {} ls` lists what there is", kind_folder(kind))
                                : fmt::format("; did you mean {}?", near);
  return tl::unexpected(std::move(error));
}

}  // namespace dsec::store
