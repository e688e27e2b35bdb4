#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that .ci/summary.py counts what ctest's JUnit file says. The last line is "N passed, N failed, N skipped"."""

import os
import subprocess
import sys
import tempfile

SUMMARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".ci", "summary.py")


def case(status, output="", message=None):
    skipped = f'<skipped message="{message}"/>' if message else ""
    return f'<testcase name="t" status="{status}">{skipped}<system-out>{output}</system-out></testcase>'


SKIP_77 = "SKIP_RETURN_CODE=77"
# (what, test cases, last line, exit status)
CASES = (
    ("a program without counts is one", case("run", "hello"), "1 passed, 0 failed, 0 skipped", 0),
    ("a failed one too", case("fail"), "0 passed, 1 failed, 0 skipped", 1),
    ("nothing is no success", "", "0 passed, 0 failed, 0 skipped", 1),
    ("Catch, all passed", case("run", "All tests passed (9 assertions in 3 test cases)\n"),
     "3 passed, 0 failed, 0 skipped", 0),
    ("Catch with skips", case("run", "skipped: a: no root\nAll tests passed (9 assertions in 3 test cases)\n"),
     "2 passed, 0 failed, 1 skipped", 0),
    ("Catch with failures", case("fail", "test cases: 5 | 3 passed | 2 failed\n"), "3 passed, 2 failed, 0 skipped", 1),
    ("unittest, all passed", case("run", "Ran 3 tests in 0.172s\n\nOK\n"), "3 passed, 0 failed, 0 skipped", 0),
    ("unittest with failures and skips", case("fail", "Ran 6 tests in 1.1s\n\nFAILED (failures=1, skipped=2)\n"),
     "3 passed, 1 failed, 2 skipped", 1),
    ("a script's last line", case("run", "SKIP a: b\n5 passed, 0 failed, 1 skipped\n"),
     "5 passed, 0 failed, 1 skipped", 0),
    ("skips without reasons count", case("run", "5 passed, 0 failed, 2 skipped\n"), "5 passed, 0 failed, 2 skipped", 0),
    ("a crash after good counts is a failure", case("fail", "5 passed, 0 failed, 0 skipped\n"),
     "5 passed, 1 failed, 0 skipped", 1),
    ("a program that skipped everything", case("run") + case("notrun", "x is missing", SKIP_77),
     "1 passed, 0 failed, 1 skipped", 0),
    ("a program that was not built is a failure", case("run") + case("notrun", "", "Unable to find executable"),
     "1 passed, 1 failed, 0 skipped", 1),
)


def wrong(cases, last_line, status):
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(f"<testsuite>{cases}</testsuite>")
        file.flush()
        ran = subprocess.run([sys.executable, SUMMARY, file.name], capture_output=True, text=True, check=False)
    lines = ran.stdout.strip().split("\n")
    return None if (lines[-1], ran.returncode) == (last_line, status) else f"exit {ran.returncode}: {ran.stdout}"


def main():
    failures = [(what, problem) for what, *rest in CASES if (problem := wrong(*rest))]
    for what, problem in failures:
        print(f"FAIL {what}: {problem}")
    print(f"{len(CASES) - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
