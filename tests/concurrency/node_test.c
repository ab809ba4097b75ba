/*
 * Threads of three homes on one set of nodes, with too little memory: no frame is in two hands, none is lost, every free finds its
 * zone, and the counts add up. While frames are certainly there nobody is told that there are none.
 */
#include "support/node_set.h"
#include "support/zone_crowd.h"

#define WORKERS 3u
#define HELD 40u
#define EACH 64u

static struct crowd crowd;
static struct node_set set;
static _Atomic uint64_t served; /* blocks that were handed out */
static _Atomic uint64_t failed;

struct thing {
	uint64_t frame;
	uint32_t order;
};

static void *work(void *arg)
{
	struct member *m = arg;
	struct thing held[HELD];
	uint32_t n = 0, home = m->id - 1u;
	for (unsigned long i = 0; i < crowd.rounds; i++) {
		uint32_t order = (uint32_t)draw(m, 4);
		uint64_t frame;
		if (n < HELD && draw(m, 2)) {
			int r = pagehint_node_alloc(set.nodes, home, order, draw(m, 4) == 0, &frame);
			must(m, r == 0 || r == -ENOSPC || r == -EAGAIN);
			atomic_fetch_add(&failed, r != 0);
			atomic_fetch_add(&served, r == 0);
			if (r == 0) {
				own(m, frame, UINT64_C(1) << order);
				held[n++] = (struct thing) { frame, order };
			}
		} else if (n != 0) {
			uint32_t k = (uint32_t)draw(m, n);
			struct thing t = held[k];
			held[k] = held[--n];
			disown(m, t.frame, UINT64_C(1) << t.order);
			must(m, pagehint_node_free(set.nodes, t.frame, t.order) == 0);
		}
	}
	while (n != 0) {
		n--;
		disown(m, held[n].frame, UINT64_C(1) << held[n].order);
		must(m, pagehint_node_free(set.nodes, held[n].frame, held[n].order) == 0);
	}
	return NULL;
}

static void test_no_frame_is_doubled_or_lost(void **state)
{
	(void)state;
	void *(*const bodies[])(void *) = { work, work, work };
	uint64_t local = 0, fallback = 0, foreign = 0, lost = 0;
	set = node_set_make(EACH, SECTION, 0, node_distances);
	crowd_gather(&crowd, set.zone[0], NODES * SECTION, 25000);
	crowd_run(&crowd, bodies, WORKERS, 20261130);
	crowd_leave(&crowd);
	for (uint32_t i = 0; i < NODES; i++) {
		struct pagehint_node_stats s = node_stats_of(&set, i);
		local += s.local;
		fallback += s.fallback;
		foreign += s.foreign;
		lost += s.failed;
	}
	assert_int_equal(local + fallback, atomic_load(&served));
	assert_int_equal(foreign, fallback);
	assert_int_equal(lost, atomic_load(&failed));
	node_set_gone_home(&set);
}

/* Two carriers, and two frames on two nodes: whoever asks, one is there, but not always the same one. */
static void *carry(void *arg)
{
	struct member *m = arg;
	for (unsigned long i = 0; i < crowd.rounds; i++) {
		uint64_t frame;
		int r = pagehint_node_alloc(set.nodes, (uint32_t)draw(m, NODES), 0, 0, &frame);
		must(m, r == 0 || r == -EAGAIN);
		if (r != 0) {
			atomic_fetch_add(&crowd.again, 1);
			continue;
		}
		own(m, frame, 1);
		disown(m, frame, 1);
		must(m, pagehint_node_free(set.nodes, frame, 0) == 0);
	}
	return NULL;
}

static void test_what_is_always_there_is_never_denied(void **state)
{
	(void)state;
	void *(*const bodies[])(void *) = { carry, carry };
	struct pagehint_run full[NODES];
	set = node_set_make(EACH, SECTION, 0, NULL);
	for (uint32_t i = 0; i < NODES; i++) {
		full[i] = (struct pagehint_run) { i * SECTION + (i < 2), EACH - (i < 2) };
		assert_int_equal(pagehint_zone_reserve(set.zone[i], full[i].frame, full[i].frames, NULL), 0);
	}
	crowd_gather(&crowd, set.zone[0], NODES * SECTION, 25000);
	crowd_run(&crowd, bodies, 2, 7);
	crowd_leave(&crowd);
	assert_int_equal(pagehint_node_free_runs(set.nodes, full, NODES, NULL), 0);
	node_set_gone_home(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_frame_is_doubled_or_lost),
		cmocka_unit_test(test_what_is_always_there_is_never_denied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
