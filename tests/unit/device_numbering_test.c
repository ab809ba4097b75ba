/*
 * Queues against features: every offered and every negotiated set of the six bits, under every numbering policy, against the
 * policies as they are told in words; and each queue that has a number has a handler, and no other has.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/guest.h"

enum { NOBODY = -1, INFLATE, DEFLATE, STATS, HINT, REPORT };

#define STATS_BIT 2u
#define HINT_BIT 8u
#define REPORT_BIT 32u

/* the specification: the number is the role's */
static void in_the_specification(uint32_t offered, uint32_t taken, int *at)
{
	(void)offered;
	at[0] = INFLATE;
	at[1] = DEFLATE;
	if (taken & STATS_BIT)
		at[2] = STATS;
	if (taken & HINT_BIT)
		at[3] = HINT;
	if (taken & REPORT_BIT)
		at[4] = REPORT;
}

/* Linux asks for the queues of what it took, in this order */
static void in_linux(uint32_t offered, uint32_t taken, int *at)
{
	int n = 2;
	(void)offered;
	at[0] = INFLATE;
	at[1] = DEFLATE;
	if (taken & STATS_BIT)
		at[n++] = STATS;
	if (taken & HINT_BIT)
		at[n++] = HINT;
	if (taken & REPORT_BIT)
		at[n++] = REPORT;
}

/* QEMU makes three queues, then one for each further feature that it offers */
static void in_qemu(uint32_t offered, uint32_t taken, int *at)
{
	int n = 3;
	at[0] = INFLATE;
	at[1] = DEFLATE;
	at[2] = taken & STATS_BIT ? STATS : NOBODY;
	if (offered & HINT_BIT)
		at[n++] = taken & HINT_BIT ? HINT : NOBODY;
	if (offered & REPORT_BIT)
		at[n++] = taken & REPORT_BIT ? REPORT : NOBODY;
}

/* others make two, then one for each feature that they offer */
static void in_others(uint32_t offered, uint32_t taken, int *at)
{
	int n = 2;
	at[0] = INFLATE;
	at[1] = DEFLATE;
	if (offered & STATS_BIT)
		at[n++] = taken & STATS_BIT ? STATS : NOBODY;
	if (offered & HINT_BIT)
		at[n++] = taken & HINT_BIT ? HINT : NOBODY;
	if (offered & REPORT_BIT)
		at[n++] = taken & REPORT_BIT ? REPORT : NOBODY;
}

static void (*const told[])(uint32_t offered, uint32_t taken, int *at) = {
	[PAGEHINT_BALLOON_NUMBERING_SPEC] = in_the_specification,
	[PAGEHINT_BALLOON_NUMBERING_NEGOTIATED] = in_linux,
	[PAGEHINT_BALLOON_NUMBERING_QEMU] = in_qemu,
	[PAGEHINT_BALLOON_NUMBERING_OFFERED] = in_others,
};

static void the_words_agree_with_known_machines(void **state)
{
	(void)state;
	int at[6] = { NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY };
	in_qemu(STATS_BIT | REPORT_BIT, STATS_BIT | REPORT_BIT, at); /* hint off: reporting is 3 */
	assert_int_equal(at[3], REPORT);
	in_qemu(STATS_BIT | HINT_BIT | REPORT_BIT, REPORT_BIT, at); /* a driver that takes only reporting: 4 */
	assert_int_equal(at[4], REPORT);
	assert_int_equal(at[3], NOBODY);
	in_others(REPORT_BIT, REPORT_BIT, at); /* cloud-hypervisor: 2 */
	assert_int_equal(at[2], REPORT);
}

/* A request that the role answers in its own way and no other does. */
static void prove_handler(struct guest *g, int role, uint32_t index)
{
	struct pagehint_device_stats before = guest_stats(g), after;
	unsigned char list[10] = { 4, 0, 1 };
	uint32_t pfn = (uint32_t)GUEST_FREE;
	struct ph_ring_buffer pfns = { .addr = guest_pfns(g, &pfn, 1), .len = 4 };
	struct ph_ring_buffer entry = { .addr = guest_list(g, list, 10), .len = 10 };
	struct ph_ring_buffer pages = { .addr = GUEST_FREE * 4096, .len = 4096 };
	int lists = role == INFLATE || role == DEFLATE;
	guest_put(g, (uint32_t)role,
		  lists           ? &pfns
		  : role == STATS ? &entry
				  : &pages,
		  lists || role == STATS, !(lists || role == STATS), 5);
	assert_int_equal(pagehint_device_queue_kick(g->device, index, g->now, &g->work), 0);
	after = guest_stats(g);
	assert_int_equal(after.inflate_pages - before.inflate_pages, role == INFLATE);
	assert_int_equal(after.deflate_pages - before.deflate_pages, role == DEFLATE);
	assert_int_equal(after.samples - before.samples, role == STATS);
	assert_int_equal(after.dropped[PAGEHINT_DEVICE_DROP_STALE_HINT] -
				 before.dropped[PAGEHINT_DEVICE_DROP_STALE_HINT],
			 role == HINT);
	assert_int_equal(after.report_ranges - before.report_ranges, role == REPORT);
	assert_int_equal(guest_got(g, (uint32_t)role), role == STATS ? -1 : 5);
}

static void prove_absent(struct guest *g, uint32_t index)
{
	struct ph_ring_place place = guest_place(g, INFLATE, 0, 16);
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue), .size = 16 };
	queue.desc = place.desc;
	queue.driver = place.driver;
	queue.device = place.device;
	assert_int_equal(pagehint_device_queue_start(g->device, index, &queue), -ENOENT);
	assert_int_equal(pagehint_device_queue_kick(g->device, index, g->now, &g->work), -ENOENT);
	assert_int_equal(pagehint_device_queue_role(g->device, index), -ENOENT);
}

static void one_pair(struct guest *g, uint32_t policy, uint32_t offered, uint32_t taken)
{
	int at[6] = { NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY };
	uint32_t queues = 0;
	told[policy](offered, taken, at);
	assert_int_equal(pagehint_device_set_features(g->device, taken), 0);
	for (uint32_t i = 0; i < 6; i++) {
		if (at[i] == NOBODY) {
			prove_absent(g, i);
			continue;
		}
		queues = i + 1;
		assert_int_equal(pagehint_device_queue_role(g->device, i), at[i]);
		assert_int_equal(guest_start(g, (uint32_t)at[i], 0, 0, 1), 0);
		prove_handler(g, at[i], i);
	}
	assert_int_equal(pagehint_device_queues(g->device), queues);
	assert_int_equal(pagehint_device_reset(g->device), 0);
}

static void all_pairs_under_every_policy(void **state)
{
	(void)state;
	for (uint32_t policy = 0; policy < PAGEHINT_BALLOON_NUMBERING_COUNT; policy++) {
		uint32_t legal = 0, refused = 0;
		for (uint32_t offered = 0; offered < 64; offered++) {
			struct guest_how how = { .ring_size = 4, .bare = 1, .opts.numbering = policy };
			/* nothing at all would mean the default; a bit beside the six stands for nothing */
			how.opts.features = offered | PAGEHINT_VIRTIO_F_EVENT_IDX;
			struct guest *g = guest_open(&how);
			for (uint32_t taken = 0; taken < 64; taken++) {
				if ((taken & ~offered) == 0) {
					one_pair(g, policy, offered, taken);
					legal++;
					continue;
				}
				assert_int_equal(pagehint_device_set_features(g->device, taken), -EINVAL);
				assert_int_equal(pagehint_device_set_status(g->device, 11), 0);
				assert_int_equal(pagehint_device_status(g->device), 3); /* FEATURES_OK does not stick */
				assert_int_equal(pagehint_device_reset(g->device), 0);
				refused++;
			}
			guest_close(g);
		}
		assert_int_equal(legal, 729);
		assert_int_equal(refused, 64 * 64 - 729);
	}
}

static void before_features_the_map_is_of_what_is_offered(void **state)
{
	(void)state;
	struct guest_how how = { .opts.numbering = PAGEHINT_BALLOON_NUMBERING_NEGOTIATED };
	how.opts.features = PAGEHINT_BALLOON_F_PAGE_REPORTING | PAGEHINT_VIRTIO_F_VERSION_1;
	struct guest *g = guest_open(&how);
	assert_int_equal(pagehint_device_queues(g->device), 3);
	assert_int_equal(pagehint_device_queue_role(g->device, 2), PAGEHINT_BALLOON_Q_REPORT);
	/* but nothing can be started */
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue), .size = 16 };
	assert_int_equal(pagehint_device_queue_start(g->device, 0, &queue), -ENOENT);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_words_agree_with_known_machines),
		cmocka_unit_test(all_pairs_under_every_policy),
		cmocka_unit_test(before_features_the_map_is_of_what_is_offered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
