#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tree's style: tidy.py [--root DIR] [--bin-dir DIR] [RULE...]; --list names the rules.

One line per finding, "PATH:LINE: RULE: what and what to do"; then one line per rule that was skipped; the last line is
"N passed, N failed, N skipped", counted in rules. Accepted findings are in exceptions.toml, each with its reason.
Exit: 0 clean, 1 findings, 2 usage.
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import rules  # noqa: E402
from tree import Exceptions, Finding, Tree  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description="Checks the tree's style.")
    parser.add_argument("--root", default=os.path.join(HERE, "..", ".."))
    parser.add_argument("--bin-dir", default=os.environ.get("DSEC_BIN_DIR"),
                        help="where the built programs are, for the files they generate ($DSEC_BIN_DIR)")
    parser.add_argument("--list", action="store_true", help="name the rules and stop")
    parser.add_argument("rules", nargs="*", metavar="RULE")
    arguments = parser.parse_args()
    unknown = set(arguments.rules) - {rule.NAME for rule in rules.ALL}
    if unknown:
        parser.error(f"no such rule: {', '.join(sorted(unknown))}; --list names them")
    return arguments


def run_rule(rule, tree, exceptions):
    """The findings that no exception allows."""
    return sorted(finding for finding in set(rule.check(tree)) if not exceptions.allows(finding))


def main():
    arguments = parse_arguments()
    if arguments.list:
        for rule in rules.ALL:
            print(f"{rule.NAME:16} {rule.WHAT}")
        return 0
    tree = Tree(arguments.root, arguments.bin_dir)
    exceptions = Exceptions(os.path.join(tree.root, "tests/tidy/exceptions.toml"))
    chosen = [rule for rule in rules.ALL if not arguments.rules or rule.NAME in arguments.rules]
    passed, failed, skipped = 0, 0, []
    for rule in chosen:
        try:
            findings = run_rule(rule, tree, exceptions)
        except rules.Skip as reason:
            skipped.append(f"skipped: {rule.NAME}: {reason}")
            continue
        findings += [Finding("tests/tidy/exceptions.toml", 1, rule.NAME, f"matches nothing, delete it: {entry}")
                     for entry in exceptions.unused({rule.NAME})]
        for finding in findings:
            print(finding)
        failed += bool(findings)
        passed += not findings
    print("\n".join(skipped), end="\n" if skipped else "")
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
