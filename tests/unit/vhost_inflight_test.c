/* The area that a frontend keeps over a restart: made, handed back, filled in, and never believed. */
#include "support/vhost_frontend.h"

#define MIB (UINT64_C(1) << 20)
#define REPORT 4u

/* as the protocol has it; a queue's part is rounded up to 64 bytes */
struct area {
	uint64_t features;
	uint16_t version, desc_num, last_batch_head, used_idx;
};
#define PART ((16 + 16 * FE_SIZE + 63) / 64 * 64)

/* Asks for an area. Returns its descriptor; -1: there is none. */
static int get_area(struct frontend *f, struct ph_vhost_inflight_said *said)
{
	struct ph_vhost_message answer;
	fe_send(f, PH_VHOST_GET_INFLIGHT_FD, said, sizeof(*said), -1);
	assert_int_equal(fe_answer(f, PH_VHOST_GET_INFLIGHT_FD, &answer), 0);
	memcpy(said, answer.payload, sizeof(*said));
	return answer.fds_n == 1 ? answer.fds[0] : -1;
}

static void test_area(void **state)
{
	struct frontend *f = *state;
	struct ph_vhost_inflight_said said = { .queues = 5, .queue_size = FE_SIZE };
	struct area area;
	struct stat st;
	fe_greet(f, FE_FEATURES);
	int fd = get_area(f, &said);
	assert_true(fd >= 0);
	assert_int_equal(said.mmap_size, 5 * PART);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, said.mmap_size);
	assert_int_equal(ftruncate(fd, 0), -1); /* nobody can take it away under us */
	assert_int_equal(fe_ask(f, PH_VHOST_SET_INFLIGHT_FD, &said, sizeof(said), fd), 0);
	fe_share_memory(f);
	fe_rings(f);
	for (uint16_t round = 1; round < 4; round++) {
		fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, round);
		assert_int_equal(pread(fd, &area, sizeof(area), REPORT * PART), sizeof(area));
		assert_int_equal(area.version, 1);
		assert_int_equal(area.desc_num, FE_SIZE);
		assert_int_equal(area.used_idx, round);
	}

	/* the next process gets it, with nonsense in it; the ring alone says where to go on */
	memset(&area, 0xee, sizeof(area));
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(pwrite(fd, &area, sizeof(area), (off_t)(i * PART)), sizeof(area));
	fe_submit(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 9);
	fe_replace(f, NULL);
	fe_greet(f, FE_FEATURES);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_INFLIGHT_FD, &said, sizeof(said), fd), 0);
	fe_share_memory(f);
	for (uint32_t i = 0; i < 5; i++)
		fe_tell_ring(f, i);
	assert_int_equal(fe_reap(f, REPORT), 1);
	assert_int_equal(pread(fd, &area, sizeof(area), REPORT * PART), sizeof(area));
	assert_int_equal(area.used_idx, 4);
	close(fd);
}

static void test_wrong_areas(void **state)
{
	static const struct ph_vhost_inflight_said impossible[] = {
		{ .queues = 0, .queue_size = FE_SIZE },
		{ .queues = 17, .queue_size = FE_SIZE },
		{ .queues = UINT16_MAX, .queue_size = UINT16_MAX },
		{ .queues = 5, .queue_size = 0 },
		{ .queues = 5, .queue_size = 32769 },
	};
	struct frontend *f = *state;
	fe_greet(f, FE_FEATURES);
	int before = fe_open_fds();
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		struct ph_vhost_inflight_said said = impossible[i];
		assert_int_equal(get_area(f, &said), -1);
		assert_int_equal(said.mmap_size, 0);
		said = impossible[i];
		said.mmap_size = FE_BYTES;
		assert_int_equal(fe_ask(f, PH_VHOST_SET_INFLIGHT_FD, &said, sizeof(said), f->ram_fd), 1);
	}
	static const struct {
		uint64_t bytes, offset;
	} places[] = {
		{ 5 * PART - 1, 0 },      { 0, 0 },          { FE_BYTES + 1, 0 },    { FE_BYTES, 4096 },
		{ 5 * PART, UINT64_MAX }, { UINT64_MAX, 1 }, { 5 * PART, FE_BYTES }, { 5 * PART, 1 },
	};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct ph_vhost_inflight_said said = { places[i].bytes, places[i].offset, 5, FE_SIZE, 0 };
		assert_int_equal(fe_ask(f, PH_VHOST_SET_INFLIGHT_FD, &said, sizeof(said), f->ram_fd), 1);
	}
	const struct ph_vhost_inflight_said good = { 5 * PART, 4096, 5, FE_SIZE, 0 };
	assert_int_equal(fe_ask(f, PH_VHOST_SET_INFLIGHT_FD, &good, sizeof(good), f->channel), 1); /* no file */
	assert_int_equal(fe_ask(f, PH_VHOST_SET_INFLIGHT_FD, &good, sizeof(good), f->ram_fd), 0);
	assert_int_equal(fe_open_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_area, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_wrong_areas, fe_set_up, fe_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
