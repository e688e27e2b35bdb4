// SPDX-License-Identifier: Apache-2.0
#include "fuse/internal/dispatcher.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "fuse/internal/facts_xattr.h"

namespace dsec::fuse {

using format::FileType;
using tree::Attributes;
using tree::NodeId;

namespace {

constexpr double kForever = 1e9;  // seconds; the kernel turns it into "never expires"

mode_t type_bits(FileType type) {
  switch (type) {
    case FileType::regular: return S_IFREG;
    case FileType::directory: return S_IFDIR;
    case FileType::symlink: return S_IFLNK;
    case FileType::char_device:
    case FileType::whiteout: return S_IFCHR;
    case FileType::block_device: return S_IFBLK;
    case FileType::fifo: return S_IFIFO;
    case FileType::socket: return S_IFSOCK;
  }
  return S_IFREG;
}

struct stat to_stat(const Attributes& attributes) {
  struct stat st {};
  st.st_ino = attributes.id.value();
  st.st_mode = type_bits(attributes.type) | attributes.mode;
  st.st_nlink = attributes.nlink;
  st.st_uid = attributes.uid;
  st.st_gid = attributes.gid;
  st.st_rdev = makedev(attributes.major, attributes.minor);
  st.st_size = static_cast<off_t>(attributes.size);
  st.st_blksize = 4096;
  st.st_blocks = static_cast<blkcnt_t>((attributes.size + 511) / 512);
  st.st_mtim = {static_cast<time_t>(attributes.mtime.sec), static_cast<long>(attributes.mtime.nsec)};
  st.st_atim = st.st_mtim;
  st.st_ctim = st.st_mtim;
  return st;
}

fuse_entry_param to_entry(const Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.id.value();
  entry.generation = attributes.generation;
  entry.attr = to_stat(attributes);
  entry.attr_timeout = kForever;
  entry.entry_timeout = kForever;
  return entry;
}

// What a request is about: a name that is not there is an ordinary answer, content that is not there is a failure.
enum class About { names, content };

// The seam where errors become errno and are logged: only failures of ours, not answers such as ENOENT. Whatever keeps
// the store from giving content is EIO for the reader.
int errno_of(const Error& error, About about, const char* operation) {
  static constexpr std::array kAnswers{ESTALE, EINVAL, EISDIR, ENXIO, ENODATA, ENOSYS};
  const bool is_answer = std::find(kAnswers.begin(), kAnswers.end(), error.sys) != kAnswers.end();
  const bool is_absent_name = about == About::names && error.code == ErrorCode::not_found;
  if (is_answer || is_absent_name) return to_errno(error);
  log(LogLevel::error, "request_failed", {{"operation", operation}, {"reason", error.message}});
  return about == About::content || error.code == ErrorCode::corrupt ? EIO : to_errno(error);
}

}  // namespace

// libfuse calls these; each builds the request, runs a body that returns Result<void>, and answers failures. Library
// exceptions end here.
struct Dispatcher::Ops {
  static Dispatcher& self(fuse_req_t request) { return *static_cast<Dispatcher*>(fuse_req_userdata(request)); }

  template <typename Body>
  static void run(fuse_req_t handle, const RequestInfo& info, Body body, About about = About::names) {
    Dispatcher& dispatcher = self(handle);
    const char* const operation = to_string(info.operation);
    const auto request = std::make_shared<Request>(handle, info, dispatcher.observer_);
    const store::CostScope cost;
    const store::StageBoard board(request->stage());
    try {
      if (Result<void> outcome = body(dispatcher, request); !outcome) {
        const int error = errno_of(outcome.error(), about, operation);
        if (outcome.error().code == ErrorCode::timeout) {
          request->reply_overdue();
        } else {
          request->reply_error(error);
        }
      }
    } catch (const std::bad_alloc&) {
      request->reply_error(ENOMEM);
    } catch (const std::exception& error) {
      log(LogLevel::error, "request_failed", {{"operation", operation}, {"reason", error.what()}});
      request->reply_error(EIO);
    }
  }

  static void init(void*, fuse_conn_info* connection) {
    connection->want |=
        connection->capable & (FUSE_CAP_READDIRPLUS | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ |
                               FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT);
    // Without AUTO: a plain READDIR would cost one LOOKUP for each entry of a big directory afterwards.
    connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_MOVE |
                                               FUSE_CAP_SPLICE_WRITE);
    connection->max_background = 64;
    connection->congestion_threshold = 48;
  }

  static void lookup(fuse_req_t handle, fuse_ino_t parent, const char* name) {
    run(handle, {Operation::lookup, NodeId(parent), 0, 0, name},
        [&](Dispatcher& self, const auto& request) -> Result<void> {
          self.counts_.lookup.add();
          const auto deadline = request->received() + self.options_.request_deadline;
          std::optional<Watchdog::Watch> watch;  // only objects are fetched to be looked up
          if (tree::is_object_directory(NodeId(parent))) watch.emplace(self.watchdog_, request, deadline);
          const auto found = self.names_->lookup(NodeId(parent), name, deadline);
          const bool absent = !found && found.error().code == ErrorCode::not_found;
          if (!found && !absent) return tl::unexpected(found.error());
          if (absent && NodeId(parent) == tree::kRootNode)
            return tl::unexpected(found.error());  // may be attached later
          fuse_entry_param entry{};
          entry.entry_timeout = kForever;  // with node 0: a name that never will be there
          if (found) entry = to_entry(*found);
          request->reply_entry(entry);
          return {};
        });
  }

  static void getattr(fuse_req_t handle, fuse_ino_t node, fuse_file_info*) {
    run(handle, {Operation::getattr, NodeId(node)}, [&](Dispatcher& self, const auto& request) -> Result<void> {
      self.counts_.getattr.add();
      const auto deadline = request->received() + self.options_.request_deadline;
      std::optional<Watchdog::Watch> watch;
      if (NodeId(node).is_object()) watch.emplace(self.watchdog_, request, deadline);
      request->reply_attr(to_stat(TRY(self.names_->attributes(NodeId(node), deadline))), kForever);
      return {};
    });
  }

  static void readlink(fuse_req_t handle, fuse_ino_t node) {
    run(handle, {Operation::readlink, NodeId(node)}, [&](Dispatcher& self, const auto& request) -> Result<void> {
      self.counts_.readlink.add();
      request->reply_link(TRY(self.names_->symlink_target(NodeId(node))));
      return {};
    });
  }

  // ENOSYS makes the kernel open without asking from then on, and keep pages and directory entries between opens.
  static void open(fuse_req_t handle, fuse_ino_t, fuse_file_info*) {
    self(handle).counts_.open.add();
    fuse_reply_err(handle, ENOSYS);
  }

  static void read(fuse_req_t handle, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info*) {
    run(
        handle, {Operation::read, NodeId(node), static_cast<std::uint64_t>(offset), size},
        [&](Dispatcher& self, const auto& request) -> Result<void> {
          self.counts_.read.add();
          const auto deadline = request->received() + self.options_.request_deadline;
          const Watchdog::Watch watch(self.watchdog_, request, deadline);
          request->reply_slices(
              TRY(self.names_->read(NodeId(node), static_cast<std::uint64_t>(offset), size, deadline)));
          return {};
        },
        About::content);
  }

  static void lseek(fuse_req_t handle, fuse_ino_t node, off_t offset, int whence, fuse_file_info*) {
    run(
        handle, {Operation::lseek, NodeId(node), static_cast<std::uint64_t>(offset)},
        [&](Dispatcher& self, const auto& request) -> Result<void> {
          self.counts_.lseek.add();
          if (whence != SEEK_DATA && whence != SEEK_HOLE) return fail_sys(EINVAL, "lseek");
          const auto deadline = request->received() + self.options_.request_deadline;
          const Watchdog::Watch watch(self.watchdog_, request, deadline);
          const auto what = whence == SEEK_DATA ? tree::ContentReader::Seek::data : tree::ContentReader::Seek::hole;
          request->reply_seek(TRY(self.names_->seek(NodeId(node), static_cast<std::uint64_t>(offset), what, deadline)));
          return {};
        },
        About::content);
  }

  static void readdir_any(fuse_req_t handle, fuse_ino_t node, std::size_t size, off_t offset, Plus plus) {
    const Operation operation = plus == Plus::yes ? Operation::readdirplus : Operation::readdir;
    run(handle, {operation, NodeId(node), static_cast<std::uint64_t>(offset), size},
        [&](Dispatcher& self, const auto& request) -> Result<void> {
          (plus == Plus::yes ? self.counts_.readdirplus : self.counts_.readdir).add();
          const std::vector<char> bytes =
              TRY(self.fill_directory(handle, NodeId(node), size, static_cast<std::size_t>(offset), plus));
          request->reply_bytes(bytes.data(), bytes.size());
          return {};
        });
  }
  static void readdir(fuse_req_t handle, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info*) {
    readdir_any(handle, node, size, offset, Plus::no);
  }
  static void readdirplus(fuse_req_t handle, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info*) {
    readdir_any(handle, node, size, offset, Plus::yes);
  }

  static Result<void> reply_sized(Request& request, const std::string& bytes, std::size_t size) {
    if (size == 0)
      request.reply_xattr_size(bytes.size());
    else if (bytes.size() > size)
      request.reply_error(ERANGE);
    else
      request.reply_bytes(bytes.data(), bytes.size());
    return {};
  }

  static void getxattr(fuse_req_t handle, fuse_ino_t node, const char* name, std::size_t size) {
    run(handle, {Operation::getxattr, NodeId(node), 0, size, name},
        [&](Dispatcher& self, const auto& request) -> Result<void> {
          self.counts_.getxattr.add();
          if (self.options_.xattrs == SessionOptions::Xattrs::no) return fail_sys(ENOSYS, "getxattr");
          const format::Xattrs xattrs = TRY(self.names_->xattrs(NodeId(node)));
          const auto found = xattrs.find(name);
          if (found != xattrs.end()) return reply_sized(*request, found->second, size);
          if (!starts_with(name, kFactsPrefix)) return fail_sys(ENODATA, "getxattr");
          const auto deadline = request->received() + self.options_.request_deadline;
          const Watchdog::Watch watch(self.watchdog_, request, deadline);
          return reply_sized(*request,
                             TRY(facts_xattr(*self.names_, NodeId(node), name, self.options_.where, deadline)), size);
        });
  }

  static void listxattr(fuse_req_t handle, fuse_ino_t node, std::size_t size) {
    run(handle, {Operation::listxattr, NodeId(node), 0, size},
        [&](Dispatcher& self, const auto& request) -> Result<void> {
          self.counts_.listxattr.add();
          if (self.options_.xattrs == SessionOptions::Xattrs::no) return fail_sys(ENOSYS, "listxattr");
          std::string names;
          for (const auto& [name, value] : TRY(self.names_->xattrs(NodeId(node)))) names.append(name).push_back('\0');
          return reply_sized(*request, names, size);
        });
  }

  static void statfs(fuse_req_t handle, fuse_ino_t node) {
    run(handle, {Operation::statfs, NodeId(node)}, [&](Dispatcher& self, const auto& request) -> Result<void> {
      self.counts_.statfs.add();
      struct statvfs info {};
      info.f_bsize = 4096;
      info.f_frsize = 4096;
      info.f_namemax = format::kMaxNameBytes;
      request->reply_statfs(info);  // nothing is free: it is read-only
      return {};
    });
  }
};

const fuse_lowlevel_ops& Dispatcher::operations() {
  static const fuse_lowlevel_ops table = [] {
    fuse_lowlevel_ops ops{};
    ops.init = Ops::init;
    ops.lookup = Ops::lookup;
    ops.getattr = Ops::getattr;
    ops.readlink = Ops::readlink;
    ops.open = Ops::open;
    ops.opendir = Ops::open;
    ops.read = Ops::read;
    ops.lseek = Ops::lseek;
    ops.readdir = Ops::readdir;
    ops.readdirplus = Ops::readdirplus;
    ops.getxattr = Ops::getxattr;
    ops.listxattr = Ops::listxattr;
    ops.statfs = Ops::statfs;
    return ops;
  }();
  return table;
}

Result<std::shared_ptr<const tree::DirectoryListing>> Dispatcher::listing(NodeId directory) {
  {
    auto listings = listings_.lock();
    const auto found = listings->places.find(directory);
    if (found != listings->places.end()) {
      listings->order.splice(listings->order.begin(), listings->order, found->second);
      return found->second->second;
    }
  }
  auto made = TRY(names_->open_directory(directory));
  if (directory == tree::kRootNode) return made;  // changes with every attach
  auto listings = listings_.lock();
  if (listings->places.find(directory) == listings->places.end()) {
    listings->order.emplace_front(directory, made);
    listings->places.emplace(directory, listings->order.begin());
    if (listings->order.size() > kMaxListings) {
      listings->places.erase(listings->order.back().first);
      listings->order.pop_back();
    }
  }
  return made;
}

// Once read to its end a listing is in the kernel's cache.
void Dispatcher::forget_listing(NodeId directory) {
  auto listings = listings_.lock();
  const auto found = listings->places.find(directory);
  if (found == listings->places.end()) return;
  listings->order.erase(found->second);
  listings->places.erase(found);
}

Result<std::vector<char>> Dispatcher::fill_directory(fuse_req_t request, NodeId directory, std::size_t size,
                                                     std::size_t first, Plus plus) {
  const auto entries = TRY(listing(directory));
  std::vector<char> bytes(size);
  std::size_t used = 0;
  const auto detail = plus == Plus::yes ? tree::Namespace::Detail::full : tree::Namespace::Detail::type_only;
  for (std::size_t i = first; i < entries->size(); ++i) {
    const tree::DirectoryEntry entry = TRY(names_->entry(*entries, i, detail));
    char name[format::kMaxNameBytes + 1];
    std::memcpy(name, entry.name.data(), entry.name.size());
    name[entry.name.size()] = '\0';
    const auto next = static_cast<off_t>(i + 1);
    std::size_t need = 0;
    if (plus == Plus::yes) {
      fuse_entry_param param = to_entry(entry.attributes);
      if (i < 2) param.ino = 0;  // "." and "..": an entry, but no lookup
      need = fuse_add_direntry_plus(request, bytes.data() + used, size - used, name, &param, next);
    } else {
      const struct stat st = to_stat(entry.attributes);
      need = fuse_add_direntry(request, bytes.data() + used, size - used, name, &st, next);
    }
    if (need > size - used) break;
    used += need;
  }
  if (first >= entries->size()) forget_listing(directory);
  bytes.resize(used);
  return bytes;
}

}  // namespace dsec::fuse
