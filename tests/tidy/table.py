# SPDX-License-Identifier: Apache-2.0
"""The dependency table of docs/architecture.md as data: who may include and link whom.

A part is one folder and one CMake target. LAYERS lists, for each part, all parts whose headers it may include;
CMake links the same set. THIRD_PARTY lists the only folders that may include a library's headers: one, or two that use
it for different things.
"""

# part -> (folder, parts it may include or link). Lowest first; a part only names parts above its own line.
_LAZYFS_CORE = ("base", "io", "format", "store")
LAYERS = {
    "base": ("lazyfs/base", ()),
    "io": ("lazyfs/io", ("base",)),
    "format": ("lazyfs/format", ("base",)),
    "store": ("lazyfs/store", ("base", "io", "format")),
    "rootfs": ("lazyfs/rootfs", ("base", "format")),
    "tree": ("lazyfs/tree", _LAZYFS_CORE),
    "prefetch": ("lazyfs/prefetch", ("base", "format", "store", "tree")),
    "fuse": ("lazyfs/fuse", (*_LAZYFS_CORE, "tree")),
    "control": ("lazyfs/control", ("base",)),
    "keeper": ("lazyfs/keeper", ("base", "fuse", "control")),
    "daemon": ("lazyfs/daemon", (*_LAZYFS_CORE, "rootfs", "tree", "prefetch", "fuse", "control")),
    "composer": ("composer", _LAZYFS_CORE),
    "launcher": ("launcher", ("base", "control")),
    "placement": ("placement", ("base", "control", "launcher")),
    "cli": ("cli", (*_LAZYFS_CORE, "rootfs", "tree", "control", "daemon", "composer", "launcher", "placement")),
}

# Folders whose files may include everything.
UNLAYERED = ("tests", "bench")

# How each part's headers are named in an #include: lazyfs/ is on the include path, so its parts go without it.
def include_prefix(part):
    return LAYERS[part][0].removeprefix("lazyfs/")


# Header pattern (regular expression on the text between the brackets) -> the folders that include it.
# tests/ may include all of them: a test may need the second opinion of the library itself.
THIRD_PARTY = (
    (r"fmt/.*", "lazyfs/base"),
    (r"tl/expected\.hpp", "lazyfs/base"),
    (r"nlohmann/.*", "lazyfs/base"),
    (r"toml\+\+/.*|toml\.hpp", "lazyfs/base"),
    (r"openssl/.*", "lazyfs/base"),
    (r"liburing.*", "lazyfs/io", "lazyfs/fuse"),
    (r"lz4.*\.h", "lazyfs/format"),
    (r"xxhash\.h", "lazyfs/base"),
    (r"fuse.*\.h|fuse3/.*|linux/fuse\.h", "lazyfs/fuse"),
    (r"archive.*\.h", "composer"),
    (r"zlib\.h|zstd\.h|lzma\.h|bzlib\.h", "composer"),
    (r"curl/.*", "composer"),
    (r"seccomp\.h", "launcher"),
    (r"CLI/.*", "cli"),
    (r"catch2/.*", "tests"),
)

# Headers in <> that belong to the C and C++ libraries or to the kernel; everything else must be in THIRD_PARTY.
SYSTEM_HEADERS = (
    r"[a-z_0-9]+",  # C++: <string>, <cerrno>
    r"(sys|linux|net|netinet|arpa|asm|bits|ext)/[a-z_0-9/]+(\.h)?",
    r"(alloca|assert|cpuid|dirent|dlfcn|endian|errno|execinfo|fcntl|features|fnmatch|ftw|getopt|glob|grp|ifaddrs|"
    r"immintrin|inttypes|limits|linkage|malloc|math|mntent|netdb|poll|pthread|pty|pwd|sched|semaphore|setjmp|signal|"
    r"spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|syslog|termios|"
    r"time|ucontext|unistd|utime|wait|wchar|sanitizer/[a-z_]+|x86intrin)\.h",
)
