/* SPDX-License-Identifier: Apache-2.0
 * What dsec-init (process 1 of a sandbox) and dsec-monitor tell each other, over a SOCK_SEQPACKET socket that is
 * descriptor DSEC_INIT_SOCKET of dsec-init and never reaches the command. C, because dsec-init is.
 */
#pragma once

#include <stdint.h>

#define DSEC_INIT_SOCKET 3

/* init -> monitor. Exactly one of the last four ends the conversation. */
enum dsec_init_event {
  DSEC_INIT_STARTED = 1,      /* the command was executed */
  DSEC_INIT_EXITED = 2,       /* value: its exit code */
  DSEC_INIT_SIGNALED = 3,     /* value: the signal that killed it */
  DSEC_INIT_NOT_EXECUTED = 4, /* value: errno of execve(2); ENOENT when it is nowhere in $PATH */
  DSEC_INIT_FAILED = 5,       /* value: errno; process 1 could not do its work */
  DSEC_INIT_UNCONFINED = 6    /* the runtime did not install the seccomp filter; nothing was executed */
};

struct dsec_init_report {
  uint32_t event;
  int32_t value;
};

/* monitor -> init: a signal for the command's process group. With a terminal SIGWINCH carries its new size, and the
 * kernel sends the signal when that is set. End of file: the monitor is dead, so die. */
struct dsec_init_order {
  int32_t signal;
  uint16_t rows;
  uint16_t columns;
};
