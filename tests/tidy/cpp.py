# SPDX-License-Identifier: Apache-2.0
"""Just enough C++ for the rules: blanking comments and literals, finding function bodies. Good for code that
clang-format has been over; it does not expand macros."""

import re

_TOKENS = re.compile(
    r"""//[^\n]*(?:\\\n[^\n]*)*            # line comment
      | /\*.*?\*/                          # block comment
      | R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"   # raw string
      | "(?:\\.|[^"\\\n])*"                # string
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'  # character, not a digit separator
    """, re.VERBOSE | re.DOTALL)


def strip_comments_and_strings(text):
    """Blanks comments and the inside of literals (and of #include paths in quotes); lines and columns stay."""
    def blank(match):
        token = match.group(0)
        inside = re.sub(r"[^\n]", " ", token)
        return token[0] + inside[1:-1] + token[-1] if token[0] in "\"'" else inside
    return _TOKENS.sub(blank, text)


def includes(file):
    """(line number, bracket, name) of each #include."""
    for number, line in enumerate(file.lines, 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1), match.group(2)


_CONTAINER = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:typedef\s+)?"
                        r"(namespace|class|struct|union|enum|extern)\b", re.DOTALL)


def functions(code):
    """(name, first line, last line) of each function defined in `code` (blanked text). Lambdas belong to the
    function they are in; the first line is the one of its declarator."""
    code = re.sub(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M)
    stack = []   # (is_container, name, start) for each open brace
    head = 0     # where the text that may introduce the next brace begins
    parens = 0
    for match in re.finditer(r"[{}();]", code):
        char, at = match.group(0), match.start()
        if char == "(":
            parens += 1
        elif char == ")":
            parens -= 1
        elif char == ";" and parens == 0:
            head = at + 1
        elif char == "{":
            stack.append((*_classify(code, head, at, stack, parens), parens))
            head, parens = at + 1, 0
        elif char == "}" and stack:
            is_container, name, start, parens = stack.pop()
            if name:
                yield name, code.count("\n", 0, start) + 1, code.count("\n", 0, at) + 1
            if is_container or name or not parens:
                head = at + 1


def _classify(code, head, at, stack, parens):
    """(is_container, function name or None, start) of the brace at `at`."""
    text = code[head:at]
    in_container = all(entry[0] for entry in stack) and parens == 0
    text = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)+", lambda m: " " * len(m.group(0)), text)
    start = head + len(text) - len(text.lstrip())
    if not in_container:
        return False, None, start
    declarator = re.search(r"([~\w:]+|operator\s*\S+?)\s*\(", text)
    if _CONTAINER.match(text) and not (declarator and re.search(r"\)\s*(const|noexcept|override|->[^{]*)*\s*$", text)):
        return True, None, start
    if declarator and not re.search(r"=\s*$", text):
        return False, declarator.group(1), start
    return False, None, start
