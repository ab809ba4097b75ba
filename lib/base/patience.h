/*
 * patience: opening a file that may keep us waiting, with a deadline, without a thread and without a signal handler.
 *
 * The problem: some devices wait in open() for a daemon that may never come, whatever the flags. Nothing but a signal or
 * another thread ends that, and a library has neither. Why this shape: a child process, which shares nothing and is invisible
 * to the caller's wait(), tries first; who waits for it can stop waiting. If it could open the file, so can we. It is killed at the deadline.
 * Only for what is opened once and rarely: it copies the page tables of the process.
 * Part of sys: called through its table alone.
 */
#ifndef PH_BASE_PATIENCE_H
#define PH_BASE_PATIENCE_H

#include <stdint.h>

/* An open file, -ETIMEDOUT, or what open, clone3 or poll gave. */
int ph_sys_open_within(void *ctx, const char *path, int flags, int64_t timeout_ns);

#endif
