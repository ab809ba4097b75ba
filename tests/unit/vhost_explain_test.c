/* explain names what keeps a frontend's queues from running, and nothing else; the handles of a session are what it works with. */
#include "support/vhost_frontend.h"

#include <pagehint/map.h>

#define REPORT 4u

static void collect(void *ctx, const char *text)
{
	char *said = ctx;
	strncat(said, text, 4095 - strlen(said));
	strncat(said, "\n", 4095 - strlen(said));
}

static const char *explain(struct frontend *f)
{
	static char said[4096];
	const struct pagehint_sink sink = { said, collect };
	said[0] = 0;
	pagehint_vhost_explain(f->vhost, &sink);
	return said;
}

#define SAYS(f, text) assert_non_null(strstr(explain(f), text "\n"))
#define DOES_NOT_SAY(f, text) assert_null(strstr(explain(f), text))

static void test_what_the_frontend_has_not_done(void **state)
{
	struct frontend *f = *state;
	SAYS(f, "the frontend has shared no memory");
	fe_greet(f, FE_FEATURES);
	SAYS(f, "the frontend has shared no memory");
	fe_share_memory(f);
	DOES_NOT_SAY(f, "no memory");
	DOES_NOT_SAY(f, "is stopped"); /* nobody has spoken of a queue */
	fe_rings(f);
	DOES_NOT_SAY(f, "queue 0");
	DOES_NOT_SAY(f, "queue 4");
	DOES_NOT_SAY(f, "was refused"); /* no message; the backend may have a word for what its kernel does not know */
	DOES_NOT_SAY(f, "saved state");
	DOES_NOT_SAY(f, "waits for discards");
	fe_hang_up(f);
	assert_int_equal(fe_step(f), -ENODEV);
	SAYS(f, "no frontend is connected");
	DOES_NOT_SAY(f, "no memory");
	fe_connect(f);
	DOES_NOT_SAY(f, "no frontend");
}

static void test_queues_that_do_not_run(void **state)
{
	struct frontend *f = *state;
	const struct ph_vhost_vring_state first = { 0, 0 };
	struct ph_vhost_region region = fe_region();
	struct ph_vhost_message answer;
	fe_start(f, FE_FEATURES);
	fe_send(f, PH_VHOST_GET_VRING_BASE, &first, sizeof(first), -1);
	assert_int_equal(fe_answer(f, PH_VHOST_GET_VRING_BASE, &answer), 0);
	SAYS(f, "queue 0 (inflate) is stopped by the frontend");
	assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_ENABLE, REPORT, 0), 0);
	SAYS(f, "queue 4 (reporting) is not enabled by the frontend");
	DOES_NOT_SAY(f, "queue 3");
	/* the guest's memory ends before the third ring */
	region.size = FE_RING(2);
	assert_int_equal(fe_table(f, &region, 1, &f->ram_fd), 0);
	SAYS(f, "queue 2 (statistics) lies outside the memory table");
	SAYS(f, "queue 3 (hint) lies outside the memory table");
	SAYS(f, "queue 0 (inflate) is stopped by the frontend");
	DOES_NOT_SAY(f, "queue 1");
}

static void test_a_queue_without_a_role(void **state)
{
	struct frontend *f = *state;
	fe_greet(f, FE_FEATURES & ~(PAGEHINT_BALLOON_F_DEVICE_INIT_REPORTED | PAGEHINT_BALLOON_F_FREE_PAGE_HINT));
	fe_share_memory(f);
	fe_rings(f);
	SAYS(f, "queue 4 has no role among the negotiated features: is the numbering right?");
	DOES_NOT_SAY(f, "queue 2");
}

static void test_what_was_refused(void **state)
{
	struct frontend *f = *state;
	unsigned char blob[4096];
	uint64_t bytes = 0;
	struct ph_vhost_region twice[2] = { fe_region(), fe_region() };
	const int fds[2] = { f->ram_fd, f->ram_fd };
	fe_start(f, FE_FEATURES);
	assert_int_equal(fe_table(f, twice, 2, fds), 1);
	SAYS(f, "the last message that was refused: SET_MEM_TABLE (5), error 17");
	assert_int_equal(pagehint_device_save(pagehint_vhost_device(f->vhost), f->now, blob, sizeof(blob), &bytes), 0);
	blob[bytes / 2] ^= 1;
	const struct pagehint_vhost_opts opts = { .struct_size = sizeof(opts), .state = blob, .state_bytes = bytes };
	fe_replace(f, &opts);
	fe_start(f, FE_FEATURES);
	SAYS(f, "a saved state did not fit this device and was dropped");
}

/* The map has what the frontend shares, under the guest's frame numbers, and loses it with the frontend. */
static void test_handles(void **state)
{
	struct frontend *f = *state;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	const struct pagehint_map *map = pagehint_vhost_map(f->vhost);
	assert_int_equal(pagehint_map_lookup(map, FE_GUEST / 4096, &info), -ERANGE);
	fe_start(f, FE_FEATURES);
	assert_int_equal(pagehint_map_lookup(map, FE_GUEST / 4096 + FE_BYTES / 4096 - 1, &info), 0);
	assert_int_equal(info.frame, FE_GUEST / 4096);
	assert_int_equal(info.frames, FE_BYTES / 4096);
	fe_hang_up(f);
	assert_int_equal(fe_step(f), -ENODEV);
	assert_int_equal(pagehint_map_lookup(map, FE_GUEST / 4096, &info), -ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_the_frontend_has_not_done, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_queues_that_do_not_run, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_a_queue_without_a_role, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_what_was_refused, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_handles, fe_set_up, fe_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
