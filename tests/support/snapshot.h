/*
 * snapshot: 64 pages that every word says the place of, and a region which a pager fills from them.
 */
#ifndef TESTS_SUPPORT_SNAPSHOT_H
#define TESTS_SUPPORT_SNAPSHOT_H

#include "support/served.h"

#define PAGES 64u
#define BYTES (PAGES * PAGE)

static unsigned char *snapshot;

static inline int snapshot_setup(void **state)
{
	(void)state;
	snapshot = snapshot_new(PAGES);
	return 0;
}

static inline struct pagehint_source *serve(struct served *s, uint32_t backing, struct pagehint_pager_opts *opts,
					    uint32_t flags)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	served_memory(s, BYTES, backing);
	served_pager(s, opts);
	struct pagehint_pager_region r = served_region(s, source, flags);
	assert_int_equal(pagehint_pager_add(s->pager, &r), 0);
	return source;
}

static inline void close_all(struct served *s, struct pagehint_source *source)
{
	served_close(s);
	pagehint_source_free(source);
}

#endif
