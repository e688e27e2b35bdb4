# SPDX-License-Identifier: Apache-2.0
"""One module per rule: NAME, WHAT (one line for people), and check(tree), which yields Finding objects. A rule that
cannot run here raises Skip. A new rule is one file and one line in ALL."""


class Skip(Exception):
    """The reason why a rule cannot run on this machine."""


from rules import (  # noqa: E402  (the modules need Skip)
    banned_calls, clang_format, cmake_links, cmake_sources, documents, forbidden_words, generated, headers, layering,
    leftovers, lengths, packages, scripts, spdx, third_party)

ALL = (spdx, headers, layering, cmake_links, third_party, lengths, banned_calls, leftovers, forbidden_words,
       cmake_sources, documents, generated, packages, scripts, clang_format)
