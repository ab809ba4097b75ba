/* The guest's poison, over the death of a process that had answered for it and not saved it yet. */
#include "support/vhost_frontend.h"

#define REPORT ((uint32_t)PAGEHINT_BALLOON_Q_REPORT)
#define MIB (UINT64_C(1) << 20)
#define FEATURES (FE_FEATURES | PAGEHINT_BALLOON_F_PAGE_POISON)

static void say_poison(struct frontend *f, int byte)
{
	unsigned char poison[16] = { 0 };
	memcpy(poison, &(struct ph_vhost_config) { PAGEHINT_BALLOON_CONFIG_POISON_VAL, 4, 0 }, 12);
	memset(poison + 12, byte, 4);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_CONFIG, poison, sizeof(poison), -1), 0);
}

/* Returns how much of a mebibyte that is reported went. */
static uint64_t report(struct frontend *f)
{
	memset(f->ram + FE_DATA, 0xaa, MIB);
	uint64_t held = fe_held(f);
	fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	return held - fe_held(f);
}

/* state: before or after the poison was said; again: it is said to the successor. The state counts when nothing is said. */
static void what_is_said_again_is_newer_than_the_state(void **context)
{
	(void)context;
	for (int saved = 0; saved < 2; saved++)
		for (int again = 0; again < 2; again++) {
			static unsigned char state[65536];
			struct pagehint_vhost_opts opts = { .struct_size = sizeof(opts), .state = state };
			struct frontend f;
			fe_open(&f, NULL);
			fe_start(&f, FEATURES);
			assert_int_equal(report(&f), MIB);
			if (saved)
				say_poison(&f, 0xaa);
			assert_int_equal(pagehint_device_save(pagehint_vhost_device(f.vhost), f.now, state,
							      sizeof(state), &opts.state_bytes),
					 0);
			fe_replace(&f, &opts);
			fe_greet(&f, FEATURES);
			if (again)
				say_poison(&f, 0xaa);
			fe_share_memory(&f);
			for (uint32_t i = 0; i < 5; i++)
				fe_tell_ring(&f, i);
			assert_int_equal(fe_stats(&f).states_refused, 0);
			assert_int_equal(report(&f), saved || again ? 0 : MIB);
			fe_close(&f);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_again_is_newer_than_the_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
