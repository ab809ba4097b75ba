/*
 * snapshot: the file side of the bench: a sparse file, the first access to memory that is restored from it, and the size of one
 * that is written from what a pager knows.
 */
#ifndef BENCH_RESTORE_SNAPSHOT_H
#define BENCH_RESTORE_SNAPSHOT_H

#include <stdint.h>

#define PAGE ((uint64_t)4096)

int snapshot_temporary(void);                         /* an empty file without a name, on a disk; -1 */
unsigned char *snapshot_room(uint64_t bytes, int fd); /* private, or shared with fd >= 0; aligned to 2 MiB; NULL */
int snapshot_read(int fd, unsigned char *to, uint64_t bytes);

/* From opening a sparse file of 4 GiB to the content of a page of it, in a new process. */
int snapshot_first_access(double *ret_ms);

/* Blocks of a snapshot over bytes of memory that is in use: 1 GiB, of which some was never touched, and some was given back. */
int snapshot_size(double *ret_blocks_over_used);

#endif
