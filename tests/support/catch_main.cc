// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "support/skip.h"

namespace {

constexpr int kSkipExitCode = 77;  // SKIP_RETURN_CODE of tests/CMakeLists.txt

class SkipListener : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override { dsec::test::case_starts(info.name); }
  void testCaseEnded(const Catch::TestCaseStats&) override { dsec::test::case_ends(); }
};

}  // namespace

CATCH_REGISTER_LISTENER(SkipListener)

int main(int argc, char** argv) {
  const int failed = Catch::Session().run(argc, argv);
  return failed == 0 && dsec::test::all_skipped() ? kSkipExitCode : failed;
}
