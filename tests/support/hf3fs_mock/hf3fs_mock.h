// SPDX-License-Identifier: Apache-2.0
// How a test steers the stand-in for 3FS's library: a shared object with the functions of io/hf3fs_api.h over a plain
// directory, with worker threads, faults on demand, and a watch on whether its caller keeps the library's rules.
//
// Found by name in the shared object (dlsym). A process that cannot call them uses the environment, read when the
// object is loaded: HF3FS_MOCK_ROOT (see hf3fs_mock_root), HF3FS_MOCK="NAME=VALUE,..." (hf3fs_mock_set),
// HF3FS_MOCK_ABORT=1 (the first breach of a rule ends the process with its text on stderr), HF3FS_MOCK_REPORT=FILE (all
// counts, one "NAME VALUE" a line, are written there twice a second and at exit).
#pragma once

extern "C" {

// The directory that is "the mount": what lies below it is "on 3FS". "" (the default) is nothing.
void hf3fs_mock_root(const char* path);

// Settings; all start at 0 unless another default is given. Where "every" is in a name, each so-many-th request is hit.
//   error_every, error_errno (EIO)   the request ends with -errno
//   short_every                      brings half of what there is
//   over_every                       says it brought one byte more than asked for
//   never_every                      never ends
//   stray_every                      an answer to a request that nobody made comes as well
//   delay_us                         how long each request takes
//   hold                             no request ends while this is not 0
//   early (1)                        requests may run before they are submitted, by chance
//   reorder (1)                      requests end in any order
//   workers (2)                      threads of each ring that is made from then on
//   seed (1)                         of what is left to chance
//   prep_errno, submit_errno, wait_errno, reg_errno, iorcreate_errno, iovcreate_errno
//                                    the function fails with that while it is not 0
void hf3fs_mock_set(const char* name, long value);

// Counts since the last reset: preps, submits, waits, reaped, early (ran before it was submitted), regs, deregs, rings,
// iovs, ended_in_flight (requests that were in flight when their ring ended), breaches; and what is there now:
// open_rings, open_iovs, open_fds, in_flight.
long hf3fs_mock_count(const char* name);

// The first breach of a rule since the last reset, or "". The rules: one thread prepares and submits, one waits; a
// request lies in its memory and in one block; its memory is no other's that is in flight; its descriptor is
// registered, still open, and not deregistered before the request was reaped; memory outlives its requests; depths
// above 0 and reads that would give zeros for holes are not used at all.
const char* hf3fs_mock_breach();

// Settings and counts as at first. What is open stays.
void hf3fs_mock_reset();
}
