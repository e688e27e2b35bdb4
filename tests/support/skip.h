// SPDX-License-Identifier: Apache-2.0
// Tests that cannot run here.
#pragma once

#include <catch2/catch.hpp>
#include <string>

namespace dsec::test {

// Prints "skipped: CASE: REASON" and counts it. The program exits with 77 when every case that ran was skipped.
void note_skip(const std::string& reason);

// For the main function of the test programs.
void case_starts(const std::string& name);
void case_ends();
bool all_skipped();

}  // namespace dsec::test

// Ends the running test case as skipped. For needs of the machine (root, a kernel feature, a program), not for
// failures.
#define SKIP_TEST(reason)            \
  do {                               \
    ::dsec::test::note_skip(reason); \
    SUCCEED("skipped");              \
    return;                          \
  } while (false)
