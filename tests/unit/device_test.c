/* The device's life: options, features, status, reset, rings that cannot be, who may call what when, and what it explains. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "fakes/guest.h"

#define F GUEST_FREE
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })

static int try_new(struct guest *g, const struct pagehint_device_opts *opts)
{
	struct pagehint_device *device = (void *)g;
	int r = pagehint_device_new(g->map, g->backend, g->gate, opts, &device);
	if (r == 0)
		assert_int_equal(pagehint_device_free(device), 0);
	else
		assert_ptr_equal(device, g); /* untouched */
	return r;
}

static void options_out_of_bounds_are_refused(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs) };
	struct pagehint_device_opts o = { .struct_size = sizeof(o) };
	assert_int_equal(try_new(g, NULL), 0);
	assert_int_equal(try_new(g, &o), 0);
#define REFUSED(member, value)                               \
	do {                                                 \
		struct pagehint_device_opts bad = o;         \
		bad.member = (value);                        \
		assert_int_equal(try_new(g, &bad), -EINVAL); \
	} while (0)
	REFUSED(numbering, PAGEHINT_BALLOON_NUMBERING_COUNT);
	REFUSED(flags, 16);
	REFUSED(features, UINT64_C(1) << 6); /* unratified: only by its flag */
	REFUSED(features, UINT64_C(1) << 7);
	REFUSED(features, UINT64_C(1) << 8);
	REFUSED(features, UINT64_C(1) << 63);
	REFUSED(queue_size, 1);
	REFUSED(queue_size, 32769);
	REFUSED(budget, 63);
	REFUSED(partial_blocks, (1u << 20) + 1);
	REFUSED(reserved, 1);
	REFUSED(struct_size, 7);
	knobs.holdback_ns = UINT64_C(3600000000001);
	REFUSED(knobs, &knobs);
	knobs.holdback_ns = 0;
	knobs.stats_interval_ns = 999999;
	REFUSED(knobs, &knobs);
	struct {
		struct pagehint_device_opts o;
		uint64_t more;
	} longer = { .o = { .struct_size = sizeof(longer) } };
	assert_int_equal(try_new(g, &longer.o), 0);
	longer.more = 1;
	assert_int_equal(try_new(g, &longer.o), -E2BIG);
	assert_int_equal(pagehint_device_new(NULL, g->backend, NULL, NULL, &g->device), -EINVAL);
	assert_int_equal(pagehint_device_new(g->map, NULL, NULL, NULL, &g->device), -EINVAL);
	assert_int_equal(pagehint_device_new(g->map, g->backend, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(pagehint_device_free(NULL), 0);
	guest_close(g);
}

static void frames_of_map_and_backend_must_be_alike(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 }, large = { .bare = 1, .host_page_shift = 14, .frame_shift = 14 };
	struct guest *a = guest_open(&how), *b = guest_open(&large);
	struct pagehint_device *device = NULL;
	assert_int_equal(pagehint_device_new(a->map, b->backend, NULL, NULL, &device), -EINVAL);
	assert_null(device);
	guest_close(a);
	guest_close(b);
}

static void features_and_status_follow_the_rules(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	how.opts.features = PAGEHINT_DEVICE_FEATURES_DEFAULT | PAGEHINT_VIRTIO_F_ACCESS_PLATFORM;
	struct guest *g = guest_open(&how);
	uint64_t all = pagehint_device_features(g->device);
	assert_int_equal(all, how.opts.features);
	assert_int_equal(pagehint_device_negotiated(g->device), 0);
	/* FEATURES_OK before any set, and after a refused one, does not stick */
	assert_int_equal(pagehint_device_set_status(g->device, 3 | 8), 0);
	assert_int_equal(pagehint_device_status(g->device), 3);
	assert_int_equal(pagehint_device_set_features(g->device, all & ~PAGEHINT_VIRTIO_F_ACCESS_PLATFORM), -EINVAL);
	assert_int_equal(pagehint_device_set_status(g->device, 3 | 8), 0);
	assert_int_equal(pagehint_device_status(g->device), 3);
	assert_int_equal(pagehint_device_set_features(g->device, all), 0);
	/* quirk: said twice, the second time with a bit less */
	assert_int_equal(pagehint_device_set_features(g->device, all & ~PAGEHINT_BALLOON_F_PAGE_POISON), 0);
	assert_int_equal(pagehint_device_negotiated(g->device), all & ~PAGEHINT_BALLOON_F_PAGE_POISON);
	assert_int_equal(pagehint_device_set_status(g->device, 3 | 8), 0);
	assert_int_equal(pagehint_device_status(g->device), 11);
	assert_int_equal(pagehint_device_set_status(g->device, 256), -EINVAL);
	/* a driver can neither set nor clear NEEDS_RESET */
	assert_int_equal(pagehint_device_set_status(g->device, 11 | 64), 0);
	assert_int_equal(pagehint_device_status(g->device), 11);
	/* running queues fix the features */
	guest_boot(g, all);
	assert_int_equal(pagehint_device_set_features(g->device, all), 0);
	assert_int_equal(pagehint_device_set_features(g->device, all & ~PAGEHINT_BALLOON_F_PAGE_POISON), -EBUSY);
	assert_int_equal(pagehint_device_negotiated(g->device), all);
	assert_int_equal(pagehint_device_set_status(g->device, 0), 0);
	assert_int_equal(pagehint_device_status(g->device), 0);
	assert_int_equal(pagehint_device_negotiated(g->device), 0);
	guest_close(g);
}

static void queues_work_only_with_driver_ok_where_there_is_a_status(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	struct ph_ring_buffer page = { .addr = F * 4096, .len = 4096 };
	assert_int_equal(pagehint_device_set_status(g->device, 3), 0);
	guest_boot(g, 0);
	guest_give(g, F, 1);
	guest_put(g, PAGEHINT_BALLOON_Q_REPORT, &page, 0, 1, 4);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_REPORT), -1);
	assert_int_equal(g->work.deadline_ns, UINT64_MAX);
	assert_int_equal(pagehint_device_set_status(g->device, 15), 0);
	guest_settle(g); /* without another kick */
	assert_int_equal(guest_got(g, PAGEHINT_BALLOON_Q_REPORT), 4);
	guest_check(g);
	guest_close(g);
}

static void what_is_not_ready_says_so_at_once(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	uint32_t id = 5;
	assert_int_equal(pagehint_device_queue_kick(g->device, 0, g->now, &g->work), -ENOENT);
	assert_int_equal(pagehint_device_queue_kick(g->device, 99, g->now, &g->work), -ENOENT);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_NOT_READY), 2);
	assert_int_equal(pagehint_device_stats_request(g->device), -ENODEV);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), -ENODEV);
	assert_int_equal(id, 5);
	assert_int_equal(pagehint_device_queue_stop(g->device, 0, NULL), -ENOENT);
	assert_int_equal(guest_step(g), 0);
	assert_int_equal(g->work.deadline_ns, UINT64_MAX);
	g->work.struct_size = 7;
	assert_int_equal(pagehint_device_step(g->device, g->now, &g->work), -EINVAL);
	g->work.struct_size = sizeof(g->work);
	guest_boot(g, PAGEHINT_VIRTIO_F_VERSION_1);
	assert_int_equal(pagehint_device_stats_request(g->device), -EOPNOTSUPP);
	assert_int_equal(pagehint_device_hint_start(g->device, &id), -EOPNOTSUPP);
	guest_close(g);
}

static void rings_that_cannot_be_are_refused(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1, .opts.queue_size = 128 };
	struct guest *g = guest_open(&how);
	assert_int_equal(pagehint_device_set_features(g->device, PAGEHINT_DEVICE_FEATURES_DEFAULT), 0);
	struct ph_ring_place place = guest_place(g, 0, 0, 64);
	struct pagehint_device_queue q = { .struct_size = sizeof(q), .size = 64 };
	q.desc = place.desc;
	q.driver = place.driver;
	q.device = place.device;
#define REFUSED_QUEUE(member, value, error)                                               \
	do {                                                                              \
		struct pagehint_device_queue bad = q;                                     \
		bad.member = (value);                                                     \
		assert_int_equal(pagehint_device_queue_start(g->device, 0, &bad), error); \
	} while (0)
	REFUSED_QUEUE(size, 0, -EINVAL);
	REFUSED_QUEUE(size, 63, -EINVAL);
	REFUSED_QUEUE(size, 256, -EINVAL); /* larger than what was offered */
	REFUSED_QUEUE(desc, NULL, -EINVAL);
	REFUSED_QUEUE(driver, NULL, -EINVAL);
	REFUSED_QUEUE(device, NULL, -EINVAL);
	REFUSED_QUEUE(desc, (char *)place.desc + 8, -EINVAL);
	REFUSED_QUEUE(base, 65536, -EINVAL);
	REFUSED_QUEUE(flags, 4, -EINVAL);
	REFUSED_QUEUE(flags, 3, -EINVAL);
	REFUSED_QUEUE(flags, PAGEHINT_DEVICE_QUEUE_RESUME, -ENOENT);
	REFUSED_QUEUE(reserved, 1, -EINVAL);
	assert_int_equal(pagehint_device_queue_start(g->device, 0, NULL), -EINVAL);
	assert_int_equal(pagehint_device_queue_start(g->device, 7, &q), -ENOENT);
	assert_int_equal(pagehint_device_queue_start(g->device, 0, &q), 0);
	assert_int_equal(pagehint_device_queue_start(g->device, 0, &q), -EALREADY);
	guest_close(g);
}

/* ---- who may call ---- */

static void call_all(struct guest *g)
{
	uint64_t length = 0;
	unsigned char b[16] = { 0 };
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue) };
	int expected = g->hint_id == 12345 ? -ENODEV : -EDEADLK;
	assert_int_equal(pagehint_device_tune(g->device, NULL), expected);
	assert_int_equal(pagehint_device_set_features(g->device, 0), expected);
	assert_int_equal(pagehint_device_set_status(g->device, 1), expected);
	assert_int_equal(pagehint_device_reset(g->device), expected);
	assert_int_equal(pagehint_device_queue_start(g->device, 0, &queue), expected);
	assert_int_equal(pagehint_device_queue_stop(g->device, 0, NULL), expected);
	assert_int_equal(pagehint_device_queue_kick(g->device, 0, g->now, &work), expected);
	assert_int_equal(pagehint_device_step(g->device, g->now, &work), expected);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 0, b, 4), expected);
	assert_int_equal(pagehint_device_set_target(g->device, g->now, 0, NULL), expected);
	assert_int_equal(pagehint_device_stats_request(g->device), expected);
	assert_int_equal(pagehint_device_hint_start(g->device, NULL), expected);
	assert_int_equal(pagehint_device_hint_stop(g->device), expected);
	assert_int_equal(pagehint_device_hint_done(g->device), expected);
	assert_int_equal(pagehint_device_save(g->device, g->now, b, 16, &length), expected);
	assert_int_equal(pagehint_device_load(g->device, g->now, b, 16), expected);
	if (expected == -EDEADLK)
		assert_int_equal(pagehint_device_free(g->device), expected);
}

static void callbacks_may_not_call_back(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	guest_boot(g, 0);
	guest_give(g, F, 1);
	g->inside = call_all;
	guest_report(g, &RUN(F, 1), 1);
	g->inside = NULL;
	guest_expect(g, &RUN(F, 1), 1);
	guest_close(g);
}

static void a_forked_child_can_do_nothing_but_free(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	int status = 0;
	guest_boot(g, 0);
	fflush(stdout);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		g->hint_id = 12345;
		call_all(g);
		_exit(pagehint_device_free(g->device) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	guest_close(g);
}

/* ---- words ---- */

struct lines {
	char all[8192];
};

static void line(void *ctx, const char *text)
{
	struct lines *lines = ctx;
	strncat(lines->all, text, sizeof(lines->all) - strlen(lines->all) - 2);
	strcat(lines->all, "\n");
}

static void says(struct guest *g, const char *what, int yes)
{
	struct lines lines = { .all = "" };
	struct pagehint_sink sink = { &lines, line };
	pagehint_device_explain(g->device, &sink);
	if ((strstr(lines.all, what) != NULL) != yes)
		fail_msg("\"%s\" %s said in:\n%s", what, yes ? "is not" : "is", lines.all);
}

static void explanations_name_what_is_missing(void **state)
{
	(void)state;
	struct guest_how how = { .opts.features = PAGEHINT_BALLOON_F_ALL & ~PAGEHINT_BALLOON_F_STATS_VQ };
	struct guest *g = guest_open(&how);
	unsigned char poison[4] = { 1, 0, 0, 0 };
	says(g, "no driver has negotiated", 1);
	assert_int_equal(pagehint_device_set_features(g->device, PAGEHINT_BALLOON_F_PAGE_POISON), 0);
	says(g, "no driver has negotiated", 0);
	says(g, "free page reporting: offered, and the driver did not take it", 1);
	says(g, "statistics: not offered", 1);
	says(g, "inflation: its queue was not started", 1);
	guest_boot(g, 0);
	says(g, "its queue was not started", 0);
	says(g, "has not reported anything yet", 1);
	assert_int_equal(pagehint_device_config_write(g->device, g->now, 12, poison, 4), 0);
	guest_report(g, &RUN(F, 1), 1);
	says(g, "has not reported anything yet", 0);
	says(g, "0x00000001", 1);
	says(g, "dropped: 1: reported buffers of a guest that poisons", 1);
	assert_int_equal(pagehint_gate_close(g->gate, PAGEHINT_INHIBIT_SNAPSHOT, NULL), 0);
	says(g, "snapshot", 1);
	assert_int_equal(pagehint_gate_open(g->gate, PAGEHINT_INHIBIT_SNAPSHOT), 0);
	struct ph_ring_buffer outside = { .addr = 4096, .len = 4096 };
	guest_put(g, PAGEHINT_BALLOON_Q_REPORT, &outside, 0, 1, 1);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
	says(g, "the guest broke it", 1);
	pagehint_device_explain(g->device, NULL);
	for (uint32_t drop = 0; drop < PAGEHINT_DEVICE_DROP_COUNT; drop++)
		assert_true(strlen(pagehint_device_drop_text(drop)) > 3);
	assert_string_equal(pagehint_device_drop_text(PAGEHINT_DEVICE_DROP_COUNT), "?");
	guest_close(g);
}

static void a_guest_cannot_flood_the_log(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	struct ph_ring_buffer outside = { .addr = 4096, .len = 4096 };
	for (uint32_t i = 0; i < 100; i++) {
		guest_boot(g, 0);
		guest_put(g, PAGEHINT_BALLOON_Q_REPORT, &outside, 0, 1, 1);
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
		assert_int_equal(pagehint_device_reset(g->device), 0);
	}
	assert_int_equal(g->lines, 10);
	assert_int_equal(guest_stats(g).log_dropped, 90);
	assert_int_equal(guest_stats(g).broken, 100);
	g->now += 1000000000;
	guest_boot(g, 0);
	guest_put(g, PAGEHINT_BALLOON_Q_REPORT, &outside, 0, 1, 1);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
	assert_int_equal(g->lines, 11);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_out_of_bounds_are_refused),
		cmocka_unit_test(frames_of_map_and_backend_must_be_alike),
		cmocka_unit_test(features_and_status_follow_the_rules),
		cmocka_unit_test(queues_work_only_with_driver_ok_where_there_is_a_status),
		cmocka_unit_test(what_is_not_ready_says_so_at_once),
		cmocka_unit_test(rings_that_cannot_be_are_refused),
		cmocka_unit_test(callbacks_may_not_call_back),
		cmocka_unit_test(a_forked_child_can_do_nothing_but_free),
		cmocka_unit_test(explanations_name_what_is_missing),
		cmocka_unit_test(a_guest_cannot_flood_the_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
