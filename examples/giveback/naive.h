/*
 * naive: what a plain MADV_DONTNEED per block would have done with the same runs.
 *
 * Every run that was given back is kept here together with the pages in it that somebody had written. Afterwards they are
 * played again on the same kind of memory: the pages are written, each run is given back by madvise(MADV_DONTNEED), a call a
 * block of 2 MiB (or what the run has of it), the host is asked what that freed, and every page that was written is read:
 * one that is not zero is wrong, be it old data or what a file holds.
 * Runs are played in rounds in which no frame occurs twice, each from a fresh backing.
 */
#ifndef GIVEBACK_NAIVE_H
#define GIVEBACK_NAIVE_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/run.h>

struct backing;
struct content;
struct why;

struct naive_item {
	struct pagehint_run run;
	size_t first; /* in written */
	size_t n;
};

struct naive {
	struct naive_item *items;
	size_t n;
	size_t room;
	struct pagehint_run *written;
	size_t n_written;
	size_t room_written;
	int is_short; /* memory ran out while recording */
};

struct naive_result {
	uint64_t calls;
	uint64_t refused; /* calls that gave an error */
	uint64_t asked_bytes;
	uint64_t host_freed_bytes;
	uint64_t wrong_pages;
	uint64_t ns; /* in the calls */
};

/* Before content_discard, which forgets what was written. */
void naive_record(struct naive *naive, const struct content *content, const struct pagehint_run *run);

/* The backing is reset before and after. 0 or -errno with *why. */
int naive_play(const struct naive *naive, struct backing *backing, struct naive_result *result, struct why *why);

void naive_close(struct naive *naive);

#endif
