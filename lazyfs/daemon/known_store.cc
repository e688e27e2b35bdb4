// SPDX-License-Identifier: Apache-2.0
#include "daemon/known_store.h"

#include <chrono>
#include <thread>

#include "base/atomic_file.h"
#include "base/guarded.h"
#include "base/log.h"
#include "io/hf3fs_mount.h"

namespace dsec::daemon {

using store::FileSystemKind;
using store::Store;

namespace {

constexpr const char* kSettingsName = "store.toml";
constexpr const char* kPlaceName = "store.place";
constexpr std::uint64_t kMaxPlaceBytes = 64 << 10;
constexpr std::chrono::seconds kCheckPause{5};

Json to_json(const StorePlace& place) {
  return {{"remote", place.kind.where == FileSystemKind::Where::remote},
          {"name", place.kind.name},
          {"hf3fs", place.is_on_hf3fs},
          {"hf3fs_mount", place.hf3fs_mount}};
}

Result<StorePlace> read_place(const std::filesystem::path& path) {
  const Bytes bytes = TRY(read_file(path, kMaxPlaceBytes));
  const Json document = TRY(parse_json(as_text(bytes), path.native()));
  StorePlace place;
  if (TRY(json_bool(document, "remote"))) place.kind.where = FileSystemKind::Where::remote;
  place.kind.name = TRY(json_text(document, "name"));
  place.is_on_hf3fs = TRY(json_bool(document, "hf3fs"));
  place.hf3fs_mount = TRY(json_text(document, "hf3fs_mount"));
  return place;
}

}  // namespace

StorePlace look_at_place(const Store& store) {
  auto kind = store::file_system_kind(store.root());
  if (!kind) {
    // It does not answer, which a local disk hardly ever does.
    log(LogLevel::warn, "store_kind_unknown", {{"reason", kind.error().message}});
    return {{FileSystemKind::Where::remote, "a file system that does not answer"}, false, {}};
  }
  StorePlace place{std::move(*kind), false, {}};
  if (place.kind.where == FileSystemKind::Where::remote) {
    place.is_on_hf3fs = io::is_on_hf3fs(store.root()).value_or(false);
  }
  return place;
}

Result<KnownStore> open_store(const std::filesystem::path& root) {
  Store store = TRY(Store::open(root));
  StorePlace place = look_at_place(store);
  return KnownStore{std::move(store), std::move(place), false};
}

Result<KnownStore> recall_store(const std::filesystem::path& root, const std::filesystem::path& dir) {
  Store store = TRY(Store::recall(root, dir / kSettingsName));
  StorePlace place = TRY(read_place(dir / kPlaceName));
  return KnownStore{std::move(store), std::move(place), true};
}

void remember_store(const KnownStore& known, const std::filesystem::path& dir) {
  auto kept = known.store.remember(dir / kSettingsName);
  if (kept) kept = write_file_atomic(dir, dir / kPlaceName, as_bytes(dump_json(to_json(known.place))));
  if (!kept) log(LogLevel::warn, "store_not_remembered", {{"reason", kept.error().message}});
}

struct StoreCheck::Shared {
  enum class State { same, waiting, away, another };
  struct Found {
    State state = State::waiting;
    std::string reason;
    bool stopping = false;
  };
  Guarded<Found> found;

  static const char* name_of(State state) {
    switch (state) {
      case State::same: return "same";
      case State::waiting: return "waiting";
      case State::away: return "away";
      case State::another: return "another";
    }
    return "waiting";
  }

  // What opening it says of a store that is to have this uuid.
  static std::pair<State, std::string> judge(const Store& recalled, const Result<Store>& opened) {
    if (!opened) {
      const bool is_other = opened.error().code == ErrorCode::unsupported || opened.error().code == ErrorCode::invalid;
      return {is_other ? State::another : State::away, opened.error().message};
    }
    if (opened->uuid() == recalled.uuid()) return {State::same, ""};
    return {State::another,
            fmt::format("{} is the store {} now and was {}; `dsec fs stop`, and the next start serves it",
                        recalled.root().native(), opened->uuid(), recalled.uuid())};
  }

  static void tell(const Store& recalled, State state, const std::string& reason) {
    if (state == State::same) {
      log(LogLevel::info, "store_is_the_same", {{"store", recalled.root().native()}, {"uuid", recalled.uuid()}});
    } else {
      log(state == State::another ? LogLevel::error : LogLevel::warn,
          state == State::another ? "store_is_another" : "store_away",
          {{"store", recalled.root().native()}, {"reason", reason}});
    }
  }

  void work(const Store& recalled) {
    while (true) {
      auto [state, reason] = judge(recalled, Store::open(recalled.root()));
      auto now = found.lock();
      if (now->stopping) return;
      if (now->state != state) tell(recalled, state, reason);
      now->state = state;
      now->reason = std::move(reason);
      if (state == State::same) return;
      now.wait_until(std::chrono::steady_clock::now() + kCheckPause, [&] { return now->stopping; });
      if (now->stopping) return;
    }
  }
};

StoreCheck::StoreCheck() : shared_(std::make_shared<Shared>()) { shared_->found.lock()->state = Shared::State::same; }

StoreCheck::StoreCheck(const Store& recalled) : shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_, recalled] { shared->work(recalled); }).detach();
}

StoreCheck::~StoreCheck() {
  shared_->found.lock()->stopping = true;
  shared_->found.notify_all();
}

Result<void> StoreCheck::verdict() const {
  auto found = shared_->found.lock();
  if (found->state != Shared::State::another) return {};
  return fail(ErrorCode::unavailable, "another store is in place of the one that is served: {}", found->reason);
}

Json StoreCheck::describe() const {
  auto found = shared_->found.lock();
  return {{"state", Shared::name_of(found->state)}, {"reason", found->reason}};
}

}  // namespace dsec::daemon
