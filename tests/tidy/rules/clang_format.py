# SPDX-License-Identifier: Apache-2.0
import re
import shutil
import subprocess

from rules import Skip
from tree import Finding

NAME = "clang_format"
WHAT = "C++ is as clang-format 14 leaves it: ./dev fmt"

VERSION = "14"


def check(tree):
    program = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    if program is None:
        raise Skip("clang-format is missing: apt-get install clang-format")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if not re.search(rf"version {VERSION}\.", version):
        raise Skip(f"clang-format {VERSION} is wanted, this is {version.strip()}")
    paths = [file.path for file in tree.cpp_files()]
    if not paths:
        return
    ran = subprocess.run([program, "--dry-run", "--ferror-limit=1", *paths], cwd=tree.root, capture_output=True,
                         text=True, check=False)
    seen = set()
    for path, line in re.findall(r"^([^\s:]+):(\d+):\d+: (?:warning|error): code should be clang-formatted", ran.stderr,
                                 re.M):
        if path not in seen:
            seen.add(path)
            yield Finding(path, int(line), NAME, "not formatted from here on: ./dev fmt")
