# SPDX-License-Identifier: Apache-2.0
import re

from tree import Finding, script_kind

NAME = "spdx"
WHAT = "the first line (after #!) of every source and script is its SPDX line"

C_COMMENT = r"/\* SPDX-License-Identifier: Apache-2\.0( \*/)?$"
COMMENT = {"python": "#", "shell": "#"}


def comment_of(file):
    if file.is_cpp():
        return "//"
    if file.path.endswith((".cmake", "CMakeLists.txt", ".toml")):
        return "#"
    return COMMENT.get(script_kind(file))


def check(tree):
    for file in tree.files:
        comment = comment_of(file)
        if comment is None or not file.text:
            continue
        line = 2 if file.lines[0].startswith("#!") else 1
        wanted = f"{comment} SPDX-License-Identifier: Apache-2.0"
        found = file.lines[line - 1] if len(file.lines) >= line else ""
        if found != wanted and not (file.is_cpp() and re.match(C_COMMENT, found)):
            yield Finding(file.path, line, NAME, f"must be: {wanted}")
