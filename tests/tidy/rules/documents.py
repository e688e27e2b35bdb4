# SPDX-License-Identifier: Apache-2.0
import os
import re

from tree import Finding

NAME = "documents"
WHAT = "every .md has one H1, on its first line, and relative links that lead somewhere"


def check(tree):
    for file in tree.named(".md"):
        lines = without_code(file.lines)
        titles = [number for number, line in enumerate(lines, 1) if re.match(r"# \S", line)]
        first = 2 if lines[0].startswith("<!-- SPDX") else 1
        if titles != [first]:
            yield Finding(file.path, titles[1] if len(titles) > 1 else 1, NAME, "needs one `# Title`, on its first line")
        for number, line in enumerate(lines, 1):
            for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", line):
                yield from check_link(tree, file, number, target)


def without_code(lines):
    """The lines with fenced blocks and `code` blanked."""
    fenced, out = False, []
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
            out.append("")
        else:
            out.append("" if fenced else re.sub(r"`[^`]*`", "", line))
    return out


def check_link(tree, file, number, target):
    if re.match(r"[a-z]+:", target):
        return
    path, _, anchor = target.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(file.path), path)) if path else file.path
    if path.startswith("..") or not tree.exists(path):
        yield Finding(file.path, number, NAME, f"the link to {target} leads nowhere")
    elif anchor and path.endswith(".md") and anchor not in anchors(tree, path):
        yield Finding(file.path, number, NAME, f"{path} has no heading for #{anchor}")


def anchors(tree, path):
    """GitHub's anchors of the headings."""
    with open(os.path.join(tree.root, path), encoding="utf-8") as text:
        titles = [match.group(1) for match in re.finditer(r"^#+ (.+)$", text.read(), re.M)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
