/*
 * attach: a zone in another process's memory; the inside of pagehint/shared.h.
 *
 * The shared pages are mapped, and pages of this process laid over all that comes before the live words (zone.h): there stands the
 * header that the caller's own options give. Called from: init only.
 */
#ifndef PH_ALLOC_ATTACH_H
#define PH_ALLOC_ATTACH_H

#include <pagehint/shared.h>

#include "base/sys.h"

/* pagehint_zone_attach with another operating system beneath */
int ph_zone_attach_with(const struct ph_sys *sys, int fd, uint64_t offset, const struct pagehint_zone_opts *opts,
			uint32_t owner, struct pagehint_zone **ret_zone);

#endif
