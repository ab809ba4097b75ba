/*
 * source: the inside of pagehint/source.h: an ops table and its ctx, and the two questions a pager asks.
 *
 * Owns: ctx, through ops.destroy. Called from: every room file that needs content.
 */
#ifndef PH_PAGER_SOURCE_H
#define PH_PAGER_SOURCE_H

#include <pagehint/source.h>

#include "base/sys.h"

struct pagehint_source {
	struct pagehint_source_ops ops;
	void *ctx;
};

/* pagehint_source_file_new with another operating system beneath (tests). */
int ph_source_file_new_with(int fd, uint64_t offset, uint64_t bytes, const struct ph_sys *sys,
			    struct pagehint_source **ret_source);

/*
 * How the range starts: *ret_bytes of zeros or of data, at least `page` of them when it answers 0. A source that cannot tell
 * has data all over.
 */
void ph_source_extent(const struct pagehint_source *source, uint64_t offset, uint64_t bytes, uint64_t page,
		      uint64_t *ret_bytes, uint32_t *ret_is_zero);

/* Asks, and checks the answer: 0 and fetch->done a multiple of `page`, -EINPROGRESS, or what went wrong. */
int ph_source_fetch(const struct pagehint_source *source, struct pagehint_fetch *fetch, uint64_t page);

#endif
