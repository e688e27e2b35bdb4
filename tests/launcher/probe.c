/* SPDX-License-Identifier: Apache-2.0
 * Runs inside a sandbox and does what no shell can.
 *   probe denied             tries system calls that must fail; prints "NAME ERRNO" for each
 *   probe allowed            the same with some that must not fail with EPERM or ENOSYS
 *   probe open-device T M m  makes a node (T is c or b) and opens it; prints the errno of each step
 *   probe zombies N          leaves N orphans that end at once, waits, prints how many processes there are
 *   probe forks N            forks N children that wait; prints how many could be made
 *   probe touch BYTES        allocates and writes memory
 *   probe ptrace-init        tries to get hold of process 1
 *   probe environ            prints NAME=VALUE lines as they came
 *   probe winsize            prints the size of the terminal on each SIGWINCH, once at the start; ends on SIGTERM
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static void tell(const char* name, long result) { printf("%s %d\n", name, result < 0 ? errno : 0); }

static int denied(void) {
  tell("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
  tell("umount2", umount2("/proc", MNT_DETACH));
  tell("unshare", unshare(CLONE_NEWNS));
  tell("unshare-user", unshare(CLONE_NEWUSER));
  tell("setns", setns(0, 0));
  tell("clone-newuser", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  tell("clone3", syscall(SYS_clone3, NULL, 0));
  tell("bpf", syscall(SYS_bpf, 0, NULL, 0));
  tell("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0));
  tell("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
  tell("init_module", syscall(SYS_init_module, NULL, 0, ""));
  tell("open_by_handle_at", syscall(SYS_open_by_handle_at, 0, NULL, 0));
  tell("io_uring_setup", syscall(SYS_io_uring_setup, 1, NULL));
  tell("userfaultfd", syscall(SYS_userfaultfd, 0));
  tell("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0));
  tell("add_key", syscall(SYS_add_key, NULL, NULL, NULL, 0, 0));
  tell("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
  tell("swapon", syscall(SYS_swapon, "/x", 0));
  tell("settimeofday", syscall(SYS_settimeofday, NULL, NULL));
  tell("move_pages", syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0));
  tell("personality", syscall(SYS_personality, 0x0040000));
  tell("socket-alg", socket(38, SOCK_SEQPACKET, 0));
  tell("socket-vsock", socket(40, SOCK_STREAM, 0));
  tell("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
  tell("unknown", syscall(500));
  return 0;
}

static int allowed(void) {
  tell("socket", socket(AF_INET, SOCK_STREAM, 0));
  tell("socket-unix", socket(AF_UNIX, SOCK_STREAM, 0));
  tell("chroot", chroot("/"));
  tell("personality", syscall(SYS_personality, 0xffffffff));
  tell("openat2", syscall(SYS_openat2, AT_FDCWD, "/", &(unsigned long long[3]){0, 0, 0}, 24));
  tell("memfd_create", syscall(SYS_memfd_create, "x", 0));
  tell("chown", chown("/tmp", 0, 0));
  tell("seccomp", prctl(PR_GET_SECCOMP) == 2 ? 0 : -1);
  return 0;
}

static int open_device(char** argv) {
  const mode_t type = argv[0][0] == 'b' ? S_IFBLK : S_IFCHR;
  const char* path = "/tmp/node";
  unlink(path);
  tell("mknod", mknod(path, type | 0666, makedev(atoi(argv[1]), atoi(argv[2]))));
  tell("open", open(path, O_RDONLY));
  /* /dev is a tmpfs that was mounted without nodev: here only the device policy is in the way. */
  path = "/dev/node";
  unlink(path);
  tell("mknod-dev", mknod(path, type | 0666, makedev(atoi(argv[1]), atoi(argv[2]))));
  tell("open-dev", open(path, O_RDONLY));
  return 0;
}

static int count_processes(void) {
  int count = 0;
  DIR* proc = opendir("/proc");
  struct dirent* entry;
  while (proc != NULL && (entry = readdir(proc)) != NULL) count += entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
  if (proc != NULL) closedir(proc);
  return count;
}

static int zombies(int wanted) {
  for (int i = 0; i < wanted; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (fork() == 0) {
        usleep(20000);
        _exit(0);
      }
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
  int left = 0;
  for (int tries = 0; tries < 500; ++tries) {
    left = count_processes();
    if (left <= 2) break;
    usleep(10000);
  }
  printf("%d\n", left);
  return 0;
}

static int forks(int wanted) {
  int made = 0;
  while (made < wanted) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      pause();
      _exit(0);
    }
    ++made;
  }
  printf("%d %d\n", made, made < wanted ? errno : 0);
  return 0;
}

static int touch(unsigned long long bytes) {
  volatile char* memory = malloc(bytes); /* or the compiler leaves the writes out */
  for (unsigned long long i = 0; memory != NULL && i < bytes; i += 4096) memory[i] = 1;
  puts(memory != NULL ? "done" : "no memory");
  return 0;
}

static int ptrace_init(void) {
  tell("ptrace", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
  char link[100];
  tell("fd-link", readlink("/proc/1/fd/3", link, sizeof link));
  tell("fd-open", open("/proc/1/fd/3", O_RDWR));
  tell("mem", open("/proc/1/mem", O_RDWR));
  tell("exe", open("/proc/1/exe", O_RDWR));
  tell("init-file", open("/dev/.dsec-init", O_RDWR));
  return 0;
}

static volatile sig_atomic_t ending;
static void on_term(int number) { ending = number; }
static void on_winch(int number) { (void)number; }

static int winsize(void) {
  struct sigaction action = {.sa_handler = on_winch};
  struct winsize size;
  sigaction(SIGWINCH, &action, NULL);
  action.sa_handler = on_term;
  sigaction(SIGTERM, &action, NULL);
  // Blocked but for sigsuspend(): a signal between printing and waiting must not be lost.
  sigset_t both;
  sigset_t before;
  sigemptyset(&both);
  sigaddset(&both, SIGWINCH);
  sigaddset(&both, SIGTERM);
  sigprocmask(SIG_BLOCK, &both, &before);
  while (!ending) {
    if (ioctl(0, TIOCGWINSZ, &size) == 0) printf("%dx%d\n", size.ws_row, size.ws_col);
    fflush(stdout);
    sigsuspend(&before);
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "denied") == 0) return denied();
  if (strcmp(what, "allowed") == 0) return allowed();
  if (strcmp(what, "open-device") == 0 && argc == 5) return open_device(argv + 2);
  if (strcmp(what, "zombies") == 0 && argc == 3) return zombies(atoi(argv[2]));
  if (strcmp(what, "forks") == 0 && argc == 3) return forks(atoi(argv[2]));
  if (strcmp(what, "touch") == 0 && argc == 3) return touch(strtoull(argv[2], NULL, 10));
  if (strcmp(what, "ptrace-init") == 0) return ptrace_init();
  if (strcmp(what, "winsize") == 0) return winsize();
  if (strcmp(what, "environ") == 0) {
    for (char** entry = environ; *entry != NULL; ++entry) puts(*entry);
    return 0;
  }
  fprintf(stderr, "probe: what?\n");
  return 2;
}
