/* The guest's statistics: any order, any tag, any age; unknown is a flag and never a number. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/guest.h"

#define STATS PAGEHINT_BALLOON_Q_STATS
#define SECOND UINT64_C(1000000000)

static uint32_t entry(unsigned char *list, uint32_t at, uint32_t tag, uint64_t value)
{
	list[at] = (unsigned char)tag;
	list[at + 1] = (unsigned char)(tag >> 8);
	for (uint32_t i = 0; i < 8; i++)
		list[at + 2 + i] = (unsigned char)(value >> 8 * i);
	return at + 10;
}

static int send(struct guest *g, const unsigned char *list, uint32_t len, uint64_t cookie)
{
	struct ph_ring_buffer buffer = { .addr = guest_list(g, list, len), .len = len };
	guest_put(g, STATS, &buffer, 1, 0, cookie);
	return guest_kick(g, STATS);
}

static struct pagehint_device_sample sample(struct guest *g)
{
	struct pagehint_device_sample s = { .struct_size = sizeof(s) };
	assert_int_equal(pagehint_device_sample(g->device, g->now, &s), 0);
	return s;
}

static void a_sample_comes_in_any_order_and_stays_until_asked_for(void **state)
{
	(void)state;
	struct guest *g = guest_open(NULL);
	unsigned char list[160];
	uint32_t n = 0;
	guest_boot(g, 0);
	assert_int_equal(sample(g).known, 0);
	assert_true(sample(g).age_ns == UINT64_MAX);
	for (uint32_t tag = 16; tag-- > 0;)
		n = entry(list, n, tag, UINT64_C(0x0102030405060700) + tag);
	assert_int_equal(send(g, list, n, 1), 0);
	assert_int_equal(g->work.events, PAGEHINT_DEVICE_EVENT_STATS);
	assert_int_equal(guest_got(g, STATS), -1); /* the device keeps the buffer */
	assert_int_equal(sample(g).known, 0xffff);
	for (uint32_t tag = 0; tag < 16; tag++)
		assert_true(sample(g).value[tag] == UINT64_C(0x0102030405060700) + tag);
	g->now += 5;
	assert_int_equal(sample(g).age_ns, 5);
	assert_int_equal(pagehint_device_stats_request(g->device), 0);
	assert_int_equal(guest_step(g), 0);
	assert_int_equal(g->work.interrupt, 1u << guest_index(g, STATS));
	assert_int_equal(guest_got(g, STATS), 1);
	assert_int_equal(g->used, 0);
	/* the guest owes the answer */
	assert_int_equal(pagehint_device_stats_request(g->device), -EAGAIN);
	n = entry(list, 0, PAGEHINT_BALLOON_STAT_MEMFREE, 77);
	assert_int_equal(send(g, list, n, 2), 0);
	struct pagehint_device_sample s = sample(g);
	assert_int_equal(s.known, 1u << PAGEHINT_BALLOON_STAT_MEMFREE); /* the rest is not carried over */
	assert_int_equal(s.value[PAGEHINT_BALLOON_STAT_MEMFREE], 77);
	assert_int_equal(s.value[0], 0);
	assert_int_equal(s.samples, 2);
	guest_close(g);
}

static void what_is_old_is_unknown(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1, .opts.stale_ns = 3 * SECOND };
	struct guest *g = guest_open(&how);
	unsigned char list[10];
	guest_boot(g, 0);
	assert_int_equal(send(g, list, entry(list, 0, 4, 99), 1), 0);
	g->now += 3 * SECOND - 1;
	assert_int_equal(sample(g).known, 1u << 4);
	g->now += 1;
	assert_int_equal(sample(g).known, 0);
	assert_int_equal(sample(g).value[4], 0);
	assert_int_equal(sample(g).age_ns, 3 * SECOND); /* but how old is known */
	guest_close(g);
}

static void unknown_tags_and_rests_are_counted(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	unsigned char list[64];
	guest_boot(g, 0);
	uint32_t n = entry(list, 0, 16, 1);
	n = entry(list, n, 65535, 2);
	n = entry(list, n, 5, 3);
	n = entry(list, n, 5, 4); /* the last word counts */
	memset(list + n, 0xff, 9);
	assert_int_equal(send(g, list, n + 9, 1), 0);
	assert_int_equal(sample(g).known, 1u << 5);
	assert_int_equal(sample(g).value[5], 4);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_TAG), 2);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_LENGTH), 1);
	guest_close(g);
}

static void a_list_without_end_is_cut(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	static unsigned char list[100000];
	guest_boot(g, 0);
	for (uint32_t n = 0; n + 10 <= sizeof(list);)
		n = entry(list, n, 99, n);
	assert_int_equal(send(g, list, sizeof(list), 1), 0);
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_BAD_TAG), 256);
	guest_close(g);
}

static void a_buffer_beyond_the_one_sends_the_older_back(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	unsigned char list[10];
	guest_boot(g, 0);
	for (uint64_t i = 0; i < 200; i++) {
		assert_int_equal(send(g, list, entry(list, 0, 4, i), i), 0);
		assert_int_equal(guest_got(g, STATS), (int64_t)i - 1);
	}
	assert_int_equal(guest_dropped(g, PAGEHINT_DEVICE_DROP_EXTRA_STATS), 199);
	assert_int_equal(sample(g).value[4], 199);
	assert_int_equal(guest_stats(g).popped - guest_stats(g).completed, 1);
	guest_close(g);
}

static void polling_asks_in_its_interval_and_no_more(void **state)
{
	(void)state;
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs), .stats_interval_ns = SECOND };
	struct guest_how how = { .bare = 1, .opts.knobs = &knobs };
	struct guest *g = guest_open(&how);
	unsigned char list[10];
	guest_boot(g, 0);
	assert_int_equal(send(g, list, entry(list, 0, 4, 1), 1), 0);
	guest_settle(g);
	assert_int_equal(guest_got(g, STATS), 1);
	assert_int_equal(g->work.deadline_ns, g->now + SECOND);
	/* a guest that thrashes does not answer: nobody waits, nobody asks twice */
	for (int i = 0; i < 5; i++) {
		g->now += SECOND;
		guest_settle(g);
		assert_int_equal(g->work.deadline_ns, g->now + SECOND);
	}
	assert_int_equal(sample(g).age_ns, 5 * SECOND);
	assert_int_equal(send(g, list, entry(list, 0, 4, 2), 2), 0);
	assert_int_equal(guest_got(g, STATS), -1);
	g->now += SECOND - 1;
	guest_settle(g);
	assert_int_equal(guest_got(g, STATS), -1);
	g->now += 1;
	guest_settle(g);
	assert_int_equal(guest_got(g, STATS), 2);
	guest_close(g);
}

/* a stopped queue takes its buffer with it; the same buffer again is no new sample */
static void a_buffer_seen_again_keeps_its_age(void **state)
{
	(void)state;
	struct guest_how how = { .bare = 1 };
	struct guest *g = guest_open(&how);
	unsigned char list[10];
	guest_boot(g, 0);
	assert_int_equal(send(g, list, entry(list, 0, 4, 1), 1), 0);
	g->now += 7;
	uint32_t base = 9;
	assert_int_equal(pagehint_device_queue_stop(g->device, (uint32_t)guest_index(g, STATS), &base), 0);
	assert_int_equal(base, 0);
	assert_int_equal(pagehint_device_stats_request(g->device), -ENODEV);
	assert_int_equal(guest_start(g, STATS, 0, base, 0), 0);
	guest_settle(g);
	assert_int_equal(sample(g).age_ns, 7);
	assert_int_equal(sample(g).samples, 1);
	assert_int_equal(pagehint_device_stats_request(g->device), 0);
	assert_int_equal(guest_got(g, STATS), 1);
	assert_int_equal(send(g, list, entry(list, 0, 4, 2), 2), 0);
	assert_int_equal(sample(g).age_ns, 0);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sample_comes_in_any_order_and_stays_until_asked_for),
		cmocka_unit_test(what_is_old_is_unknown),
		cmocka_unit_test(unknown_tags_and_rests_are_counted),
		cmocka_unit_test(a_list_without_end_is_cut),
		cmocka_unit_test(a_buffer_beyond_the_one_sends_the_older_back),
		cmocka_unit_test(polling_asks_in_its_interval_and_no_more),
		cmocka_unit_test(a_buffer_seen_again_keeps_its_age),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
