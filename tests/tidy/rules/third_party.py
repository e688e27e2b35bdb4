# SPDX-License-Identifier: Apache-2.0
import re

from cpp import includes
from rules.layering import part_of_include
from table import SYSTEM_HEADERS, THIRD_PARTY
from tree import Finding

NAME = "third_party"
WHAT = "a library's headers are included in one folder only"


def home_of(name):
    for pattern, folder in THIRD_PARTY:
        if re.fullmatch(pattern, name):
            return folder
    return None


def check(tree):
    for file in tree.cpp_files():
        for line, bracket, name in includes(file):
            if bracket == '"' and part_of_include(name):
                continue
            home = home_of(name)
            if home is not None:
                if not file.under(home, "tests"):
                    yield Finding(file.path, line, NAME, f"<{name}> belongs to {home}/: use what that folder offers")
            elif bracket == "<" and not any(re.fullmatch(pattern, name) for pattern in SYSTEM_HEADERS):
                yield Finding(file.path, line, NAME, f"<{name}> is in no list: give the library its one folder in "
                              "tests/tidy/table.py")
