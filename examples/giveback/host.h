/*
 * host: what the host says that a backing costs, asked without the library.
 *
 *     anon, thp, file  Anonymous of the mapping in /proc/self/smaps (a file's clean pages are not ours)
 *     memfd            st_blocks of the file
 *     hugetlb          pages of the pool in use, less those in use before (/sys/kernel/mm/hugepages)
 */
#ifndef GIVEBACK_HOST_H
#define GIVEBACK_HOST_H

#include <stdint.h>

struct backing;

/* Bytes of memory behind the backing now. 0 or -errno. */
int host_bytes(const struct backing *backing, uint64_t *ret_bytes);

#endif
