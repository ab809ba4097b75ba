/*
 * progress: one line on the terminal that says how far a long part has come; nothing when nobody looks.
 */
#ifndef GIVEBACK_PROGRESS_H
#define GIVEBACK_PROGRESS_H

#include <stdint.h>

void progress(const char *what, uint64_t done, uint64_t all);

/* Wipes the line. */
void progress_done(void);

#endif
