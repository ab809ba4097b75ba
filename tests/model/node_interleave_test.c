/*
 * Two nodes, in every order of turns: while somebody carries the last free frame from one node to the other, who asks both of them
 * is not told that there is nothing. See turns.h.
 */
#include "support/zone_rest.h"

#include <errno.h>
#include <stdlib.h>

#include <pagehint/node.h>

#include "support/turns.h"

#define ZONE_BYTES (UINT64_C(1) << 18)
#define EACH 64u

static unsigned char *memory;
static struct pagehint_zone *zones[2];
static struct pagehint_nodes *nodes;
static uint64_t got, carried;
static int answers[2];

static void begin(void)
{
	got = carried = UINT64_MAX;
	answers[0] = answers[1] = 1;
}

/* Frame 0 of node 0 is out, frame 0 of node 1 is free. Thread 1 gives the one back and takes the other. */
static void body(uint32_t thread)
{
	if (thread == 0) {
		answers[0] = pagehint_node_alloc(nodes, 0, 0, 0, &got);
		return;
	}
	if (pagehint_node_free(nodes, 0, 0) != 0)
		turn_fault("the frame is not taken back");
	answers[1] = pagehint_node_alloc(nodes, 1, 0, PAGEHINT_NODE_STRICT, &carried);
}

static uint64_t mark(void)
{
	return got * 3 + carried * 7 + (uint64_t)(answers[0] * 11 + answers[1] * 13);
}

static void judge(void)
{
	if (answers[0] != 0 && answers[0] != -EAGAIN)
		turn_fault("what is there all the time is denied: %d", answers[0]);
	if (answers[0] == 0 && answers[1] == 0 && got == carried)
		turn_fault("two have frame %llu", (unsigned long long)got);
	for (uint32_t i = 0; i < 2; i++)
		if (pagehint_zone_check(zones[i], NULL) != 0)
			turn_fault("node %u is broken", i);
}

static void set_the_stage(void)
{
	const struct pagehint_zone_opts opts = {
		.struct_size = sizeof(opts), .max_sections = 1, .span_sections = 2, .max_caches = 1
	};
	const struct pagehint_node_opts node_opts = { .struct_size = sizeof(node_opts), .zones = zones, .nodes = 2 };
	uint64_t bytes, frame;
	assert_int_equal(pagehint_zone_size(&opts, &bytes), 0);
	assert_true(bytes <= ZONE_BYTES);
	memory = aligned_alloc(64, 3 * ZONE_BYTES);
	assert_non_null(memory);
	memset(memory, 0, 3 * ZONE_BYTES);
	turns_on(memory, 3 * ZONE_BYTES);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(pagehint_zone_init(memory + i * ZONE_BYTES, ZONE_BYTES, &opts, &zones[i]), 0);
		assert_int_equal(pagehint_zone_add(zones[i], i * SECTION, EACH), 0);
		assert_int_equal(pagehint_zone_reserve(zones[i], i * SECTION + 1, EACH - 1, NULL), 0);
	}
	assert_int_equal(pagehint_node_init(memory + 2 * ZONE_BYTES, ZONE_BYTES, &node_opts, &nodes), 0);
	assert_int_equal(pagehint_zone_alloc(zones[0], 0, &frame), 0);
	assert_int_equal(frame, 0);
}

static void test_what_is_carried_around_is_not_denied(void **state)
{
	(void)state;
	const struct turn_play play = { 2, 2, begin, body, mark, judge };
	set_the_stage();
	struct turn_result r = turns_explore(&play, NULL);
	print_message("%llu orders, %llu ends, %llu contended words\n", (unsigned long long)r.runs,
		      (unsigned long long)r.ends, (unsigned long long)r.words);
	if (r.faulty)
		fail_msg("%s", r.fault);
	assert_true(r.runs > 100 && r.ends > 1);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_carried_around_is_not_denied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
