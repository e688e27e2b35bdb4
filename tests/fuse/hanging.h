// SPDX-License-Identifier: Apache-2.0
// A store that hangs, and a session above it.
#pragma once

#include <memory>
#include <string>

#include "fuse/session.h"
#include "support/gate.h"
#include "tree/tree_support.h"

namespace dsec::fuse::test {

// Environment "env" with files "slow0", "slow1", .. whose chunks do not come before open(), and "fast". Each has its
// name as content. `Server` is what shows them: a Connection or a Mount.
template <typename Server>
class Hanging {
 public:
  Hanging(int slow_files, const SessionOptions& options) : server_(attached(slow_files), options) {}
  ~Hanging() { open(); }  // the end of a server waits for its requests
  Hanging(const Hanging&) = delete;
  Hanging& operator=(const Hanging&) = delete;

  void open() { gate_.open(); }
  Server& server() { return server_; }

 private:
  std::shared_ptr<tree::Namespace> attached(int slow_files) {
    std::string lines = "/fast regular content=fast";
    for (int i = 0; i < slow_files; ++i) lines += fmt::format("\n/slow{} regular content=slow{}", i, i);
    const auto layer = world_.layer(lines);
    auto source = std::make_shared<dsec::test::ScriptedSource>(
        [this, inner = world_.source()](const store::ChunkRequest& request, store::Deadline deadline) {
          if (request.digest != dsec::test::digest_of("fast")) gate_.wait();
          return inner->fetch(request, deadline);
        });
    auto names = std::make_shared<tree::Namespace>(std::make_unique<tree::ContentReader>(source, 1 << 20));
    names->attach("env", world_.env("env", {layer}));
    return names;
  }

  dsec::test::Gate gate_;
  tree::test::World world_;
  Server server_;
};

}  // namespace dsec::fuse::test
