/* A whole device behind a socket: what a frontend says, what the guest's queues do, and what becomes of the memory. */
#include "support/vhost_frontend.h"
#include "virtio/device_blob.h"

#define MIB (UINT64_C(1) << 20)
#define REPORT 4u /* with everything negotiated, queues have the numbers of their roles */
#define INFLATE 0u
#define DEFLATE 1u
#define STATS 2u

static void test_report(void **state)
{
	struct frontend *f = *state;
	fe_start(f, FE_FEATURES);
	assert_int_equal(fe_stats(f).queues_running, 5);
	memset(f->ram + FE_DATA, 0x5a, 8 * MIB);
	uint64_t held = fe_held(f);
	(void)fe_interrupts(f, REPORT);
	fe_submit(f, REPORT, FE_GUEST + FE_DATA + 2 * MIB, 2 * MIB, 1, 1);
	fe_submit(f, REPORT, FE_GUEST + FE_DATA + 4 * MIB, 1 * MIB, 1, 2);
	fe_kick(f, REPORT);
	assert_int_equal(fe_step(f), 0);
	assert_int_equal(fe_reap(f, REPORT), 2);
	assert_true(fe_interrupts(f, REPORT) >= 1);
	assert_int_equal(held - fe_held(f), 3 * MIB);
	for (uint64_t i = 0; i < 8 * MIB; i++)
		assert_int_equal(f->ram[FE_DATA + i], i >= 2 * MIB && i < 5 * MIB ? 0 : 0x5a);
	assert_int_equal(fe_stats(f).kicks, 1);
}

static void test_target(void **state)
{
	struct frontend *f = *state;
	unsigned char config[12 + 16] = { 0 }, message[12];
	const struct ph_vhost_config said = { 0, 16, 0 };
	struct ph_vhost_message answer;
	uint32_t request;
	uint8_t list[4 * 4];
	fe_start(f, FE_FEATURES);
	assert_int_equal(pagehint_device_set_target(pagehint_vhost_device(f->vhost), f->now, 4 * 4096, NULL), 0);
	assert_int_equal(fe_step(f), 0);
	assert_int_equal(read(f->channel, message, sizeof(message)), sizeof(message));
	memcpy(&request, message,
	       sizeof(request)); /* messages are in the byte order of both ends, what is the device's is le */
	assert_int_equal(request, PH_VHOST_BACKEND_CONFIG_CHANGE);
	memcpy(config, &said, sizeof(said));
	fe_send(f, PH_VHOST_GET_CONFIG, config, sizeof(config), -1);
	assert_int_equal(fe_answer(f, PH_VHOST_GET_CONFIG, &answer), 0);
	assert_int_equal(answer.size, sizeof(config));
	assert_int_equal(ph_bytes_le32(answer.payload + 12), 4);

	memset(f->ram + FE_DATA, 1, MIB);
	uint64_t held = fe_held(f);
	for (uint32_t i = 0; i < 4; i++)
		ph_bytes_put_le32(list + 4 * i, (uint32_t)((FE_GUEST + FE_DATA) / 4096 + i));
	memcpy(f->ram + FE_DATA + 2 * MIB, list, sizeof(list));
	held += 4096;
	fe_do(f, INFLATE, FE_GUEST + FE_DATA + 2 * MIB, sizeof(list), 0, 1);
	assert_int_equal(held - fe_held(f), 4 * 4096);

	/* the driver says how far it is */
	memset(config, 0, sizeof(config));
	memcpy(config, &(struct ph_vhost_config) { PAGEHINT_BALLOON_CONFIG_ACTUAL, 4, 0 }, sizeof(said));
	ph_bytes_put_le32(config + 12, 4);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_CONFIG, config, 16, -1), 0);
	struct pagehint_device_progress progress = { .struct_size = sizeof(progress) };
	assert_int_equal(pagehint_device_progress(pagehint_vhost_device(f->vhost), f->now, &progress), 0);
	assert_int_equal(progress.actual_pages, 4);
	assert_int_equal(progress.state, PAGEHINT_DEVICE_PROGRESS_REACHED);
}

/* Quirks of User-Mode Linux: GET_CONFIG beyond the space, one's own array sent whole, no word that a ring is enabled. */
static void test_quirks(void **state)
{
	struct frontend *f = *state;
	unsigned char config[12 + 64] = { 0 }, table[8 + 2 * 32] = { 0 };
	struct ph_vhost_message answer;
	struct ph_vhost_region region = fe_region();
	uint32_t one = 1;
	fe_greet(f, FE_FEATURES);
	memcpy(config, &(struct ph_vhost_config) { 0, 64, 0 }, 12);
	fe_send(f, PH_VHOST_GET_CONFIG, config, sizeof(config), -1);
	assert_int_equal(fe_answer(f, PH_VHOST_GET_CONFIG, &answer), 0);
	assert_int_equal(answer.size, sizeof(config));
	memcpy(table, &one, 4);
	memcpy(table + 8, &region, sizeof(region));
	assert_int_equal(fe_ask(f, PH_VHOST_SET_MEM_TABLE, table, sizeof(table), f->ram_fd), 0);
	assert_int_equal(fe_stats(f).regions, 1);
	/* a question that also wants an acknowledgement gets one answer */
	fe_send_fds(f, PH_VHOST_GET_QUEUE_NUM, PH_VHOST_NEED_REPLY, NULL, 0, NULL, 0);
	assert_int_equal(fe_answer(f, PH_VHOST_GET_QUEUE_NUM, &answer), 0);
	assert_int_equal(ph_vhost_u64(&answer), 5);
	assert_int_equal(fe_answer(f, 0, &answer), -EAGAIN);
	/* features once more, without the bit that says there are protocol features */
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_FEATURES, FE_FEATURES, -1), 0);
	const struct ph_vhost_vring_addr addr = fe_addr(REPORT);
	int pair[2];
	fe_driver(f, REPORT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_NUM, REPORT, FE_SIZE), 0);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_VRING_ADDR, &addr, sizeof(addr), -1), 0);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_CALL, REPORT, pair[1]), 0);
	f->kick[REPORT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_KICK, REPORT, f->kick[REPORT]), 0);
	assert_int_equal(fe_stats(f).queues_running, 1);
	fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	uint64_t eight[4];
	assert_true(recv(pair[0], eight, sizeof(eight), MSG_DONTWAIT) >= 8); /* a socket for an interrupt */
	close(pair[0]);
	close(pair[1]);
}

/* The frontend goes in the middle, another comes; what was not acknowledged is done again. */
static void test_reconnect(void **state)
{
	struct frontend *f = *state;
	int before = fe_open_fds();
	fe_start(f, FE_FEATURES);
	memset(f->ram + FE_DATA, 1, 4 * MIB);
	fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	assert_int_equal(pagehint_device_set_target(pagehint_vhost_device(f->vhost), f->now, MIB, NULL), 0);
	fe_submit(f, REPORT, FE_GUEST + FE_DATA + MIB, MIB, 1, 2); /* nobody kicks */
	fe_hang_up(f);
	assert_int_equal(fe_step(f), -ENODEV);
	assert_int_equal(fe_stats(f).connected, 0);
	assert_int_equal(fe_stats(f).regions, 0);
	assert_int_equal(fe_open_fds(), before - 2); /* the pair of sockets */
	assert_int_equal(fe_step(f), 0);             /* there is still a device */

	fe_connect(f);
	fe_greet(f, FE_FEATURES);
	fe_share_memory(f);
	for (uint32_t i = 0; i < 5; i++)
		fe_tell_ring(f, i); /* as they lie in memory */
	assert_int_equal(fe_reap(f, REPORT), 1);
	struct pagehint_device_progress progress = { .struct_size = sizeof(progress) };
	assert_int_equal(pagehint_device_progress(pagehint_vhost_device(f->vhost), f->now, &progress), 0);
	assert_int_equal(progress.target_pages, MIB / 4096);
	assert_int_equal(fe_stats(f).connections, 2);
}

/* A new process takes over with the state of the old one, and finishes its work; interrupts are not lost with it. */
static void test_take_over(void **state)
{
	struct frontend *f = *state;
	static unsigned char blob[1 << 20];
	uint64_t bytes = 0;
	fe_start(f, FE_FEATURES);
	assert_int_equal(pagehint_device_set_target(pagehint_vhost_device(f->vhost), f->now, MIB, NULL), 0);
	assert_int_equal(fe_step(f), 0);
	assert_int_equal(pagehint_device_save(pagehint_vhost_device(f->vhost), f->now, blob, sizeof(blob), &bytes), 0);
	memset(f->ram + FE_DATA, 1, MIB);
	fe_submit(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	const struct pagehint_vhost_opts opts = { .struct_size = sizeof(opts), .state = blob, .state_bytes = bytes };
	fe_replace(f, &opts);
	fe_greet(f, FE_FEATURES);
	fe_share_memory(f);
	for (uint32_t i = 0; i < 5; i++)
		fe_tell_ring(f, i);
	assert_int_equal(fe_reap(f, REPORT), 1);
	assert_true(fe_interrupts(f, REPORT) >= 1);
	assert_int_equal(fe_stats(f).states_refused, 0);
	struct pagehint_device_progress progress = { .struct_size = sizeof(progress) };
	assert_int_equal(pagehint_device_progress(pagehint_vhost_device(f->vhost), f->now, &progress), 0);
	assert_int_equal(progress.target_pages, MIB / 4096);
	assert_true(fe_stats(f).config_changes >= 1); /* told once more: the old one may have died before */
}

/* A state that was damaged is dropped, and said so; a state of another driver's features likewise. */
static void test_bad_state(void **state)
{
	struct frontend *f = *state;
	unsigned char blob[4096];
	uint64_t bytes = 0;
	fe_start(f, FE_FEATURES & ~PAGEHINT_BALLOON_F_FREE_PAGE_HINT);
	assert_int_equal(pagehint_device_save(pagehint_vhost_device(f->vhost), f->now, blob, sizeof(blob), &bytes), 0);
	for (int damaged = 0; damaged < 2; damaged++) {
		blob[bytes / 2] ^= (unsigned char)damaged;
		const struct pagehint_vhost_opts opts = { .struct_size = sizeof(opts),
							  .state = blob,
							  .state_bytes = bytes };
		fe_replace(f, &opts);
		fe_start(f, FE_FEATURES);
		assert_int_equal(fe_stats(f).states_refused, 1);
		assert_int_equal(fe_stats(f).queues_running, 5);
		fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	}
}

/* Features said again, and another driver begins on fresh rings; what the old one's rings hold is never touched. */
static void test_another_driver(void **state)
{
	struct frontend *f = *state;
	const uint64_t no_reset = fe_get_u64(f, PH_VHOST_GET_PROTOCOL_FEATURES) & ~PH_VHOST_P(RESET_DEVICE);
	fe_greet(f, FE_FEATURES);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_PROTOCOL_FEATURES, no_reset, -1), 0);
	fe_share_memory(f);
	fe_rings(f);
	assert_int_equal(fe_stats(f).queues_running, 5);
	memset(f->ram, 0xff, FE_DATA); /* the guest uses that memory for something else now */
	f->events = 0;
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_FEATURES, FE_FEATURES | PH_VHOST_F_PROTOCOL, -1), 0);
	assert_true(f->events & PAGEHINT_VHOST_EVENT_RESET);
	assert_int_equal(fe_stats(f).queues_running, 0);
	for (uint64_t i = 0; i < FE_DATA; i++)
		assert_int_equal(f->ram[i], 0xff);
	fe_share_memory(f);
	fe_rings(f);
	fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
}

/* Where the frontend has a word for a reset, features said again are just that: a guest that was paused keeps its poison. */
static void test_paused_guest(void **state)
{
	struct frontend *f = *state;
	const uint64_t features = FE_FEATURES | PAGEHINT_BALLOON_F_PAGE_POISON;
	unsigned char poison[16] = { 0 };
	memcpy(poison, &(struct ph_vhost_config) { PAGEHINT_BALLOON_CONFIG_POISON_VAL, 4, 0 }, 12);
	memset(poison + 12, 0xaa, 4);
	fe_greet(f, features);
	fe_share_memory(f);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_CONFIG, poison, sizeof(poison), -1), 0);
	fe_rings(f);
	for (int round = 0; round < 2; round++) {
		memset(f->ram + FE_DATA, 0xaa, MIB);
		uint64_t held = fe_held(f);
		fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
		assert_int_equal(fe_held(f), held); /* acknowledged, not discarded */
		struct ph_vhost_message answer;
		for (uint32_t i = 0; i < 5; i++) {
			const struct ph_vhost_vring_state which = { i, 0 };
			fe_send(f, PH_VHOST_GET_VRING_BASE, &which, sizeof(which), -1);
			assert_int_equal(fe_answer(f, PH_VHOST_GET_VRING_BASE, &answer), 0);
			struct ph_vhost_vring_state base;
			memcpy(&base, answer.payload, sizeof(base));
			assert_int_equal(base.index, i);
			assert_int_equal(base.num, i == REPORT ? round + 1 : 0);
		}
		assert_int_equal(fe_stats(f).queues_running, 0);
		assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_FEATURES, features | PH_VHOST_F_PROTOCOL, -1), 0);
		for (uint32_t i = 0; i < 5; i++)
			fe_tell_ring(f, i);
	}
	assert_int_equal(fe_ask(f, PH_VHOST_RESET_DEVICE, NULL, 0, -1), 0);
	assert_int_equal(fe_stats(f).queues_running, 0);
	assert_int_equal(pagehint_device_config_read(pagehint_vhost_device(f->vhost), 12, poison, 4), 0);
	assert_int_equal(poison[0], 0);
}

/* A process that knows nothing of a running driver's poison must not discard what it reports. */
static void test_unknown_poison(void **state)
{
	struct frontend *f = *state;
	const uint64_t features = FE_FEATURES | PAGEHINT_BALLOON_F_PAGE_POISON;
	fe_start(f, features);
	fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	fe_replace(f, NULL);
	fe_greet(f, features);
	fe_share_memory(f);
	for (uint32_t i = 0; i < 5; i++)
		fe_tell_ring(f, i);
	memset(f->ram + FE_DATA, 0xaa, MIB);
	uint64_t held = fe_held(f);
	fe_do(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	assert_int_equal(fe_held(f), held);
}

/* The memory table changes under running queues: they go on where it still has them. */
static void test_table_changes(void **state)
{
	struct frontend *f = *state;
	struct ph_vhost_region halves[2] = { fe_region(), fe_region() };
	const int fds[2] = { f->ram_fd, f->ram_fd };
	fe_start(f, FE_FEATURES);
	halves[0].size = halves[1].size = FE_BYTES / 2;
	halves[1].guest += FE_BYTES; /* elsewhere in the guest */
	halves[1].user += FE_BYTES / 2;
	halves[1].offset = FE_BYTES / 2;
	f->events = 0;
	assert_int_equal(fe_table(f, halves, 2, fds), 0);
	assert_true(f->events & PAGEHINT_VHOST_EVENT_MEMORY);
	assert_int_equal(fe_stats(f).queues_running, 5);
	memset(f->ram + FE_BYTES / 2, 1, MIB);
	uint64_t held = fe_held(f);
	fe_do(f, REPORT, FE_GUEST + FE_BYTES, MIB, 1, 1);
	assert_int_equal(held - fe_held(f), MIB);

	/* a table that is wrong leaves none: the guest's memory is not what the last one said */
	halves[1].guest = halves[0].guest;
	assert_int_equal(fe_table(f, halves, 2, fds), 1);
	assert_int_equal(fe_stats(f).regions, 0);
	assert_int_equal(fe_stats(f).queues_running, 0);
	fe_share_memory(f);
	assert_int_equal(fe_stats(f).queues_running, 5);
}

/* Regions one at a time. */
static void test_slots(void **state)
{
	struct frontend *f = *state;
	struct {
		uint64_t padding;
		struct ph_vhost_region region;
	} one = { 0, fe_region() }, other = { 0, fe_region() };
	one.region.size = other.region.size = FE_BYTES / 2;
	other.region.guest += FE_BYTES;
	other.region.user += FE_BYTES;
	other.region.offset = FE_BYTES / 2;
	fe_greet(f, FE_FEATURES);
	assert_true(fe_get_u64(f, PH_VHOST_GET_MAX_MEM_SLOTS) >= 8);
	assert_int_equal(fe_ask(f, PH_VHOST_ADD_MEM_REG, &one, sizeof(one), f->ram_fd), 0);
	assert_int_equal(fe_ask(f, PH_VHOST_ADD_MEM_REG, &one, sizeof(one), f->ram_fd), 1); /* there already */
	assert_int_equal(fe_ask(f, PH_VHOST_ADD_MEM_REG, &other, sizeof(other), f->ram_fd), 0);
	fe_rings(f);
	assert_int_equal(fe_stats(f).regions, 2);
	assert_int_equal(fe_ask(f, PH_VHOST_REM_MEM_REG, &other, sizeof(other), -1), 0);
	assert_int_equal(fe_ask(f, PH_VHOST_REM_MEM_REG, &other, sizeof(other), -1), 1);
	assert_int_equal(fe_stats(f).queues_running, 5);
	assert_int_equal(fe_ask(f, PH_VHOST_REM_MEM_REG, &one, sizeof(one), -1), 0);
	assert_int_equal(fe_stats(f).queues_running, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_report, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_target, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_quirks, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_reconnect, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_take_over, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_bad_state, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_another_driver, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_paused_guest, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_unknown_poison, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_table_changes, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_slots, fe_set_up, fe_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
