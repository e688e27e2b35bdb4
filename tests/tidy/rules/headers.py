# SPDX-License-Identifier: Apache-2.0
import re

from tree import Finding

NAME = "headers"
WHAT = "headers have #pragma once (C headers too), no include guard and no `using namespace`"


def check(tree):
    for file in tree.named(".h"):
        if not re.search(r"^#pragma once$", file.code, re.M):
            yield Finding(file.path, 1, NAME, "has no #pragma once")
        for number, line in enumerate(file.code.split("\n"), 1):
            if re.search(r"\busing\s+namespace\b", line):
                yield Finding(file.path, number, NAME, "`using namespace` reaches everyone who includes this: name "
                              "what is needed, in a .cc")
