/*
 * The host of a shared zone: what it takes, discards, keeps and gives back, and what the guest sees of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/cache.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/origin.h>

#include "support/shared_zone.h"

struct rig {
	struct shared_zone s;
	struct pagehint_zone *zone; /* the host's own handle */
	struct shared_sink sink;
	struct pagehint_backend *backend;
	struct pagehint_reclaimer *r;
};

static struct rig make(uint64_t sections, uint32_t granule_order)
{
	struct rig rig = { .sink.frames = sections * SHARED_SECTION };
	assert_int_equal(shared_zone_make(&rig.s, sections, 0, granule_order), 0);
	assert_int_equal(pagehint_zone_attach(rig.s.fd, 0, &rig.s.opts, 0, &rig.zone), 0);
	return rig;
}

static void start(struct rig *rig, const struct pagehint_reclaimer_opts *opts)
{
	assert_int_equal(shared_backend(&rig->sink, &rig->backend), 0);
	assert_int_equal(pagehint_reclaimer_new(rig->zone, rig->backend, opts, &rig->r), 0);
}

static void end(struct rig *rig)
{
	assert_int_equal(pagehint_zone_check(rig->s.zone, NULL), 0);
	pagehint_reclaimer_free(rig->r);
	assert_int_equal(pagehint_backend_free(rig->backend), 0);
	pagehint_zone_detach(rig->zone);
	shared_zone_close(&rig->s);
}

static struct pagehint_zone_stats stats_of(const struct rig *rig)
{
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	assert_int_equal(pagehint_zone_stats(rig->s.zone, &s), 0);
	return s;
}

static struct pagehint_reclaimer_stats host_stats(const struct rig *rig)
{
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	assert_int_equal(pagehint_reclaimer_stats(rig->r, &s), 0);
	return s;
}

/* allocates all of it in blocks of an order and frees it again: everything was used */
static void use_all(struct rig *rig, uint32_t order)
{
	static uint64_t blocks[4 * 512];
	uint32_t n = 0;
	while (n < 4 * 512 && pagehint_zone_alloc(rig->s.zone, order, &blocks[n]) == 0)
		n++;
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(pagehint_zone_free(rig->s.zone, blocks[i], order), 0);
}

static void untouched_memory_is_held_without_a_discard(void **state)
{
	(void)state;
	struct rig rig = make(2, 0);
	uint64_t got, frame;
	start(&rig, NULL);
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, 0);
	assert_int_equal(pagehint_reclaimer_hold(rig.r, 1536 * SHARED_MB, &got), 0);
	assert_int_equal(got, 1536 * SHARED_MB);
	assert_int_equal(rig.sink.runs, 0);
	assert_int_equal(stats_of(&rig).isolated, got >> 12);
	assert_int_equal(stats_of(&rig).free, 512 * SHARED_MB >> 12);
	assert_int_equal(pagehint_zone_check(rig.s.zone, NULL), 0);
	assert_int_equal(host_stats(&rig).untouched, got);
	/* what is held is neither to be had nor hidden: the guest is told that there is no more */
	while (pagehint_zone_alloc(rig.s.zone, 9, &frame) == 0)
		;
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 0, &frame), -ENOSPC);
	assert_int_equal(pagehint_reclaimer_hold(rig.r, 2 * SHARED_MB, &got), -ENOSPC);
	assert_int_equal(pagehint_reclaimer_give_back(rig.r, 2 * SHARED_MB, &got), 0);
	assert_int_equal(got, 2 * SHARED_MB);
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 9, &frame), 0);
	assert_int_equal(pagehint_reclaimer_give_back(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(stats_of(&rig).isolated, 0);
	end(&rig);
}

static void used_memory_is_discarded_once_and_stays_the_guests(void **state)
{
	(void)state;
	struct rig rig = make(2, 0);
	uint64_t got, frame;
	start(&rig, NULL);
	use_all(&rig, 9);
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, 100 * SHARED_MB, &got), 0);
	assert_int_equal(got, 100 * SHARED_MB);
	assert_int_equal(rig.sink.asked << 12, got);
	assert_int_equal(rig.sink.runs, 2); /* at most 64 MiB away at once, each one run */
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, 1948 * SHARED_MB);
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, 0);
	assert_int_equal(stats_of(&rig).free, 2 * SHARED_SECTION);
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 18, &frame), 0); /* it merged again */
	assert_int_equal(pagehint_zone_free(rig.s.zone, frame, 18), 0);
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 0, &frame), 0);
	assert_int_equal(pagehint_zone_free(rig.s.zone, frame, 0), 0);
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, 1024 * SHARED_MB); /* the section that was out as one block, that frame's granule in it */
	end(&rig);
}

static void only_whole_granules_go(void **state)
{
	(void)state;
	struct rig rig = make(1, 0);
	static uint64_t frame[SHARED_SECTION];
	uint64_t got, kept = 0;
	uint32_t n;
	start(&rig, NULL);
	assert_int_equal(pagehint_zone_alloc_batch(rig.s.zone, 0, (uint32_t)SHARED_SECTION, frame, &n), 0);
	for (uint32_t i = 0; i < n; i++)
		if (frame[i] % (3 * SHARED_GRANULE) != 0)
			assert_int_equal(pagehint_zone_free(rig.s.zone, frame[i], 0), 0);
		else
			kept++;
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, (512 - kept) * 2 * SHARED_MB);
	assert_int_equal(pagehint_zone_check(rig.s.zone, NULL), 0);
	assert_int_equal(pagehint_reclaimer_hold(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, (512 - kept) * 2 * SHARED_MB);
	assert_int_equal(pagehint_zone_check(rig.s.zone, NULL), 0);
	assert_int_equal(stats_of(&rig).out, kept);
	assert_int_equal(pagehint_reclaimer_give_back(rig.r, UINT64_MAX, &got), -ENOSPC);
	for (uint32_t i = 0; i < n; i++)
		if (frame[i] % (3 * SHARED_GRANULE) == 0)
			assert_int_equal(pagehint_zone_free(rig.s.zone, frame[i], 0), 0);
	uint64_t block;
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 18, &block), 0);
	end(&rig);
}

static void every_granule_order_works(void **state)
{
	(void)state;
	static const uint32_t orders[] = { 1, 3, 5, 6, 8, 9, 10, 12, 13, 17, 18 };
	for (uint32_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct rig rig = make(2, orders[i]);
		uint64_t got, size = UINT64_C(4096) << orders[i], frame[3];
		start(&rig, NULL);
		for (uint32_t k = 0; k < 3; k++)
			assert_int_equal(pagehint_zone_alloc(rig.s.zone, orders[i] < 18 ? orders[i] : 17, &frame[k]),
					 0);
		assert_int_equal(pagehint_zone_free(rig.s.zone, frame[1], orders[i] < 18 ? orders[i] : 17), 0);
		assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
		if (orders[i] < 18)
			assert_int_equal(got, size);
		assert_int_equal(pagehint_zone_check(rig.s.zone, NULL), 0);
		assert_int_equal(pagehint_reclaimer_hold(rig.r, size / 2, &got), 0);
		assert_int_equal(got, 0);
		int all = pagehint_reclaimer_hold(rig.r, UINT64_MAX, &got);
		assert_int_equal(all, -ENOSPC);
		assert_int_equal(pagehint_zone_check(rig.s.zone, NULL), 0);
		assert_int_equal(stats_of(&rig).isolated << 12, got);
		if (orders[i] < 18)
			assert_int_equal(stats_of(&rig).free, 0);
		assert_int_equal(pagehint_reclaimer_give_back(rig.r, got, &got), 0);
		end(&rig);
	}
}

static void what_the_backend_keeps_is_tried_again(void **state)
{
	(void)state;
	struct rig rig = make(1, 0);
	struct pagehint_reclaimer_opts opts = { .struct_size = sizeof(opts), .max_away_bytes = 2 * SHARED_MB };
	uint64_t got;
	start(&rig, &opts);
	use_all(&rig, 9);
	rig.sink.fail_next = 3;
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, 1018 * SHARED_MB);
	assert_int_equal(host_stats(&rig).kept, 6 * SHARED_MB);
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, 6 * SHARED_MB);
	end(&rig);
}

static void collect(void *ctx, const char *text)
{
	char *said = ctx;
	strncat(said, text, 1023 - strlen(said));
	strncat(said, "\n", 1023 - strlen(said));
}

/* What is held, and each thing that stands in the way of more; nothing of what does not. */
static void explain_says_why_no_more_comes_back(void **state)
{
	(void)state;
	struct rig rig = make(1, 0);
	struct pagehint_reclaimer_opts opts = { .struct_size = sizeof(opts), .max_away_bytes = 2 * SHARED_MB };
	char said[1024] = "";
	const struct pagehint_sink sink = { said, collect }, deaf = { said, NULL };
	uint64_t next, got;
	start(&rig, &opts);
	pagehint_reclaimer_explain(rig.r, NULL);
	pagehint_reclaimer_explain(rig.r, &deaf);
	assert_string_equal(said, "");
	pagehint_reclaimer_explain(rig.r, &sink);
	assert_memory_equal(said, "reclaimer: held out of the guest's reach: 0 bytes\n", 49);
	assert_null(strstr(said + 1, "reclaimer:"));

	use_all(&rig, 9);
	rig.sink.fail_next = 1;
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	pagehint_reclaimer_set_target(rig.r, 1025 * SHARED_MB);
	for (uint64_t now = 1; host_stats(&rig).held < 1024 * SHARED_MB && now < 1000; now++)
		assert_int_equal(pagehint_reclaimer_step(rig.r, now * UINT64_C(1000000000), &next), 0);
	said[0] = 0;
	pagehint_reclaimer_explain(rig.r, &sink);
	assert_non_null(strstr(said, "reclaimer: held out of the guest's reach: 1073741824 bytes\n"));
	assert_non_null(strstr(said, "reclaimer: short of the target, for no more is wholly free: 1048576 bytes\n"));
	assert_non_null(strstr(said, "reclaimer: discarded, but kept by the backend: 2097152 bytes\n"));
	assert_null(strstr(said, "dead host"));
	assert_null(strstr(said, "cannot be"));
	end(&rig);
}

static void step_reclaims_what_has_aged_and_goes_to_the_target(void **state)
{
	(void)state;
	struct rig rig = make(2, 0);
	struct pagehint_reclaimer_opts opts = { .struct_size = sizeof(opts),
						.interval_ns = 100,
						.max_away_bytes = 4096 * SHARED_MB };
	uint64_t next, frame[2];
	start(&rig, &opts);
	use_all(&rig, 9);
	assert_int_equal(pagehint_reclaimer_step(rig.r, 1000, &next), 0);
	assert_int_equal(next, 1100);
	assert_int_equal(rig.sink.asked, 0);
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 9, &frame[0]), 0); /* young again */
	assert_int_equal(pagehint_zone_free(rig.s.zone, frame[0], 9), 0);
	assert_int_equal(pagehint_reclaimer_step(rig.r, 1050, &next), 0);
	assert_int_equal(rig.sink.asked, 0);
	while (pagehint_reclaimer_step(rig.r, 1100, &next) == 0 && next == 1100)
		;
	assert_int_equal(rig.sink.asked, 2 * SHARED_SECTION - SHARED_GRANULE);
	while (pagehint_reclaimer_step(rig.r, next, &next) == 0 && rig.sink.asked != 2 * SHARED_SECTION)
		assert_true(next < 2000);
	pagehint_reclaimer_set_target(rig.r, 300 * SHARED_MB);
	assert_int_equal(pagehint_reclaimer_step(rig.r, 2000, &next), 0);
	assert_int_equal(host_stats(&rig).held, 300 * SHARED_MB);
	pagehint_reclaimer_set_target(rig.r, 10 * SHARED_MB);
	assert_int_equal(pagehint_reclaimer_step(rig.r, 2001, &next), 0);
	assert_int_equal(host_stats(&rig).held, 10 * SHARED_MB);
	end(&rig);
}

static void the_next_host_takes_over(void **state)
{
	(void)state;
	struct rig rig = make(2, 0);
	uint64_t got;
	start(&rig, NULL);
	use_all(&rig, 9);
	assert_int_equal(pagehint_reclaimer_hold(rig.r, 700 * SHARED_MB, &got), 0);
	pagehint_reclaimer_free(rig.r);
	assert_int_equal(pagehint_reclaimer_new(rig.zone, rig.backend, NULL, &rig.r), 0);
	assert_int_equal(host_stats(&rig).held, 700 * SHARED_MB);
	assert_int_equal(rig.sink.asked, 700 * SHARED_MB >> 12); /* once: nothing of it is used */
	assert_int_equal(pagehint_zone_check(rig.s.zone, NULL), 0);
	assert_int_equal(pagehint_reclaimer_give_back(rig.r, 700 * SHARED_MB, &got), 0);
	assert_int_equal(stats_of(&rig).free, 2 * SHARED_SECTION);
	end(&rig);
}

static int counting_install(void *ctx, const struct pagehint_run *run)
{
	uint64_t *n = ctx;
	assert_int_equal(run->frames, SHARED_GRANULE);
	n[0]++;
	return n[1] != 0 ? -ENOMEM : 0;
}

static void an_evicted_granule_is_installed_once(void **state)
{
	(void)state;
	struct rig rig = make(1, 0);
	uint64_t got, frame, n[2] = { 0, 0 };
	start(&rig, NULL);
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 10, &frame), 0);
	assert_int_equal(pagehint_zone_install(rig.s.zone, frame, 1024, counting_install, n), 0);
	assert_int_equal(n[0], 0);
	assert_int_equal(pagehint_zone_free(rig.s.zone, frame, 10), 0);
	assert_int_equal(pagehint_reclaimer_reclaim(rig.r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, 4 * SHARED_MB);
	assert_int_equal(pagehint_zone_alloc(rig.s.zone, 10, &frame), 0);
	n[1] = 1;
	assert_int_equal(pagehint_zone_install(rig.s.zone, frame, 1024, counting_install, n), -ENOMEM);
	n[1] = 0;
	assert_int_equal(pagehint_zone_install(rig.s.zone, frame, 1, counting_install, n), 0);
	assert_int_equal(n[0], 2);
	assert_int_equal(pagehint_zone_install(rig.s.zone, frame, 1024, counting_install, n), 0);
	assert_int_equal(n[0], 3);
	assert_int_equal(pagehint_zone_install(rig.s.zone, frame, 1024, counting_install, n), 0);
	assert_int_equal(n[0], 3);
	assert_int_equal(pagehint_zone_install(rig.s.zone, frame, 0, counting_install, n), -EINVAL);
	assert_int_equal(pagehint_zone_install(rig.s.zone, SHARED_SECTION, 1, counting_install, n), -ERANGE);
	end(&rig);
}

static void attaching_checks_what_it_finds(void **state)
{
	(void)state;
	struct shared_zone s;
	struct pagehint_zone *z;
	assert_int_equal(shared_zone_make(&s, 1, 0, 0), 0);
	struct pagehint_zone_opts other = s.opts;
	other.granule_order = 10;
	assert_int_equal(pagehint_zone_attach(s.fd, 0, &other, 1, &z), -EINVAL);
	other = s.opts;
	other.flags = 0;
	assert_int_equal(pagehint_zone_attach(s.fd, 0, &other, 1, &z), -EINVAL);
	other = s.opts;
	other.max_sections = 4;
	other.span_sections = 4;
	assert_int_equal(pagehint_zone_attach(s.fd, 0, &other, 1, &z), -ERANGE);
	assert_int_equal(pagehint_zone_attach(s.fd, 4096, &s.opts, 1, &z), -EINVAL);
	assert_int_equal(pagehint_zone_attach(s.fd, UINT64_C(1) << 40, &s.opts, 1, &z), -ERANGE);
	assert_int_equal(pagehint_zone_attach(-1, 0, &s.opts, 1, &z), -EBADF);
	assert_int_equal(pagehint_zone_attach(s.fd, 0, NULL, 1, &z), -EINVAL);
	for (uint32_t bad = 1; bad <= 16; bad *= 2) {
		uint64_t bytes;
		other = s.opts;
		other.flags = PAGEHINT_ZONE_SHARED | bad;
		int allowed = bad == PAGEHINT_ZONE_STRICT || bad == PAGEHINT_ZONE_STALE;
		assert_int_equal(pagehint_zone_size(&other, &bytes), allowed ? 0 : -EINVAL);
	}
	struct pagehint_origin *origin;
	assert_int_equal(pagehint_zone_origin_new(s.zone, &origin), -EBUSY);
	/* what another writes over the header of the file changes nothing for who is attached */
	unsigned char *head = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	memset(head, 0xff, 65536);
	munmap(head, 65536);
	uint64_t frame;
	assert_int_equal(pagehint_zone_alloc(s.zone, 18, &frame), 0);
	assert_int_equal(pagehint_zone_check(s.zone, NULL), 0);
	assert_int_equal(pagehint_zone_attach(s.fd, 0, &s.opts, 1, &z), -EINVAL);
	shared_zone_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(untouched_memory_is_held_without_a_discard),
		cmocka_unit_test(used_memory_is_discarded_once_and_stays_the_guests),
		cmocka_unit_test(only_whole_granules_go),
		cmocka_unit_test(every_granule_order_works),
		cmocka_unit_test(what_the_backend_keeps_is_tried_again),
		cmocka_unit_test(explain_says_why_no_more_comes_back),
		cmocka_unit_test(step_reclaims_what_has_aged_and_goes_to_the_target),
		cmocka_unit_test(the_next_host_takes_over),
		cmocka_unit_test(an_evicted_granule_is_installed_once),
		cmocka_unit_test(attaching_checks_what_it_finds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
