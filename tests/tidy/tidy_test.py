#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tidy rules on the tiny trees in cases/RULE.txt and compares what they find with what they must find.

A case file is a list of cases:
    == good: TITLE                      the rule finds nothing
    == bad: TITLE => PATH:LINE ...      the rule finds these places and no others
    -- PATH                             followed by the lines of that file; `-- PATH x` is executable
The last line is "N passed, N failed, N skipped", counted in cases. Every rule must have a good and a bad case.
"""

import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import rules  # noqa: E402
from tree import Exceptions, Finding, Tree  # noqa: E402


def parse_cases(text):
    """(title, set of "path:line", {path: (text, is_executable)}) of each case."""
    for block in re.split(r"^== ", text, flags=re.M)[1:]:
        header, _, body = block.partition("\n")
        title, _, wanted = header.partition(" => ")
        files = {}
        for part in re.split(r"^-- ", body, flags=re.M)[1:]:
            name, _, content = part.partition("\n")
            path, _, flag = name.partition(" ")
            files[path] = (content, flag == "x")
        yield title, set(wanted.split()), files


def write_tree(root, files):
    for path, (content, executable) in files.items():
        absolute = os.path.join(root, path)
        os.makedirs(os.path.dirname(absolute), exist_ok=True)
        with open(absolute, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(absolute, 0o755 if executable else 0o644)


def run_case(rule, wanted, files):
    """None, or what is wrong."""
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, files)
        found = {f"{finding.path}:{finding.line}": finding for finding in rule.check(Tree(root, os.path.join(root, "bin")))}
    missing, extra = wanted - found.keys(), found.keys() - wanted
    if missing or extra:
        return "; ".join([f"not found: {place}" for place in sorted(missing)] +
                         [f"found: {found[place]}" for place in sorted(extra)])
    return None


def run_rule(rule):
    """(title, what is wrong or None, reason to skip or None) of each case of a rule."""
    with open(os.path.join(HERE, "cases", f"{rule.NAME}.txt"), encoding="utf-8") as file:
        cases = list(parse_cases(file.read()))
    kinds = {title.partition(":")[0] for title, _, _ in cases}
    yield f"{rule.NAME}: has good and bad cases", None if kinds == {"good", "bad"} else f"has only {kinds}", None
    for title, wanted, files in cases:
        name = f"{rule.NAME}: {title}"
        if title.startswith("bad") != bool(wanted):
            yield name, "a bad case names what is found, a good one does not", None
            continue
        try:
            yield name, run_case(rule, wanted, files), None
        except rules.Skip as reason:
            yield name, None, str(reason)


def exceptions_cases():
    finding = Finding("a/b.cc", 3, "lengths", "f has 99 lines")
    entry = {"rule": "lengths", "path": r"a/.*", "text": "f has", "reason": "why"}
    with tempfile.TemporaryDirectory() as root:
        exceptions = Exceptions(os.path.join(root, "absent.toml"))
    yield "exceptions: no file allows nothing", None if not exceptions.allows(finding) else "allowed", None
    exceptions.entries = [entry, {**entry, "path": "other"}]
    yield "exceptions: rule, path and text match", None if exceptions.allows(finding) else "not allowed", None
    unused = exceptions.unused({"lengths"})
    yield "exceptions: one that matches nothing is told", None if len(unused) == 1 else str(unused), None


def main():
    passed, failed, skipped = 0, 0, 0
    for name, wrong, reason in [*exceptions_cases(), *(case for rule in rules.ALL for case in run_rule(rule))]:
        if reason:
            print(f"skipped: {name}: {reason}")
            skipped += 1
        elif wrong:
            print(f"FAIL {name}: {wrong}")
            failed += 1
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
