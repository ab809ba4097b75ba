/*
 * A guest in one thread and its device in another, with nothing between them but the rings and the kicks they ask for. The guest
 * writes into its pages until it gives them, and again as soon as they are acknowledged: a discard that came late, or went beyond
 * what was given, would be found in what it wrote (and by ThreadSanitizer). A kick that was lost would leave it waiting.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/guest.h"
#include "support/rounds.h"

#define REQUESTS 20000ul
#define AT_ONCE 4u
#define LOST (1ul << 24) /* yields after which a request is taken for forgotten */

struct both {
	struct guest *g;
	_Atomic uint64_t kicks;
	_Atomic int done;
	unsigned long total;
	const char *fault; /* the guest's; read when it has ended */
};

/* a request is a block of four pages; the first and the last are given, what is between is not */
static uint64_t block(uint64_t n)
{
	return GUEST_FREE + 4 * (n % 512);
}

static void write_block(struct guest *g, uint64_t n)
{
	for (uint64_t p = 0; p < 4; p++)
		memset(guest_at(g, block(n) + p), (int)(1 + n % 200), 64);
}

static int is_written(struct guest *g, uint64_t n, uint64_t page, int value)
{
	const unsigned char *bytes = guest_at(g, block(n) + page);
	for (int i = 0; i < 64; i++)
		if (bytes[i] != value)
			return 0;
	return 1;
}

static int give(struct both *b, uint32_t role, uint64_t n)
{
	struct guest *g = b->g;
	uint32_t pfns[2] = { (uint32_t)block(n), (uint32_t)block(n) + 3 };
	struct ph_ring_buffer buffers[2] = { { .addr = block(n) * 4096, .len = 4096 },
					     { .addr = (block(n) + 3) * 4096, .len = 4096 } };
	struct ph_ring_buffer list = { .addr = guest_pfns(g, pfns, 2), .len = 8 };
	int report = role == PAGEHINT_BALLOON_Q_REPORT;
	write_block(g, n);
	if (ph_ring_driver_submit(&g->ring[role], report ? buffers : &list, report ? 0 : 1, report ? 2 : 0, n) != 0)
		return -1;
	int kick = ph_ring_driver_publish(&g->ring[role]);
	if (kick == 1)
		atomic_fetch_add(&b->kicks, 1);
	return kick < 0 ? -1 : 0;
}

/* Both given pages are empty, what is between is as it was; then they are the guest's again, and stay what it writes. */
static const char *take_back(struct guest *g, uint64_t n)
{
	int value = (int)(1 + n % 200);
	if (!is_written(g, n, 0, 0) || !is_written(g, n, 3, 0))
		return "acknowledged before it was discarded";
	if (!is_written(g, n, 1, value) || !is_written(g, n, 2, value))
		return "discarded what was not given";
	write_block(g, n);
	return NULL;
}

static void *be_guest(void *arg)
{
	struct both *b = arg;
	struct guest *g = b->g;
	const uint32_t roles[2] = { PAGEHINT_BALLOON_Q_REPORT, PAGEHINT_BALLOON_Q_INFLATE };
	uint64_t sent = 0, back[2] = { 0, 0 };
	unsigned long yields = 0;
	while (back[0] + back[1] < b->total && b->fault == NULL) {
		if (sent < b->total && sent - back[0] - back[1] < AT_ONCE) {
			if (give(b, roles[sent % 2], sent) != 0)
				b->fault = "the ring took no request";
			sent++;
			continue;
		}
		int any = 0;
		for (uint32_t r = 0; r < 2 && b->fault == NULL; r++) {
			int64_t n = guest_got(g, roles[r]);
			if (n < 0)
				continue;
			any = 1;
			b->fault = (uint64_t)n == 2 * back[r] + r ? take_back(g, (uint64_t)n) : "out of order";
			back[r]++;
		}
		yields = any ? 0 : yields + 1;
		if (!any)
			sched_yield();
		if (yields == LOST)
			b->fault = "a kick was lost";
	}
	atomic_store(&b->done, 1);
	return NULL;
}

static void forget_runs(struct guest *g)
{
	g->n_runs = 0;
}

static void with_features(uint64_t bits)
{
	struct guest_how how = { .bare = 1, .ring_size = 16 };
	how.opts.features = PAGEHINT_BALLOON_F_ALL | PAGEHINT_VIRTIO_F_VERSION_1 | bits;
	struct both b = { .g = guest_open(&how), .total = rounds_scaled(REQUESTS) };
	struct guest *g = b.g;
	pthread_t guest;
	uint64_t heard = 0;
	guest_boot(g, 0);
	guest_settle(g);
	g->inside = forget_runs;
	assert_int_equal(pthread_create(&guest, NULL, be_guest, &b), 0);
	while (!atomic_load(&b.done)) {
		uint64_t kicks = atomic_load(&b.kicks);
		if (kicks == heard && g->work.more == 0) {
			sched_yield();
			continue;
		}
		heard = kicks;
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_REPORT), 0);
		assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_INFLATE), 0);
	}
	assert_int_equal(pthread_join(guest, NULL), 0);
	if (b.fault != NULL)
		fail_msg("%s", b.fault);
	assert_int_equal(guest_stats(g).completed, b.total);
	assert_int_equal(guest_stats(g).freed, b.total * 2 * 4096);
	assert_int_equal(g->wrong, 0);
	guest_close(g);
}

static void a_guest_finds_what_it_wrote(void **state)
{
	(void)state;
	with_features(0);
	with_features(PAGEHINT_VIRTIO_F_EVENT_IDX | PAGEHINT_VIRTIO_F_INDIRECT_DESC);
	with_features(PAGEHINT_VIRTIO_F_EVENT_IDX | PAGEHINT_VIRTIO_F_RING_PACKED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_guest_finds_what_it_wrote),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
