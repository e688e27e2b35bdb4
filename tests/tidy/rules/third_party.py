# SPDX-License-Identifier: Apache-2.0
import re

from cpp import includes
from rules.layering import part_of_include
from table import SYSTEM_HEADERS, THIRD_PARTY
from tree import Finding

NAME = "third_party"
WHAT = "a library's headers are included in the folders of the table only"


def homes_of(name):
    for pattern, *folders in THIRD_PARTY:
        if re.fullmatch(pattern, name):
            return folders
    return None


def check(tree):
    for file in tree.cpp_files():
        for line, bracket, name in includes(file):
            if bracket == '"' and part_of_include(name):
                continue
            homes = homes_of(name)
            if homes is not None:
                if not file.under(*homes, "tests"):
                    yield Finding(file.path, line, NAME, f"<{name}> belongs to {homes[0]}/: use what that folder offers")
            elif bracket == "<" and not any(re.fullmatch(pattern, name) for pattern in SYSTEM_HEADERS):
                yield Finding(file.path, line, NAME, f"<{name}> is in no list: give the library its one folder in "
                              "tests/tidy/table.py")
