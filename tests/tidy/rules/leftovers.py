# SPDX-License-Identifier: Apache-2.0
import re

from tree import Finding

NAME = "leftovers"
WHAT = "no marks of unfinished work; what is missing is said in the documents"

MARKS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\b[Nn]ot (yet )?implem" r"ented\b")
TEXT_FILES = (".md", ".txt", ".cmake", ".toml", ".json", ".sh", ".py", ".h", ".cc", ".c")


def check(tree):
    for file in tree.files:
        if not file.path.endswith(TEXT_FILES) and "." in file.path.rsplit("/", 1)[-1]:
            continue
        for number, line in enumerate(file.lines, 1):
            match = MARKS.search(line)
            if match:
                yield Finding(file.path, number, NAME, f"`{match.group(0)}`: do it, or say in the documents what is "
                              "missing")
