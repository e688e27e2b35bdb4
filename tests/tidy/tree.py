# SPDX-License-Identifier: Apache-2.0
"""What every rule sees: the files of a tree, findings, exceptions."""

import dataclasses
import functools
import os
import re
import subprocess
import tomllib

from cpp import strip_comments_and_strings

CPP_SUFFIXES = (".h", ".cc", ".c")
NOT_OURS = ("build/", ".git/", ".cache/")
# Deliberately bad trees, and files whose bytes are data.
DATA_FOLDERS = re.compile(r"^tests/(tidy/cases|[a-z]+/golden|fuzz/(seeds|corpus)|[a-z]+/reject)/")


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class File:
    """One text file; `path` is relative to the tree, with slashes."""

    def __init__(self, root, path):
        self.path = path
        self.absolute = os.path.join(root, path)

    @functools.cached_property
    def text(self):
        with open(self.absolute, encoding="utf-8", errors="replace") as file:
            return file.read()

    @functools.cached_property
    def lines(self):
        return self.text.split("\n")

    @functools.cached_property
    def code(self):
        """The text with comments and literals blanked: same lines, same columns."""
        return strip_comments_and_strings(self.text)

    def is_cpp(self):
        return self.path.endswith(CPP_SUFFIXES)

    def under(self, *folders):
        return any(self.path.startswith(folder.rstrip("/") + "/") for folder in folders)


class Tree:
    """The files git knows or would add (an export without .git: all files), without data folders."""

    def __init__(self, root, bin_dir=None):
        self.root = os.path.abspath(root)
        self.bin_dir = bin_dir
        self.files = [File(self.root, path) for path in sorted(self._paths()) if not DATA_FOLDERS.match(path)]

    def _paths(self):
        if os.path.exists(os.path.join(self.root, ".git")):
            command = ["git", "-C", self.root, "-c", "safe.directory=*", "ls-files", "-coz", "--exclude-standard"]
            listed = subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="surrogateescape")
            paths = set(listed.split("\0")) - {""}
        else:
            paths = {os.path.relpath(os.path.join(folder, name), self.root)
                     for folder, _, names in os.walk(self.root) for name in names}
        return [path for path in paths if not path.startswith(NOT_OURS)
                and os.path.isfile(os.path.join(self.root, path)) and not os.path.islink(os.path.join(self.root, path))]

    def cpp_files(self):
        return [file for file in self.files if file.is_cpp()]

    def named(self, *suffixes):
        return [file for file in self.files if file.path.endswith(suffixes)]

    def scripts(self):
        """Python and shell, with or without a suffix."""
        return [file for file in self.files if file.path.endswith((".py", ".sh")) or script_kind(file)]

    def exists(self, path):
        return os.path.exists(os.path.join(self.root, path))


def script_kind(file):
    """"python", "shell" or None, by suffix or #! line."""
    if file.path.endswith(".py"):
        return "python"
    if file.path.endswith(".sh"):
        return "shell"
    if "." in os.path.basename(file.path):
        return None
    first = file.lines[0]
    if not first.startswith("#!"):
        return None
    return "python" if "python" in first else "shell" if re.search(r"\b(ba)?sh\b", first) else None


class Exceptions:
    """Findings that are accepted, each with a reason; see exceptions.toml. One that matches nothing is a finding."""

    def __init__(self, path):
        self.path = path
        self.entries = []
        if os.path.exists(path):
            with open(path, "rb") as file:
                self.entries = tomllib.load(file).get("exception", [])
        for entry in self.entries:
            missing = {"rule", "path", "reason"} - entry.keys()
            if missing or not entry["reason"].strip():
                raise ValueError(f"{path}: an exception needs rule, path and reason: {entry}")
        self.used = set()

    def allows(self, finding):
        allowed = False
        for number, entry in enumerate(self.entries):
            if entry["rule"] == finding.rule and re.fullmatch(entry["path"], finding.path) \
                    and entry.get("text", "") in finding.text:
                self.used.add(number)
                allowed = True
        return allowed

    def unused(self, rules):
        return [entry for number, entry in enumerate(self.entries)
                if number not in self.used and entry["rule"] in rules]
