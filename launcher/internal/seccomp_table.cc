// SPDX-License-Identifier: Apache-2.0
#include "launcher/internal/seccomp_table.h"

namespace dsec::launcher {

namespace {

// clang-format off
// One family a paragraph. Suffixes 32, 64, _time64 and the like are the forms of 32-bit architectures.
constexpr const char* kAllowed[] = {
    // Reading, writing, positioning.
    "read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2", "lseek",
    "_llseek", "readahead", "fadvise64", "fadvise64_64", "sendfile", "sendfile64", "splice", "tee", "vmsplice",
    "copy_file_range", "fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "fallocate", "truncate",
    "truncate64", "ftruncate", "ftruncate64",

    // Opening and descriptors.
    "open", "openat", "openat2", "creat", "close", "close_range", "dup", "dup2", "dup3", "fcntl", "fcntl64", "flock",
    "ioctl", "pipe", "pipe2", "memfd_create", "memfd_secret", "name_to_handle_at",

    // Names and directories.
    "access", "faccessat", "faccessat2", "chdir", "fchdir", "getcwd", "mkdir", "mkdirat", "rmdir", "rename",
    "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "readlink", "readlinkat",
    "mknod", "mknodat", "getdents", "getdents64", "umask",
    "chroot",  // with CAP_SYS_CHROOT, which is a default capability

    // Attributes.
    "stat", "stat64", "lstat", "lstat64", "fstat", "fstat64", "fstatat64", "newfstatat", "statx", "statfs",
    "statfs64", "fstatfs", "fstatfs64", "chmod", "fchmod", "fchmodat", "chown", "chown32", "lchown", "lchown32",
    "fchown", "fchown32", "fchownat", "utime", "utimes", "futimesat", "utimensat", "utimensat_time64", "getxattr",
    "lgetxattr", "fgetxattr", "setxattr", "lsetxattr", "fsetxattr", "listxattr", "llistxattr", "flistxattr",
    "removexattr", "lremovexattr", "fremovexattr",

    // Waiting for events.
    "poll", "ppoll", "ppoll_time64", "select", "_newselect", "pselect6", "pselect6_time64", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_wait", "epoll_wait_old", "epoll_pwait", "epoll_pwait2",
    "eventfd", "eventfd2", "inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch", "fanotify_mark",
    "io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents", "io_pgetevents_time64",

    // Memory.
    "brk", "mmap", "mmap2", "munmap", "mremap", "mprotect", "madvise", "mincore", "msync", "mlock", "mlock2",
    "mlockall", "munlock", "munlockall", "membarrier", "remap_file_pages", "pkey_alloc", "pkey_free", "pkey_mprotect",
    "process_mrelease",

    // Processes.
    "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "waitpid", "getpid", "getppid",
    "gettid", "getpgid", "getpgrp", "setpgid", "getsid", "setsid", "prctl", "getpriority", "setpriority",
    "ioprio_get", "ioprio_set", "getrlimit", "ugetrlimit", "setrlimit", "prlimit64", "getrusage", "times",
    "restart_syscall", "rseq", "set_robust_list", "get_robust_list", "set_tid_address", "set_thread_area",
    "get_thread_area", "getcpu", "kill", "tkill", "tgkill", "pidfd_open", "pidfd_send_signal", "ptrace",
    "process_vm_readv", "process_vm_writev", "seccomp", "landlock_create_ruleset", "landlock_add_rule",
    "landlock_restrict_self",

    // Identity.
    "getuid", "getuid32", "geteuid", "geteuid32", "getgid", "getgid32", "getegid", "getegid32", "getresuid",
    "getresuid32", "getresgid", "getresgid32", "getgroups", "getgroups32", "setuid", "setuid32", "setgid", "setgid32",
    "setreuid", "setreuid32", "setregid", "setregid32", "setresuid", "setresuid32", "setresgid", "setresgid32",
    "setgroups", "setgroups32", "setfsuid", "setfsuid32", "setfsgid", "setfsgid32", "capget", "capset",

    // Scheduling.
    "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getattr", "sched_setattr", "sched_getparam",
    "sched_setparam", "sched_getscheduler", "sched_setscheduler", "sched_get_priority_max", "sched_get_priority_min",
    "sched_rr_get_interval", "sched_rr_get_interval_time64",

    // Signals.
    "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64", "sigaltstack", "sigprocmask", "sigreturn",
    "signalfd", "signalfd4", "pause",

    // Time. Setting it fails for lack of CAP_SYS_TIME; reading with adjtimex does not.
    "time", "gettimeofday", "clock_getres", "clock_getres_time64", "clock_gettime", "clock_gettime64",
    "clock_nanosleep", "clock_nanosleep_time64", "nanosleep", "adjtimex", "clock_adjtime", "clock_adjtime64", "alarm",
    "getitimer", "setitimer", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_gettime64",
    "timer_settime", "timer_settime64", "timerfd_create", "timerfd_gettime", "timerfd_gettime64", "timerfd_settime",
    "timerfd_settime64",

    // Locks and messages.
    "futex", "futex_time64", "futex_waitv", "ipc", "semget", "semctl", "semop", "semtimedop", "semtimedop_time64",
    "shmget", "shmat", "shmdt", "shmctl", "msgget", "msgctl", "msgsnd", "msgrcv", "mq_open", "mq_unlink", "mq_notify",
    "mq_getsetattr", "mq_timedsend", "mq_timedsend_time64", "mq_timedreceive", "mq_timedreceive_time64",

    // Sockets; socket itself is below. The arguments of socketcall are in memory and cannot be filtered.
    "socketpair", "socketcall", "bind", "listen", "accept", "accept4", "connect", "shutdown", "getsockname",
    "getpeername", "getsockopt", "setsockopt", "send", "sendto", "sendmsg", "sendmmsg", "recv", "recvfrom", "recvmsg",
    "recvmmsg", "recvmmsg_time64",

    // The machine.
    "uname", "sysinfo", "getrandom",

#if defined(__x86_64__) || defined(__i386__)
    "arch_prctl", "modify_ldt",
#elif defined(__aarch64__) || defined(__arm__)
    "arm_fadvise64_64", "arm_sync_file_range", "sync_file_range2", "breakpoint", "cacheflush", "set_tls",
#endif
};
// clang-format on

constexpr NumberedCall kAllowedNew[] = {
    {"cachestat", 451},     {"fchmodat2", 452},   {"map_shadow_stack", 453}, {"futex_wake", 454}, {"futex_wait", 455},
    {"futex_requeue", 456}, {"statmount", 457},   {"listmount", 458},        {"mseal", 462},      {"setxattrat", 463},
    {"getxattrat", 464},    {"listxattrat", 465}, {"removexattrat", 466},
};

using Compare = ArgumentRule::Compare;

// CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET: none may be asked for.
constexpr std::uint64_t kNamespaceFlags = 0x7e020000;

constexpr ArgumentRule kArgumentRules[] = {
    {"clone", 0, Compare::masked_equal, kNamespaceFlags, 0},
    // Linux, with or without UNAME26, ADDR_NO_RANDOMIZE excluded; and the question.
    {"personality", 0, Compare::equal, 0x0},
    {"personality", 0, Compare::equal, 0x8},
    {"personality", 0, Compare::equal, 0x20000},
    {"personality", 0, Compare::equal, 0x20008},
    {"personality", 0, Compare::equal, 0xffffffff},
    // All families but AF_ALG (38; the kernel's crypto code) and AF_VSOCK (40; not namespaced).
    {"socket", 0, Compare::less, 38},
    {"socket", 0, Compare::equal, 39},
    {"socket", 0, Compare::greater, 40},
};

constexpr const char* kAbsent[] = {"clone3"};

}  // namespace

std::span<const char* const> allowed_calls() { return kAllowed; }
std::span<const NumberedCall> allowed_new_calls() { return kAllowedNew; }
std::span<const ArgumentRule> argument_rules() { return kArgumentRules; }
std::span<const char* const> absent_calls() { return kAbsent; }

}  // namespace dsec::launcher
