# SPDX-License-Identifier: Apache-2.0
import re

from tree import Finding

NAME = "forbidden_words"
WHAT = "nothing that only makes sense on the machine or in the tracker where it was written"

MIRROR = "a package mirror: use what apt is set up with"
WORDS = (
    (re.compile(r"(?<![\w/])/wo" r"rk/"), "an absolute path of one machine: make it relative to the tree"),
    (re.compile(r"(?<![\w/])/(home|Users)/(?!\.)\w+/"), "somebody's home directory"),
    (re.compile(r"\bissue #?\d+\b|\bPR #?\d+\b|(?<![\w&(])#\d{2,}\b(?!;)", re.I),
     "say what it is about; a number needs a tracker"),
    (re.compile(r"https?://[\w.:-]*(mirror|nexus|artifactory|pypi)[\w.:-]*/"), MIRROR),
    (re.compile(r"https?://(deb|ftp|security)[\w.-]*\.debian\.org"), MIRROR),
)
BINARY = re.compile(rb"\x00")


def check(tree):
    for file in tree.files:
        if file.path == "LICENSE":
            continue
        with open(file.absolute, "rb") as raw:
            if BINARY.search(raw.read(4096)):
                continue
        for number, line in enumerate(file.lines, 1):
            for pattern, why in WORDS:
                match = pattern.search(line)
                if match:
                    yield Finding(file.path, number, NAME, f"`{match.group(0)}`: {why}")
