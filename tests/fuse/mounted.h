// SPDX-License-Identifier: Apache-2.0
// Sessions that are really mounted, and the transports that they can have here.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "fuse/session.h"
#include "store/store_support.h"
#include "support/skip.h"

namespace dsec::fuse::test {

// A mount that is gone at the end of the test, whatever happens.
class Mount {
 public:
  Mount(std::shared_ptr<tree::Namespace> names, const SessionOptions& options) {
    auto session = Session::mount(std::move(names), dir_.path(), options);
    if (!session) FAIL(session.error().message);
    session_ = std::move(*session);
    server_ = std::thread([this] { (void)session_->run(); });
  }
  ~Mount() {
    session_->unmount();
    ::umount2(dir_.path().c_str(), MNT_DETACH);
    server_.join();
  }
  [[nodiscard]] std::filesystem::path operator/(std::string_view path) const { return dir_ / path; }
  [[nodiscard]] const RequestCounts& counts() const { return session_->counts(); }
  [[nodiscard]] Session& session() const { return *session_; }

 private:
  dsec::test::TempDir dir_;
  std::unique_ptr<Session> session_;
  std::thread server_;
};

// The kernel offers FUSE over io_uring, or does not, for as long as this lives; then it is as before. One at a time on
// this machine.
class OfferOfRings {
 public:
  enum class Offer { no, yes };
  explicit OfferOfRings(Offer offer);
  ~OfferOfRings();
  OfferOfRings(const OfferOfRings&) = delete;
  OfferOfRings& operator=(const OfferOfRings&) = delete;
  // False on kernels before 6.14, or without the right to change it.
  [[nodiscard]] bool holds() const { return holds_; }

 private:
  Fd parameter_;
  char before_ = 0;
  bool holds_ = false;
};

}  // namespace dsec::fuse::test

#define NEED_FUSE() \
  if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0) SKIP_TEST("a FUSE mount needs root and /dev/fuse")

#define NEED_RINGS()                                                                          \
  NEED_FUSE();                                                                                \
  const ::dsec::fuse::test::OfferOfRings offer(::dsec::fuse::test::OfferOfRings::Offer::yes); \
  if (!offer.holds()) SKIP_TEST("FUSE over io_uring needs Linux 6.14 and the right to set fuse.enable_uring")

// Runs the rest of the test case once for each transport.
#define FOR_EACH_TRANSPORT(options)                                                                   \
  NEED_FUSE();                                                                                        \
  ::dsec::fuse::SessionOptions options;                                                               \
  options.transport = GENERATE(::dsec::fuse::Transport::device, ::dsec::fuse::Transport::io_uring);   \
  const ::dsec::fuse::test::OfferOfRings offer(options.transport == ::dsec::fuse::Transport::io_uring \
                                                   ? ::dsec::fuse::test::OfferOfRings::Offer::yes     \
                                                   : ::dsec::fuse::test::OfferOfRings::Offer::no);    \
  if (options.transport == ::dsec::fuse::Transport::io_uring && !offer.holds()) {                     \
    SKIP_TEST("FUSE over io_uring needs Linux 6.14 and the right to set fuse.enable_uring");          \
  }
