# SPDX-License-Identifier: Apache-2.0
import dataclasses
import os
import re

from tree import Finding

NAME = "banned_calls"
WHAT = "calls that have a safer form here; the finding names it"


@dataclasses.dataclass(frozen=True)
class Ban:
    pattern: str          # on code without comments and literals
    cure: str
    allowed: tuple = ()   # folders where it is at home
    in_main: bool = False  # also at home in a main.cc

    def concerns(self, file):
        return not file.under(*self.allowed) and not (self.in_main and file.path.endswith("/main.cc"))


def posix(*names):
    """A call of a C function, with or without ::, but not of a member or of another namespace's function."""
    return rf"(?<![\w.>:])(?:::)?(?:{'|'.join(names)})\s*\("


def libc(*names):
    """The same, also as std::name."""
    return rf"(?:\bstd::|(?<![\w.>:])(?:::)?)(?:{'|'.join(names)})\s*\("


TESTS = ("tests", "bench")
RAII = (*TESTS, "lazyfs/base")

BANS = (
    Ban(libc("strcpy", "strcat", "strncpy", "strncat", "v?sprintf", "gets"), "use fmt::format or std::string"),
    Ban(libc("system", "popen"), "use run_program or ChildProcess of base/process.h: no shell in between"),
    Ban(libc("rand", "srand", "drand48", "random"),
        "use <random> with a seed that is printed, or getrandom(2) for names"),
    Ban(libc("atoi", "atol", "atoll", "atof", "strto[a-z]+") + r"|\bstd::sto[a-z]+\s*\(",
        "use std::from_chars, or parse_size and parse_duration of base/text.h", TESTS),
    Ban(libc("strerror"), "use fail_sys of base/result.h: errno becomes Error in one place", RAII),
    Ban(r"\bstd::(cout|cerr|clog)\b|" + libc("printf", "puts", "putchar", "perror") + r"|\bfmt::print(ln)?\s*\(",
        "a library returns a Result or calls log() of base/log.h; only cli/ and main.cc print", (*TESTS, "cli"),
        in_main=True),
    Ban(posix("close"), "own the descriptor in an Fd (base/fd.h)", RAII),
    Ban(posix("open", "openat", "creat"), "give the descriptor to an Fd in the same statement, or use open_file and "
        "open_at (base/fd.h)", RAII),
    Ban(posix("mmap", "munmap"), "use Mapping (base/mapping.h)", RAII),
    Ban(posix("mkstemp", "mkostemp", "tmpfile", "tmpnam", "mktemp"), "use AtomicFile (base/atomic_file.h)", RAII),
    Ban(posix("fork", "vfork", "posix_spawnp?", "waitpid", "wait4", "waitid"), "use ChildProcess (base/process.h)",
        RAII),
    Ban(posix("unlink"), "use std::filesystem::remove, or the type that owns the file", RAII),
    Ban(posix("lockf", "flock"), "a lock needs an owner: a small RAII type in lazyfs/base/", RAII),
    Ban(libc("malloc", "calloc", "realloc", "free"), "use a container or std::unique_ptr", TESTS),
    Ban(r"\bnew\s+[A-Za-z_:]",
        "use std::make_unique, or give the pointer to its unique_ptr in the same statement"),
    Ban(r"(?<!operator )\bdelete\b", "whoever owns it deletes it: std::unique_ptr"),
    Ban(libc("assert"), "an impossible input is a Result with ErrorCode::internal or corrupt; static_assert is fine"),
    Ban(r"\bthrow\b", "return fail(...): no exceptions of our own", ("tests",)),
    Ban(r"\bthread\b[^;]*\.detach\s*\(\s*\)", "join the thread in its owner's destructor (std::jthread)"),
    Ban(libc("exit", "abort", "quick_exit", "terminate"), "return the Error; only main ends the process",
        (*TESTS, "cli"), in_main=True),
)

# The owner stands in the same statement; a static that is never destroyed owns itself.
OWNED = re.compile(r"(unique_ptr<[^;]*>|shared_ptr<[^;]*>|\breset|\bFd|\bFd \w+|\bfd)\s*[({]\s*(new\b|::open)|\bstatic\b.*=\s*new\b")
DELETED_FUNCTION = re.compile(r"=\s*delete\s*;")
DECLARATION_BEFORE = re.compile(r"[\w>&*]$")
STATEMENT_BEFORE = re.compile(r"\b(return|else|do|case)$")


def check(tree):
    files = tree.cpp_files()
    declared = {}  # folder -> names of functions of ours that shadow a banned one
    for file in files:
        declared.setdefault(folder_of(file), set()).update(
            word(match) for ban in BANS for _, line, match in occurrences(file, ban) if is_declaration(line, match))
    for file in files:
        for ban in BANS:
            if ban.concerns(file):
                yield from find(file, ban, declared[folder_of(file)])


def folder_of(file):
    return os.path.dirname(file.path).removesuffix("/internal")


def occurrences(file, ban):
    for number, line in enumerate(file.code.split("\n"), 1):
        for match in re.finditer(ban.pattern, line):
            yield number, line, match


def find(file, ban, own):
    """`own`: names that mean a function of this folder when written without ::."""
    for number, line, match in occurrences(file, ban):
        if OWNED.search(line) or DELETED_FUNCTION.search(line) or is_declaration(line, match):
            continue
        if word(match) in own and "::" not in match.group(0):
            continue
        yield Finding(file.path, number, NAME, f"`{word(match)}`: {ban.cure}")


def word(match):
    return match.group(0).strip("(: \t").removeprefix("std::")


def is_declaration(line, match):
    """A function that merely has the name: `Result<void> close(`, `void unlink(`."""
    before = line[:match.start()].rstrip()
    return match.group(0).endswith("(") and bool(DECLARATION_BEFORE.search(before)) \
        and not STATEMENT_BEFORE.search(before)
