// SPDX-License-Identifier: Apache-2.0
#include "tree/slots.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "base/text.h"
#include "tree/node.h"

namespace dsec::tree {

namespace {

constexpr std::uint32_t kMaxSlots = std::uint32_t{1} << NodeId::kSlotBits;
constexpr std::uint64_t kMaxTableBytes = std::uint64_t{1} << 30;

// One line a slot, in the order of their numbers: kind, owner, index, view.
std::string line_of(const SlotKey& key) {
  return fmt::format("{} {} {} {}\n", static_cast<int>(key.kind), key.owner.hex(), key.index, key.view);
}

bool parse_number(std::string_view text, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Result<SlotKey> parse_line(std::string_view line) {
  const auto words = split(line, ' ');
  std::uint32_t kind = 0;
  SlotKey key;
  const bool good = words.size() == 4 && parse_number(words[0], kind) && kind <= 2 &&
                    parse_number(words[2], key.index) && parse_number(words[3], key.view);
  if (!good) return fail(ErrorCode::corrupt, "\"{}\" is no slot", escaped(line));
  key.kind = static_cast<SlotKey::Kind>(kind);
  const auto owner = Digest::parse(words[1]);
  if (!owner) return fail(ErrorCode::corrupt, "\"{}\" is no slot", escaped(line));
  key.owner = *owner;
  return key;
}

}  // namespace

Result<std::unique_ptr<SlotTable>> SlotTable::open(const std::filesystem::path& path) {
  auto table = std::make_unique<SlotTable>();
  auto state = table->state_.lock();
  state->file = TRY(open_file(path, O_RDWR | O_CREAT | O_APPEND, 0600));
  const Bytes bytes = TRY(read_all(state->file, kMaxTableBytes, path.native()));
  const std::string_view text = as_text(bytes);
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  if (whole != text.size() && ::ftruncate(state->file.get(), static_cast<off_t>(whole)) != 0) {
    return fail_sys(errno, fmt::format("truncate {}", path.native()));
  }
  std::string_view rest = text.substr(0, whole);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const SlotKey key = TRY_IN(path.native(), parse_line(rest.substr(0, end)));
    if (!state->numbers.emplace(key, static_cast<std::uint32_t>(state->numbers.size() + 1)).second) {
      return fail(ErrorCode::corrupt, "{}: a slot is there twice", path.native());
    }
    rest.remove_prefix(end + 1);
  }
  state->file_bytes = whole;
  state.unlock();
  return table;
}

Result<std::uint32_t> SlotTable::number(const SlotKey& key) {
  auto state = state_.lock();
  if (const auto found = state->numbers.find(key); found != state->numbers.end()) return found->second;
  if (state->numbers.size() + 1 >= kMaxSlots) return fail(ErrorCode::no_space, "all node slots are used up");
  if (state->file.valid()) {
    const std::string line = line_of(key);
    if (auto written = write_all(state->file, as_bytes(line)); !written) {
      // Half a line must not stay: what comes next would be appended to it.
      [[maybe_unused]] const int ignored = ::ftruncate(state->file.get(), static_cast<off_t>(state->file_bytes));
      return tl::unexpected(std::move(written).error().within("slot table"));
    }
    state->file_bytes += line.size();
  }
  const auto number = static_cast<std::uint32_t>(state->numbers.size() + 1);
  state->numbers.emplace(key, number);
  return number;
}

}  // namespace dsec::tree
