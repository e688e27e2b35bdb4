// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target once on each file of the folders that are named on the command line.
#include <filesystem>

#include "base/fd.h"
#include "fuzz/fuzz.h"

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      const auto bytes = dsec::read_file(entry.path(), 64u << 20);
      dsec::fuzz::require(bytes.has_value(), "the corpus can be read");
      LLVMFuzzerTestOneInput(bytes->data(), bytes->size());
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return count > 0 ? 0 : 1;
}
