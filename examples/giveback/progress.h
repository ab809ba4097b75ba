/*
 * progress: says on stderr how far a long part has come: one line that moves on a terminal; in a file or a pipe, a plain line
 * when the part begins and another when it ends.
 */
#ifndef GIVEBACK_PROGRESS_H
#define GIVEBACK_PROGRESS_H

#include <stdint.h>

/* A part's first and last line, where stderr is no terminal. */
void progress_begin(const char *what);
void progress_end(const char *what, const char *how);

/* The moving line, where it is one. */
void progress(const char *what, uint64_t done, uint64_t all);

/* Wipes the line. */
void progress_done(void);

#endif
