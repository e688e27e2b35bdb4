#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads ctest's JUnit file and says what was run: summary.py tests.xml

Counts cases, not programs: a Catch2 or unittest program counts as its test cases, a script whose last line is
"N passed, N failed, N skipped" as what it says, anything else as one. A program that fails counts as at least one
failure, whatever it printed. Then every failed program and every skipped case with its reason; the last line is the
sum in the same form.
Exit: 0 when nothing failed and something passed, else 1.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

LAST_LINE = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
CATCH_ALL_PASSED = re.compile(r"^All tests passed \(.* in (\d+) test cases?\)$", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.M)
CATCH_COUNTS = re.compile(r"^test cases: *(\d+) \|(.*)$", re.M)
SKIPPED_CASE = re.compile(r"^(?:skipped:|SKIP) (.*)$", re.M)


def counts_in(output):
    """(passed, failed, skipped) that a program's output states; None when it states nothing."""
    skipped = len(SKIPPED_CASE.findall(output))
    if stated := LAST_LINE.findall(output):
        return tuple(map(int, stated[-1]))
    if match := UNITTEST.search(output):
        parts = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", match.group(2) or "")}
        skipped = parts.get("skipped", 0)
        failed = parts.get("failures", 0) + parts.get("errors", 0) + parts.get("unexpectedSuccesses", 0)
        return max(0, int(match.group(1)) - failed - skipped), failed, skipped
    if match := CATCH_ALL_PASSED.search(output):  # Catch2 knows no skipped cases: to it they passed
        return int(match.group(1)) - skipped, 0, skipped
    if match := CATCH_COUNTS.search(output):
        failed = sum(int(number) for number in re.findall(r"(\d+) failed", match.group(2)))
        return int(match.group(1)) - failed - skipped, failed, skipped
    return None


class Summary:
    def __init__(self):
        self.passed = 0
        self.failures = []  # (program, number of cases)
        self.skips = []     # "program: case: reason"

    def add(self, test):
        name, status = test.get("name"), test.get("status")
        output = test.findtext("system-out") or ""
        skipped_cases = SKIPPED_CASE.findall(output)
        if status in ("notrun", "disabled"):
            message = (test.find("skipped").get("message") or "") if test.find("skipped") is not None else ""
            if status == "notrun" and not message.startswith("SKIP_"):
                self.failures.append((f"{name}: {message or 'did not run'}", 1))
                return
            last = (output.strip() or message or status).split("\n")[-1]
            self.skips += [f"{name}: {case}" for case in skipped_cases or [last]]
            return
        passed, failed, skipped = counts_in(output) or (int(status == "run"), 0, len(skipped_cases))
        self.passed += max(0, passed)
        skipped_cases += ["(no reason printed)"] * (skipped - len(skipped_cases))
        self.skips += [f"{name}: {case}" for case in skipped_cases]
        if status != "run":
            self.failures.append((name, max(1, failed)))

    def print(self):
        for name, number in self.failures:
            print(f"FAILED  {name}" + (f" ({number} cases)" if number > 1 else ""))
        for skip in self.skips:
            print(f"skipped {skip}")
        print(f"{self.passed} passed, {self.failed()} failed, {len(self.skips)} skipped")

    def failed(self):
        return sum(number for _, number in self.failures)


def main():
    if len(sys.argv) != 2:
        print("usage: summary.py tests.xml", file=sys.stderr)
        return 2
    summary = Summary()
    try:
        tests = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
        for test in tests:
            summary.add(test)
    except (OSError, ElementTree.ParseError) as error:
        print(f"{sys.argv[1]}: {error}")
        summary.failures.append(("ctest wrote no results", 1))
    summary.print()
    return 0 if not summary.failures and summary.passed else 1


if __name__ == "__main__":
    sys.exit(main())
