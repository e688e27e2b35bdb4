# SPDX-License-Identifier: Apache-2.0
import os
import re

from tree import Finding

NAME = "cmake_sources"
WHAT = "every .cc and .c is listed in the CMakeLists.txt of its folder or of one above"


def check(tree):
    listed = set()
    for file in tree.named("CMakeLists.txt", ".cmake"):
        folder = os.path.dirname(file.path)
        text = re.sub(r"#[^\n]*", "", file.text)
        # A foreach over names (`set(names a b)` and `fuzz_${name}.cc`) lists files too.
        for word in re.findall(r"[\w./${}+-]+\.(?:cc|c)\b", text):
            word = word.replace("${CMAKE_SOURCE_DIR}/", "/").replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
            pattern = re.escape(word[1:] if word.startswith("/") else os.path.join(folder, word))
            listed.add(re.sub(r"\\\$\\\{\w+\\\}", r"[\\w./-]+", pattern))
    patterns = re.compile("|".join(sorted(listed)) or r"(?!)")
    for file in tree.named(".cc", ".c"):
        if not patterns.fullmatch(file.path):
            yield Finding(file.path, 1, NAME, "is in no CMakeLists.txt: list it, or delete it")
