// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>

#include "base/paths.h"
#include "base/text.h"
#include "cli/bind_mount.h"
#include "cli/output.h"
#include "cli/prefetch_wait.h"
#include "cli/rootfs_mode.h"
#include "cli/verbs.h"
#include "control/client.h"
#include "store/store.h"

namespace dsec::cli {

namespace fs = std::filesystem;
using control::Client;

namespace {

Result<fs::path> existing_directory(const std::string& text) {
  std::error_code error;
  const fs::path directory = fs::canonical(text, error);
  if (error) return fail_sys(error.value(), text);
  if (!fs::is_directory(directory, error)) return fail(ErrorCode::invalid, "{} is no directory", directory.native());
  return directory;
}

}  // namespace

Result<int> mount_verb(const MountArgs& args) {
  if (::geteuid() != 0) return fail(ErrorCode::permission, "mounting needs root");
  const store::Store store = TRY(store::Store::open(default_store(args.common.store)));
  const Digest env = TRY(store.resolve(format::RefKind::env, args.env));
  TRY(store.read_env(env));
  const fs::path directory = TRY(existing_directory(args.directory));
  if (load_record(directory)) {
    return fail(ErrorCode::exists, "{} has an environment mounted already; `dsec umount {}` first", directory.native(),
                directory.native());
  }
  const MountRecord record{directory, fs::canonical(store.root()), env.hex()};
  Client client = TRY(Client::connect(store.root(), Client::Start::on_demand));
  if (args.eager) TRY(fetch_ahead(client, env, control::Fetch::all, args.common.json));
  const auto tree = TRY(client.attach(env, control::TreeView::plain, record.owner(), Client::Lease::until_detached,
                                      TRY(parse_rootfs_mode(args.rootfs_mode)), control::Purpose::look));
  const bool objects = tree.objects_root.valid();
  auto bound = save_record(record);
  if (bound) bound = objects ? bind_mount(tree.objects_root, directory) : bind_tree(tree.path, directory);
  if (!bound) {
    remove_record(directory);
    TRY(client.detach(record.owner()));
    return tl::unexpected(bound.error());
  }
  if (!args.common.json) return kExitOk;
  Json reply = {{"env", env.hex()}, {"directory", directory.native()}, {"rootfs_mode", objects ? "objects" : "tree"}};
  if (!tree.why_not.empty()) reply["rootfs_reason"] = tree.why_not;
  TRY(print_json(reply));
  return kExitOk;
}

Result<int> umount_verb(const MountArgs& args) {
  std::error_code error;
  fs::path directory = fs::canonical(args.directory, error);
  if (error) directory = fs::absolute(args.directory);  // the daemon may be gone and the mount dead
  auto record = load_record(directory);
  if (!record && record.error().code == ErrorCode::not_found) {
    return fail(ErrorCode::not_found, "`dsec mount` has nothing at {}", directory.native());
  }
  const MountRecord known = TRY(std::move(record));
  auto unbound = unbind(directory);
  if (!unbound && unbound.error().sys != EINVAL)
    return tl::unexpected(unbound.error());  // EINVAL: not mounted any more
  remove_record(directory);
  auto client = Client::connect(known.store, Client::Start::never);
  if (client) TRY(client->detach(known.owner()));
  return kExitOk;
}

}  // namespace dsec::cli
