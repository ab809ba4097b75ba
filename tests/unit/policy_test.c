/* Targets for guests: the three states, the way to the plan, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include <pagehint/policy.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static struct pagehint_policy_host host_of(uint64_t capacity)
{
	return (struct pagehint_policy_host) { .struct_size = sizeof(struct pagehint_policy_host),
					       .capacity = capacity };
}

static void there_is_slack(void **state)
{
	(void)state;
	const struct pagehint_policy_host host = host_of(10 * GIB);
	const struct pagehint_policy_guest guests[] = {
		{ .size = 8 * GIB, .need = 2 * GIB },
		{ .size = 8 * GIB, .need = 1 * GIB, .weight = 3 },
		{ .size = 2 * GIB, .need = 1 * GIB, .weight = 100 },
	};
	uint64_t targets[3];
	uint32_t how = 9;
	assert_int_equal(pagehint_policy_targets(&host, guests, 3, targets, &how), 0);
	assert_int_equal(how, PAGEHINT_POLICY_SLACK);
	/* 6 GiB are left over: the third takes the 1 GiB it can, of the other 5 the second has three times as much as the first */
	assert_int_equal(targets[2], 2 * GIB);
	assert_int_equal(targets[0], 2 * GIB + 5 * GIB / 4);
	assert_int_equal(targets[1], 1 * GIB + 15 * GIB / 4);
}

static void needs_do_not_fit(void **state)
{
	(void)state;
	struct pagehint_policy_host host = host_of(5 * GIB);
	const struct pagehint_policy_guest guests[] = {
		{ .size = 8 * GIB, .need = 6 * GIB, .floor = 1 * GIB },
		{ .size = 8 * GIB, .need = 3 * GIB, .floor = 1 * GIB },
	};
	uint64_t targets[2];
	uint32_t how = 9;
	host.reserve = 1 * GIB;
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, &how), 0);
	assert_int_equal(how, PAGEHINT_POLICY_TIGHT);
	assert_int_equal(targets[0], 2 * GIB);
	assert_int_equal(targets[1], 2 * GIB);
	host.capacity = 2 * GIB;
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, &how), 0);
	assert_int_equal(how, PAGEHINT_POLICY_SHORT);
	assert_int_equal(targets[0] + targets[1], 1 * GIB);
}

static void unknown_is_what_is_held(void **state)
{
	(void)state;
	const struct pagehint_policy_host host = host_of(4 * GIB);
	const struct pagehint_policy_guest guests[] = {
		{ .size = 4 * GIB, .held = 3 * GIB, .need = 0, .flags = PAGEHINT_POLICY_NEED_UNKNOWN },
		{ .size = 4 * GIB, .held = 1 * GIB, .need = 1 * GIB },
	};
	uint64_t targets[2];
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, NULL), 0);
	assert_int_equal(targets[0], 3 * GIB);
	assert_int_equal(targets[1], 1 * GIB);
}

/* Nobody gets what another has not given yet, and nobody gives more than a step. */
static void the_way_is_paid_for(void **state)
{
	(void)state;
	struct pagehint_policy_host host = host_of(4 * GIB);
	const struct pagehint_policy_guest guests[] = {
		{ .size = 4 * GIB, .held = 3 * GIB, .need = 1 * GIB },
		{ .size = 4 * GIB, .held = 1 * GIB, .need = 3 * GIB },
	};
	uint64_t targets[2];
	host.step = 512 * MIB;
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, NULL), 0);
	assert_int_equal(targets[0], 3 * GIB - 512 * MIB);
	assert_int_equal(targets[1], 1 * GIB);
}

static void short_ways_are_not_gone(void **state)
{
	(void)state;
	struct pagehint_policy_host host = host_of(4 * GIB);
	struct pagehint_policy_guest guests[] = {
		{ .size = 4 * GIB, .held = 2 * GIB + 10 * MIB, .need = 1 * GIB },
		{ .size = 4 * GIB, .held = 2 * GIB - 30 * MIB, .need = 1 * GIB },
	};
	uint64_t targets[2];
	host.band = 64 * MIB;
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, NULL), 0);
	assert_int_equal(targets[0], guests[0].held);
	assert_int_equal(targets[1], guests[1].held);
	guests[1].need = 2 * GIB - 5 * MIB; /* now it has less than it needs: first the other gives, then it gets */
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, NULL), 0);
	assert_true(targets[0] < guests[0].held);
	guests[0].held = targets[0];
	guests[1].held = targets[1];
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, NULL), 0);
	assert_true(targets[1] >= guests[1].need);
}

static void targets_are_aligned(void **state)
{
	(void)state;
	struct pagehint_policy_host host = host_of(GIB + 7);
	const struct pagehint_policy_guest guests[] = { { .size = GIB, .need = 100 },
							{ .size = GIB, .need = 5 * MIB } };
	uint64_t targets[2];
	host.align = 2 * MIB;
	assert_int_equal(pagehint_policy_targets(&host, guests, 2, targets, NULL), 0);
	assert_int_equal(targets[0] % (2 * MIB), 0);
	assert_int_equal(targets[1] % (2 * MIB), 0);
	assert_true(targets[0] + targets[1] > GIB - 4 * MIB);
}

static void nonsense_is_refused(void **state)
{
	(void)state;
	struct pagehint_policy_host host = host_of(GIB);
	struct pagehint_policy_guest guest = { .size = GIB };
	uint64_t target = 77;
	assert_int_equal(pagehint_policy_targets(NULL, &guest, 1, &target, NULL), -EINVAL);
	assert_int_equal(pagehint_policy_targets(&host, NULL, 1, &target, NULL), -EINVAL);
	assert_int_equal(pagehint_policy_targets(&host, &guest, 1, NULL, NULL), -EINVAL);
	assert_int_equal(pagehint_policy_targets(&host, &guest, PAGEHINT_POLICY_GUESTS_MAX + 1, &target, NULL),
			 -EINVAL);
	assert_int_equal(pagehint_policy_targets(&host, NULL, 0, NULL, NULL), 0);
	guest.floor = GIB + 1;
	assert_int_equal(pagehint_policy_targets(&host, &guest, 1, &target, NULL), -EINVAL);
	guest = (struct pagehint_policy_guest) { .size = GIB, .flags = 2 };
	assert_int_equal(pagehint_policy_targets(&host, &guest, 1, &target, NULL), -EINVAL);
	guest = (struct pagehint_policy_guest) { .size = GIB, .reserved = 1 };
	assert_int_equal(pagehint_policy_targets(&host, &guest, 1, &target, NULL), -EINVAL);
	guest = (struct pagehint_policy_guest) { .size = GIB, .weight = PAGEHINT_POLICY_WEIGHT_MAX + 1 };
	assert_int_equal(pagehint_policy_targets(&host, &guest, 1, &target, NULL), -EINVAL);
	guest = (struct pagehint_policy_guest) { .size = GIB };
	host.align = 3;
	assert_int_equal(pagehint_policy_targets(&host, &guest, 1, &target, NULL), -EINVAL);
	host = host_of(GIB);
	const struct pagehint_policy_guest huge[2] = { { .size = UINT64_MAX }, { .size = 1 } };
	uint64_t two[2] = { 77, 77 };
	assert_int_equal(pagehint_policy_targets(&host, huge, 2, two, NULL), -ERANGE);
	struct {
		struct pagehint_policy_host host;
		uint64_t tail;
	} later = { host, 1 };
	later.host.struct_size = sizeof(later);
	assert_int_equal(pagehint_policy_targets(&later.host, &guest, 1, &target, NULL), -E2BIG);
	assert_int_equal(target, 77);
	assert_int_equal(two[0], 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_slack),          cmocka_unit_test(needs_do_not_fit),
		cmocka_unit_test(unknown_is_what_is_held), cmocka_unit_test(the_way_is_paid_for),
		cmocka_unit_test(short_ways_are_not_gone), cmocka_unit_test(targets_are_aligned),
		cmocka_unit_test(nonsense_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
