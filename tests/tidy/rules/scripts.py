# SPDX-License-Identifier: Apache-2.0
import ast
import os
import re
import subprocess

from tree import Finding, script_kind

NAME = "scripts"
WHAT = "scripts parse, stop at errors (set -eu) and are executable when they have a #! line"


def check(tree):
    for file in tree.files:
        kind = script_kind(file)
        if kind is None:
            continue
        is_program = file.lines[0].startswith("#!")
        if is_program != os.access(file.absolute, os.X_OK):
            yield Finding(file.path, 1, NAME, "has a #! line but is not executable" if is_program else
                          "is executable but has no #! line")
        if kind == "python":
            yield from check_python(file)
        else:
            yield from check_shell(file, is_program)


def check_python(file):
    try:
        ast.parse(file.text)
    except SyntaxError as error:
        yield Finding(file.path, error.lineno or 1, NAME, f"does not parse: {error.msg}")


def check_shell(file, is_program):
    parsed = subprocess.run(["bash", "-n", file.absolute], capture_output=True, text=True, check=False)
    if parsed.returncode != 0:
        yield Finding(file.path, 1, NAME, f"does not parse: {parsed.stderr.strip()}")
    if is_program and not re.search(r"^set -[a-z]*e[a-z]*u|^set -[a-z]*u[a-z]*e", file.text, re.M):
        yield Finding(file.path, 1, NAME, "needs set -eu (with pipefail in bash): it would go on after a failure")
