# SPDX-License-Identifier: Apache-2.0
from cpp import includes
from table import LAYERS, UNLAYERED, include_prefix
from tree import Finding

NAME = "layering"
WHAT = "an #include goes down the dependency table only; internal/ is for its own folder"


def part_of_file(path):
    """The part whose folder holds `path`; None outside the table."""
    for part, (folder, _) in LAYERS.items():
        if path.startswith(folder + "/"):
            return part
    return None


def part_of_include(name):
    for part in LAYERS:
        if name.startswith(include_prefix(part) + "/"):
            return part
    return None


def check(tree):
    for file in tree.cpp_files():
        unlayered = file.under(*UNLAYERED)
        part = part_of_file(file.path)
        if part is None and not unlayered:
            yield Finding(file.path, 1, NAME, "is in no folder of tests/tidy/table.py: add the folder there")
            continue
        for line, bracket, name in includes(file):
            if bracket == '"':
                yield from check_include(file, line, name, part, unlayered)


def check_include(file, line, name, part, unlayered):
    if name.startswith("lazyfs/"):
        yield Finding(file.path, line, NAME, f'"{name}": lazyfs/ is on the include path, write "{name[7:]}"')
        return
    target = part_of_include(name)
    if target is None:
        if not unlayered:
            yield Finding(file.path, line, NAME, f'"{name}" begins with no part of the table; project headers are '
                          'included as "base/x.h", "composer/x.h"')
        return
    if unlayered:
        return
    if target != part and target not in LAYERS[part][1]:
        yield Finding(file.path, line, NAME, f'{part} must not include "{name}": it may use '
                      f'{", ".join(LAYERS[part][1]) or "nothing"}')
    elif "/internal/" in name and not is_own_internal(file.path, part, name):
        yield Finding(file.path, line, NAME, f'"{name}" is internal to its folder: use or extend its public header')


def is_own_internal(path, part, name):
    """True when the folder that holds internal/ also holds the file."""
    folder, prefix = LAYERS[part][0], include_prefix(part)
    owner = folder + name[len(prefix):name.index("internal/")]
    return name.startswith(prefix + "/") and path.startswith(owner)
