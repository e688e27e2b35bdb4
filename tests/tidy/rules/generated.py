# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

from rules import Skip
from tree import Finding

NAME = "generated"
WHAT = "files that a program of the tree prints are what it prints now"

# Lines of "FILE PROGRAM ARGUMENTS...": PROGRAM ARGUMENTS >FILE brings it up to date. PROGRAM is one in bin/.
LIST = "tests/tidy/generated.txt"


def check(tree):
    for path, program, *arguments in entries(tree):
        binary = os.path.join(tree.bin_dir or "", program)
        if not os.access(binary, os.X_OK):
            raise Skip(f"{program} is not built" if tree.bin_dir else "no --bin-dir")
        printed = subprocess.run([binary, *arguments], capture_output=True, check=False, timeout=30)
        if printed.returncode != 0 or printed.stdout != stored(tree, path):
            yield Finding(path, 1, NAME, f"out of date: {program} {' '.join(arguments)} >{path}")


def entries(tree):
    if not tree.exists(LIST):
        return []
    with open(os.path.join(tree.root, LIST), encoding="utf-8") as file:
        return [line.split() for line in file if line.strip() and not line.startswith("#")]


def stored(tree, path):
    if not tree.exists(path):
        return None
    with open(os.path.join(tree.root, path), "rb") as file:
        return file.read()
