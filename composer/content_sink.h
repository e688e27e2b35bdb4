// SPDX-License-Identifier: Apache-2.0
// Where sources put the content of regular files.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace dsec::composer {

// Takes the contents of files one after the other and gives each a ticket; digests are known when all is in. One
// thread calls it. Nothing it stored is visible in the store before the caller commits the layer.
//
// A file is begin(), any number of data() and hole() in the order of the file, end(). Two files are never open at once.
// Any error is final: the sink is then only good for destruction.
class ContentSink {
 public:
  using Ticket = std::uint32_t;

  virtual ~ContentSink() = default;

  virtual Result<void> begin() = 0;
  // The next bytes of the open file. The view need only live during the call.
  virtual Result<void> data(ByteView bytes) = 0;
  // `length` zero bytes that the source knows without reading them. Equal content gives an equal digest, whether its
  // zeros came as data or as holes.
  virtual Result<void> hole(std::uint64_t length) = 0;
  virtual Result<Ticket> end() = 0;

  // Waits until everything is stored. Element `ticket` is the object digest of that file, zero for an empty one.
  virtual Result<std::vector<Digest>> finish() = 0;
};

}  // namespace dsec::composer
