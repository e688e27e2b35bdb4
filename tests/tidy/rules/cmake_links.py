# SPDX-License-Identifier: Apache-2.0
import re

from rules.layering import part_of_file
from table import LAYERS
from tree import Finding

NAME = "cmake_links"
WHAT = "a CMake target links only what the dependency table allows"


def part_of_target(target):
    """dsec::composer_sources is a target of the composer's folder."""
    for part in LAYERS:
        if target == part or target.startswith(part + "_"):
            return part
    return None


def check(tree):
    for file in tree.named("CMakeLists.txt"):
        part = part_of_file(file.path)
        if part is None:
            continue
        for number, line in enumerate(file.lines, 1):
            for target in re.findall(r"\bdsec::(\w+)", line.split("#")[0]):
                linked = part_of_target(target)
                if linked is not None and linked != part and linked not in LAYERS[part][1]:
                    yield Finding(file.path, number, NAME, f"{part} must not link dsec::{target}: it may use "
                                  f'{", ".join(LAYERS[part][1]) or "nothing"}')
