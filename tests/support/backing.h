/*
 * backing: one kind of memory for tests on the real kernel: how to make it, and what the host holds for it, asked past the
 * library (smaps, st_blocks, HugePages_Free).
 */
#ifndef TESTS_SUPPORT_BACKING_H
#define TESTS_SUPPORT_BACKING_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>
#include <pagehint/map.h>

#include "base/sys.h"

#define UNITS 8u          /* a region has so many units */
#define FIRST_FRAME 4096u /* where it lies in the guest; both neighbours are no region */
#define USED 0xa5         /* what a guest wrote */
#define IN_FILE 0x3c      /* what the file behind a private mapping holds */

enum kind { NOTHING, ANON, LOCKED, THP, SHARED, SHARED_ANON, HUGETLB, FILE_PRIVATE, MEMFD_PRIVATE, KINDS };

struct subject {
	const char *name;
	enum kind kind;
	uint32_t host_page_shift;   /* 0 = the real one */
	uint32_t expected;          /* PAGEHINT_BACKING_* that the map must find */
	const struct ph_sys *sys;   /* NULL = the real one */
	struct pagehint_gate *gate; /* or NULL */
	/* while open */
	uint64_t unit; /* bytes */
	unsigned char *memory;
	int fd;
	uint64_t id;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
};

/* 1; 0 = this machine cannot (said on stdout). */
int subject_open(struct subject *s);
void subject_close(struct subject *s);

/* The memory alone, without a map and a backend. subject_cleanup undoes it. 1; 0 = this machine cannot (said on stdout). */
int subject_prepare(struct subject *s);

/* As the teardown of a case whose state is its subject: a case that failed gives back its memory and huge pages, too. */
int subject_cleanup(void **state);

/* Bytes that the host holds for the region. */
uint64_t host_holds(const struct subject *s);

/* A value of a line like "HugePages_Free:  12" of a file in /proc, or -1. */
int64_t proc_value(const char *path, const char *key);

#endif
