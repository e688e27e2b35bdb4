// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounted.h"

#include <fcntl.h>
#include <sys/file.h>

namespace dsec::fuse::test {

OfferOfRings::OfferOfRings(Offer offer)
    : parameter_(::open("/sys/module/fuse/parameters/enable_uring", O_RDWR | O_CLOEXEC)) {
  if (!parameter_.valid()) {
    holds_ = offer == Offer::no;  // a kernel without it
    return;
  }
  const char wanted = offer == Offer::yes ? 'Y' : 'N';
  if (::flock(parameter_.get(), LOCK_EX) != 0 || ::pread(parameter_.get(), &before_, 1, 0) != 1) return;
  holds_ = before_ == wanted || ::pwrite(parameter_.get(), &wanted, 1, 0) == 1;
}

OfferOfRings::~OfferOfRings() {
  if (before_ != 0) [[maybe_unused]]
    const ssize_t ignored = ::pwrite(parameter_.get(), &before_, 1, 0);
}

}  // namespace dsec::fuse::test
