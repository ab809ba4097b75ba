/*
 * A watch that loses patience in the very moment in which the source answers: the flight is given away between two
 * instructions of the watch. Whose turn it is at each atomic operation is the test's to say (yield_atomics.h): no luck is
 * needed.
 */
#include "support/snapshot.h"

#include "support/yield_atomics.h"

#define pagehint_pager_watch watch_under_test
int watch_under_test(struct pagehint_pager *pager, uint64_t now_ns, uint64_t *ret_deadline);
#include "../lib/pager/watch.c"

static void (*between)(void); /* done once, when the pages are about to be judged */

static void turn(const char *func)
{
	void (*now)(void) = between;
	if (now == NULL || strcmp(func, "revoke_pages") != 0)
		return;
	between = NULL;
	now();
}

uint64_t turn_load(const volatile void *p, uint32_t size, const char *func)
{
	turn(func);
	return size == 4 ? *(const volatile uint32_t *)p : *(const volatile uint64_t *)p;
}

uint64_t turn_change(volatile void *p, uint32_t size, uint32_t how, uint64_t v, const char *func)
{
	uint64_t old = turn_load(p, size, func), now = how == TURN_ADD ? old + v : v;
	assert_true(how == TURN_ADD || how == TURN_STORE);
	if (size == 4)
		*(volatile uint32_t *)p = (uint32_t)now;
	else
		*(volatile uint64_t *)p = now;
	return old;
}

static struct pagehint_pager *pager;
static uint64_t generation;

static void fly(uint64_t first)
{
	struct ph_range *g = &pager->regions[0];
	struct ph_flight *f = ph_flight_take(pager, 0, &generation);
	assert_ptr_equal(f, &pager->flights[1]); /* there is but one */
	assert_int_equal(ph_state_take(&g->states, first, 4, &ph_change_claim), 4);
	(void)ph_flight_start(pager, f, generation, g, first, 4);
}

/* The source has answered: too late for its pages, and the flight is taken for others at once. */
static void come_back(void)
{
	struct ph_flight *f = &pager->flights[1];
	assert_int_equal(ph_flight_turn(f, generation, PH_FLIGHT_FETCHING, PH_FLIGHT_INSTALLING), 0);
	assert_int_equal(ph_flight_turn(f, generation, PH_FLIGHT_REVOKED, PH_FLIGHT_FREE), 1);
	fly(16);
}

static uint64_t in_flight(uint64_t first)
{
	return ph_state_count(&pager->regions[0].states, first, 4, PH_SET(PH_INFLIGHT));
}

static void test_given_away_meanwhile(void **state)
{
	(void)state;
	struct served s;
	uint64_t deadline;
	struct pagehint_pager_opts opts = { .flights = 2, .timeout_ns = 1000 };
	struct pagehint_source *source = serve(&s, PAGEHINT_BACKING_ANON, &opts, 0);
	pager = s.pager;
	fly(0);
	between = come_back;
	assert_int_equal(watch_under_test(pager, 1000000, &deadline), 0);
	assert_null(between);
	assert_int_equal(in_flight(0), 0);  /* revoked: whoever waits is answered */
	assert_int_equal(in_flight(16), 4); /* another's, and none of the watch's business */
	assert_int_equal(served_stats(&s).poisoned, 4);
	ph_flight_end(&pager->flights[1], generation);
	(void)ph_state_change(&pager->regions[0].states, 16, 4, &ph_change_release);
	close_all(&s, source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_away_meanwhile),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
