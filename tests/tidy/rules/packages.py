# SPDX-License-Identifier: Apache-2.0
import re
import subprocess

from tree import Finding

NAME = "packages"
WHAT = "packages that tests and documents name are those that ./dev setup installs"

# A test's "x is missing: apt-get install y", image_lib.sh's `need COMMAND PACKAGE`, a document's own commands.
MESSAGE = re.compile(r"is missing: apt-get install ([a-z0-9][a-z0-9.+-]+)|^\s*need \S+ ([a-z0-9][a-z0-9.+-]+)$")
COMMAND = re.compile(r"^\s*(?:sudo )?apt-get install (.*?)\\?$")
FOLDERS = ("tests", "bench", "lazyfs", "composer", "launcher", "placement", "cli")


def check(tree):
    if not tree.exists("dev"):
        yield Finding("dev", 1, NAME, "is missing")
        return
    known = set(subprocess.run(["bash", f"{tree.root}/dev", "packages"], capture_output=True, text=True,
                               check=True).stdout.split())
    for file in tree.files:
        if not file.under(*FOLDERS) and not file.path.endswith(".md"):
            continue
        for number, line in enumerate(file.lines, 1):
            for package in named_in(file, line):
                if package not in known:
                    yield Finding(file.path, number, NAME, f"{package} is in no list of ./dev: add it there")


def named_in(file, line):
    if file.path.endswith(".md"):
        command = COMMAND.match(line)
        return [word for word in command.group(1).split() if not word.startswith("-")] if command else []
    return ["".join(words) for words in MESSAGE.findall(line)]
