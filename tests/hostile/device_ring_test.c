/*
 * Rings that lie: whatever a guest writes into them, on any queue, the device notices, discards nothing of it, says that it
 * needs a reset, and works after one.
 */
#include "support/hostile_guest.h"

/* ---- rings that lie ---- */

static void write_lie(struct guest *g, uint32_t role, uint32_t lie)
{
	void *table = table_of(g, role), *indirect = guest_at(g, TABLE_PAGE);
	uint64_t good = good_buffer(g, role), at = TABLE_PAGE * PAGE;
	uint32_t f = flags_of(role);
	memset(indirect, 0, 4096);
	for (uint32_t i = 0; i < SIZE; i++)
		desc(table, i, good, 4, f | PH_DESC_NEXT, (i + 1) % SIZE); /* all of it one loop */
	switch (lie) {
	case 0: /* the index is ahead by more than the ring */
		set_avail(g, role, SIZE + 1);
		return;
	case 1:
		set_avail(g, role, 0x8000);
		return;
	case 2:
		set_avail(g, role, 0xffff);
		return;
	case 3: /* a loop over the whole ring */
		break;
	case 4: /* a descriptor that follows itself */
		desc(table, 0, good, 4, f | PH_DESC_NEXT, 0);
		break;
	case 5: /* the next one is outside the table */
		desc(table, 0, good, 4, f | PH_DESC_NEXT, SIZE);
		break;
	case 6:
		desc(table, 0, good, 4, f | PH_DESC_NEXT, 0xffff);
		break;
	case 7: /* indirect in indirect */
		desc(table, 0, at, 32, PH_DESC_INDIRECT, 0);
		desc(indirect, 0, at, 32, PH_DESC_INDIRECT, 0);
		break;
	case 8: /* a loop in a table */
		desc(table, 0, at, 64, PH_DESC_INDIRECT, 0);
		desc(indirect, 0, good, 4, f | PH_DESC_NEXT, 1);
		desc(indirect, 1, good, 4, f | PH_DESC_NEXT, 0);
		break;
	case 9: /* a table that is no multiple of an entry */
		desc(table, 0, at, 17, PH_DESC_INDIRECT, 0);
		break;
	case 10: /* an empty one */
		desc(table, 0, at, 0, PH_DESC_INDIRECT, 0);
		break;
	case 11: /* one of 4 GiB */
		desc(table, 0, at, 0xfffffff0, PH_DESC_INDIRECT, 0);
		break;
	case 12: /* one that is not in memory */
		desc(table, 0, GUEST_HOLE_PAGE * PAGE, 64, PH_DESC_INDIRECT, 0);
		break;
	case 13: /* one that straddles the end of memory */
		desc(table, 0, GUEST_HOLE_PAGE * PAGE - 16, 64, PH_DESC_INDIRECT, 0);
		break;
	case 14: /* one that wraps */
		desc(table, 0, UINT64_MAX - 15, 64, PH_DESC_INDIRECT, 0);
		break;
	case 15: /* indirect and more */
		desc(table, 0, at, 64, PH_DESC_INDIRECT | PH_DESC_NEXT, 1);
		break;
	case 16: /* an address that wraps */
		desc(table, 0, UINT64_MAX - 4095, 8192, f, 0);
		break;
	case 17:
		desc(table, 0, UINT64_MAX, 4096, f, 0);
		break;
	case 18: /* readable after writable */
		desc(table, 0, good, 4, PH_DESC_WRITE | PH_DESC_NEXT, 1);
		desc(table, 1, good, 4, 0, 0);
		break;
	case 19: /* more than 4 GiB in all */
		for (uint32_t i = 0; i < 3; i++)
			desc(table, i, F * PAGE, 0xffffffff, f | (i < 2 ? PH_DESC_NEXT : 0), i + 1);
		break;
	default: /* a head outside the table */
		offer(g, role, (uint16_t)(lie == 20 ? SIZE : 0xffff));
		return;
	}
	offer(g, role, 0);
}

static void every_lie_of_a_ring_is_found(void **state)
{
	(void)state;
	struct guest *g = open_guest();
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		for (uint32_t lie = 0; lie < 22; lie++) {
			char what[32];
			begin(g);
			snprintf(what, sizeof(what), "lie %u", lie);
			write_lie(g, role, lie);
			run_dry(g, role);
			broke(g, role, PAGEHINT_DEVICE_DROP_RING, what);
			is_well(g);
		}
	guest_close(g);
}

/* the same head again while it is in flight: on the statistics queue a buffer stays with the device */
static void a_head_that_is_in_flight_is_refused(void **state)
{
	(void)state;
	struct guest *g = open_guest();
	uint32_t role = PAGEHINT_BALLOON_Q_STATS;
	begin(g);
	desc(table_of(g, role), 0, good_buffer(g, role), 4, 0, 0);
	offer(g, role, 0);
	run_dry(g, role);
	offer(g, role, 0);
	run_dry(g, role);
	broke(g, role, PAGEHINT_DEVICE_DROP_RING, "a head twice");
	is_well(g);
	guest_close(g);
}

static void packed_rings_that_lie(void **state)
{
	(void)state;
	struct guest_how how = { .ring_size = SIZE };
	how.opts.features = PAGEHINT_DEVICE_FEATURES_DEFAULT | PAGEHINT_VIRTIO_F_RING_PACKED;
	struct guest *g = guest_open(&how);
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		for (uint32_t lie = 0; lie < 6; lie++) {
			begin(g);
			uint64_t good = good_buffer(g, role), at = TABLE_PAGE * PAGE;
			uint32_t f = flags_of(role);
			struct ph_packed_desc *ring = guest_place(g, role, PH_RING_PACKED, SIZE).desc;
			for (uint32_t i = 0; i < SIZE; i++) /* never an end: all of it one chain */
				desc(ring, i, good, 4, 0, f | PH_DESC_NEXT | PH_DESC_AVAIL);
			if (lie == 1) /* no such buffer id; its page may go */
				guest_give(g, F + 3, 1);
			if (lie == 1)
				desc(ring, 0, good, 4, SIZE, f | PH_DESC_AVAIL);
			if (lie == 2)
				desc(ring, 0, at, 17, 0, PH_DESC_INDIRECT | PH_DESC_AVAIL);
			if (lie == 3)
				desc(ring, 0, GUEST_HOLE_PAGE * PAGE, 64, 0, PH_DESC_INDIRECT | PH_DESC_AVAIL);
			if (lie == 4)
				desc(ring, 0, UINT64_MAX, 4096, 0, f | PH_DESC_AVAIL);
			if (lie == 5)
				desc(ring, 0, at, 64, 0, PH_DESC_INDIRECT | PH_DESC_NEXT | PH_DESC_AVAIL);
			run_dry(g, role);
			if (lie != 1) {
				broke(g, role, PAGEHINT_DEVICE_DROP_RING, "packed");
			} else {
				/* an id is only handed back, so the request is as good as any; what follows it is not */
				struct pagehint_device_stats now = guest_stats(g);
				assert_true(now.broken > counted.broken || now.popped > counted.popped);
			}
			is_well(g);
		}
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_lie_of_a_ring_is_found),
		cmocka_unit_test(a_head_that_is_in_flight_is_refused),
		cmocka_unit_test(packed_rings_that_lie),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
