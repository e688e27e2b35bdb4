// SPDX-License-Identifier: Apache-2.0
#include "support/skip.h"

#include <cstdio>

namespace dsec::test {

namespace {

std::string current_case;
bool current_skipped = false;
int run = 0;
int skipped = 0;

}  // namespace

void note_skip(const std::string& reason) {
  current_skipped = true;
  std::printf("skipped: %s: %s\n", current_case.c_str(), reason.c_str());
}

void case_starts(const std::string& name) {
  current_case = name;
  current_skipped = false;
}

void case_ends() {
  ++run;
  if (current_skipped) ++skipped;
}

bool all_skipped() { return run > 0 && skipped == run; }

}  // namespace dsec::test
