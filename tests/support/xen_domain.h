/*
 * xen_domain: a handle on a domain of the pretended hypervisor, for the tests of one file: set `opts`, then open_it().
 */
#ifndef TESTS_SUPPORT_XEN_DOMAIN_H
#define TESTS_SUPPORT_XEN_DOMAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/xen.h>

#include "fakes/fake_xen.h"

#define GIB (UINT64_C(1) << 18)

static struct fake_xen fake;
static struct pagehint_xen *xen;
static struct pagehint_xen_opts opts;
static struct pagehint_xen_stats stats;

static inline int setup(void **state)
{
	(void)state;
	fake_xen_setup(&fake, 0, 1 << 19, 1 << 19);
	opts = (struct pagehint_xen_opts) { .struct_size = sizeof(opts), .domid = FAKE_DOMID };
	return 0;
}

static inline void open_it(void)
{
	assert_int_equal(pagehint_xen_new(&fake_xen_calls, &fake, &opts, &xen), 0);
	fake_xen_forget(&fake);
}

static inline int teardown(void **state)
{
	(void)state;
	int r = pagehint_xen_free(xen);
	xen = NULL;
	fake_xen_teardown(&fake);
	return r;
}

static inline void read_stats(void)
{
	stats.struct_size = sizeof(stats);
	assert_int_equal(pagehint_xen_stats(xen, &stats), 0);
}

static inline int populate(uint64_t frame, uint64_t frames, struct pagehint_outcome *out)
{
	const struct pagehint_run run = { frame, frames };
	return pagehint_xen_populate(xen, &run, 1, 0, out, NULL);
}

static inline int reclaim(uint64_t frame, uint64_t frames, struct pagehint_outcome *out)
{
	const struct pagehint_run run = { frame, frames };
	return pagehint_xen_reclaim(xen, &run, 1, out, NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
