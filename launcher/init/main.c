/* SPDX-License-Identifier: Apache-2.0
 * dsec-init: process 1 of a sandbox. Starts the command, forwards signals to it, reaps orphans, and tells the monitor
 * how the command ended. Dies with the runtime and with the monitor. Static and small: it runs once per sandbox.
 *
 *   dsec-init pipe|tty COMMAND [ARGUMENT...]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol.h"

enum { kSeccompFilter = 2, kNotExecutable = 126, kNotFound = 127, kFailed = 125 };

/* A process killed for want of memory should be one of the sandbox's, not one of ours; raising needs no privilege. */
static const char kOomScore[] = "500";

extern char** environ;

static void report(enum dsec_init_event event, int value) {
  const struct dsec_init_report message = {(uint32_t)event, value};
  while (send(DSEC_INIT_SOCKET, &message, sizeof message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

static void give_up(int error) {
  report(DSEC_INIT_FAILED, error);
  _exit(kFailed);
}

/* execve along $PATH, as shells do: the first that can be executed; EACCES when one was found that cannot. A file that
 * is no program is not given to a shell. Returns errno. */
static int execute(char** argv) {
  const char* name = argv[0];
  const char* path = getenv("PATH");
  char file[PATH_MAX];
  int error = ENOENT;
  if (*name == '\0') return ENOENT;
  if (strchr(name, '/') != NULL) {
    execve(name, argv, environ);
    return errno;
  }
  if (path == NULL) return ENOENT;
  while (1) {
    const size_t length = strcspn(path, ":");
    const int size = snprintf(file, sizeof file, "%.*s%s%s", (int)length, path, length > 0 ? "/" : "", name);
    if (size > 0 && (size_t)size < sizeof file) {
      execve(file, argv, environ);
      if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return errno;
      struct stat found;
      if (errno == EACCES && stat(file, &found) == 0 && !S_ISDIR(found.st_mode)) error = EACCES;
    }
    if (path[length] == '\0') return error;
    path += length + 1;
  }
}

static void explain(const char* name, int error) {
  struct stat found;
  if (error == ENOENT && strchr(name, '/') == NULL) {
    dprintf(STDERR_FILENO, "dsec: %s: command not found in the sandbox's $PATH\n", name);
  } else if (error == ENOENT && lstat(name, &found) == 0) {
    dprintf(STDERR_FILENO, "dsec: %s: the file is there, but its interpreter or link target is not\n", name);
  } else if (error == EACCES && stat(name, &found) == 0 && S_ISDIR(found.st_mode)) {
    dprintf(STDERR_FILENO, "dsec: %s: is a directory\n", name);
  } else {
    dprintf(STDERR_FILENO, "dsec: %s: %s\n", name, strerror(error));
  }
}

/* In the child: everything as a shell would leave it to a command, then the command. `failed` gets errno. */
static void become_command(char** argv, int tty, int failed) {
  sigset_t none;
  int fd;
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
  if (tty) {
    /* The session and its terminal are process 1's, which the runtime made; the command is the foreground group. */
    setpgid(0, 0);
    tcsetpgrp(STDIN_FILENO, getpid()); /* SIGTTOU is blocked still */
  } else {
    /* A session of its own: no terminal is its controlling one, so reading from one is allowed. */
    setsid();
  }
  prctl(PR_SET_DUMPABLE, 1);
  fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, kOomScore, sizeof kOomScore - 1);
    close(fd);
  }
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  const int error = execute(argv);
  explain(argv[0], error);
  (void)!write(failed, &error, sizeof error);
  _exit(error == ENOENT ? kNotFound : kNotExecutable);
}

/* Starts the command; its pid, or does not return. */
static pid_t start(char** argv, int tty) {
  int ends[2];
  int error = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) give_up(errno);
  const pid_t child = fork();
  if (child < 0) give_up(errno);
  if (child == 0) become_command(argv, tty, ends[1]);
  close(ends[1]);
  ssize_t got;
  while ((got = read(ends[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  close(ends[0]);
  if (got == (ssize_t)sizeof error) {
    report(DSEC_INIT_NOT_EXECUTED, error);
    waitpid(child, NULL, 0);
    _exit(error == ENOENT ? kNotFound : kNotExecutable);
  }
  report(DSEC_INIT_STARTED, 0);
  return child;
}

static void forward(pid_t child, int signal_number) {
  if (kill(-child, signal_number) != 0) kill(child, signal_number);
}

/* Reaps whoever has ended; does not return when the command has. */
static void reap(pid_t child) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != child) continue;
    if (WIFSIGNALED(status)) {
      report(DSEC_INIT_SIGNALED, WTERMSIG(status));
      _exit(128 + WTERMSIG(status));
    }
    report(DSEC_INIT_EXITED, WEXITSTATUS(status));
    _exit(WEXITSTATUS(status));
  }
}

static void on_signal(int signals, pid_t child) {
  struct signalfd_siginfo info;
  if (read(signals, &info, sizeof info) != (ssize_t)sizeof info) return;
  switch (info.ssi_signo) {
    case SIGCHLD: reap(child); break;
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
    case SIGCONT: forward(child, (int)info.ssi_signo); break;
    default: break;
  }
}

static void on_order(pid_t child) {
  struct dsec_init_order order;
  const ssize_t got = recv(DSEC_INIT_SOCKET, &order, sizeof order, 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) _exit(128 + SIGKILL); /* the monitor is dead; the kernel kills the rest of the sandbox with us */
  if (got != (ssize_t)sizeof order) return;
  if (order.signal == SIGWINCH && order.rows > 0) {
    const struct winsize size = {.ws_row = order.rows, .ws_col = order.columns};
    if (ioctl(STDIN_FILENO, TIOCSWINSZ, &size) == 0) return;
  }
  forward(child, order.signal);
}

int main(int argc, char** argv) {
  sigset_t all;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the runtime */
  prctl(PR_SET_DUMPABLE, 0);        /* nobody inside may look into us or take our socket */
  fcntl(DSEC_INIT_SOCKET, F_SETFD, FD_CLOEXEC);
  if (argc < 3) give_up(EINVAL);
  if (prctl(PR_GET_SECCOMP) != kSeccompFilter) {
    report(DSEC_INIT_UNCONFINED, 0);
    return kFailed;
  }
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  const int signals = signalfd(-1, &all, SFD_CLOEXEC);
  if (signals < 0) give_up(errno);
  const pid_t child = start(argv + 2, strcmp(argv[1], "tty") == 0);
  struct pollfd watched[] = {{signals, POLLIN, 0}, {DSEC_INIT_SOCKET, POLLIN, 0}};
  while (1) {
    if (poll(watched, 2, -1) < 0) continue;
    if (watched[0].revents != 0) on_signal(signals, child);
    if (watched[1].revents != 0) on_order(child);
  }
}
