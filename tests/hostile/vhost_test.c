/*
 * A frontend that lies: bytes that are no messages, regions that cannot be, rings in strange places, descriptors of the wrong
 * kind, an end at any moment. The handle answers or hangs up, keeps no descriptor, and discards nothing it was not given.
 */
#include "support/rounds.h"
#include "support/vhost_frontend.h"

#include "support/chance.h"

#include <fcntl.h>

#define MIB (UINT64_C(1) << 20)

static struct {
	uint64_t seed;
	unsigned round;
} m;

/* What is shared afterwards, and whether it is taken. */
static void try_region(struct frontend *f, struct ph_vhost_region region, int fd, int is_good)
{
	assert_int_equal(fe_table(f, &region, 1, &fd), is_good ? 0 : 1);
	assert_int_equal(fe_stats(f).regions, is_good);
}

static void test_regions(void **context)
{
	struct frontend *f = *context;
	struct ph_vhost_region good = fe_region(), r;
	int before;
	fe_greet(f, FE_FEATURES);
	before = fe_open_fds();
#define BAD(member, value)  \
	r = good;           \
	r.member = (value); \
	try_region(f, r, f->ram_fd, 0)
	BAD(size, 0);
	BAD(size, 1);
	BAD(size, 4095);
	BAD(size, FE_BYTES + 4096); /* past the end of the file */
	BAD(size, UINT64_MAX);
	BAD(size, UINT64_MAX & ~UINT64_C(4095));
	BAD(size, INT64_MAX & ~INT64_C(4095));
	BAD(guest, 1);
	BAD(guest, UINT64_MAX & ~UINT64_C(4095)); /* wraps */
	BAD(user, UINT64_MAX - 4095);
	BAD(offset, 4096);
	BAD(offset, 1);
	BAD(offset, UINT64_MAX & ~UINT64_C(4095));
	BAD(offset, (uint64_t)INT64_MAX + 1);
#undef BAD
	int pipes[2], null = open("/dev/null", O_RDWR | O_CLOEXEC), directory = open("/", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	try_region(f, good, pipes[0], 0);
	try_region(f, good, null, 0);
	try_region(f, good, directory, 0);
	try_region(f, good, f->wire.fd, 0);
	close(pipes[0]);
	close(pipes[1]);
	close(null);
	close(directory);
	assert_int_equal(fe_open_fds(), before);
	try_region(f, good, f->ram_fd, 1);
}

static void test_overlaps(void **context)
{
	struct frontend *f = *context;
	struct ph_vhost_region r[3] = { fe_region(), fe_region(), fe_region() };
	const int fds[3] = { f->ram_fd, f->ram_fd, f->ram_fd };
	fe_greet(f, FE_FEATURES);
	for (int i = 0; i < 3; i++) {
		r[i].size = MIB;
		r[i].guest += (uint64_t)i * MIB;
		r[i].user += (uint64_t)i * MIB;
	}
	assert_int_equal(fe_table(f, r, 3, fds), 0);
	r[2].guest -= 4096; /* by a page in the guest */
	assert_int_equal(fe_table(f, r, 3, fds), 1);
	r[2].guest += 4096;
	r[2].user -= 4096; /* in the frontend */
	assert_int_equal(fe_table(f, r, 3, fds), 1);
	assert_int_equal(fe_stats(f).regions, 0);
	r[2].user += 4096;
	r[1] = r[2]; /* the same twice */
	assert_int_equal(fe_table(f, r, 3, fds), 1);
}

/* Rings that lie outside, across an edge, wrap, overlap or are misaligned do not run, or harm nothing when they do. */
static void test_ring_places(void **context)
{
	struct frontend *f = *context;
	static const uint64_t places[] = { 0,
					   1,
					   FE_USER - 1,
					   FE_USER + FE_BYTES - 8,
					   FE_USER + FE_BYTES - 16 * FE_SIZE + 16,
					   FE_USER + FE_BYTES,
					   UINT64_MAX,
					   UINT64_MAX - 1024,
					   FE_GUEST,
					   FE_USER + 1,
					   FE_USER + 8 };
	static const uint64_t bytes[3] = { 16 * FE_SIZE, 6 + 2 * FE_SIZE, 6 + 8 * FE_SIZE };
	uint64_t runs = 0;
	fe_greet(f, FE_FEATURES);
	fe_share_memory(f);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (int part = 0; part < 3; part++) {
			struct ph_vhost_vring_addr addr = fe_addr(4);
			*(part == 0 ? &addr.desc : part == 1 ? &addr.avail : &addr.used) = places[i];
			fe_driver(f, 4);
			fe_tell_ring(f, 4);
			assert_int_equal(fe_stats(f).queues_running, 1);
			assert_int_equal(fe_ask(f, PH_VHOST_SET_VRING_ADDR, &addr, sizeof(addr), -1), 0);
			uint64_t need = bytes[part], at = places[i] - FE_USER;
			assert_true(fe_stats(f).queues_running == 0 ||
				    (places[i] >= FE_USER && at < FE_BYTES && need <= FE_BYTES - at));
			runs += fe_stats(f).queues_running;
			fe_kick(f, 4);
			assert_int_equal(fe_step(f), 0);
			assert_int_equal(fe_ask(f, PH_VHOST_RESET_DEVICE, NULL, 0, -1), 0);
			assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_FEATURES, FE_FEATURES | PH_VHOST_F_PROTOCOL, -1),
					 0);
		}
	assert_true(runs > 0 && runs < 10);  /* a few of these places are strange, not wrong */
	for (uint32_t i = 5; i < 256; i++) { /* queues that no balloon has */
		assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_NUM, i, FE_SIZE), 1);
		assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_KICK, i, f->ram_fd), 1);
	}
	static const uint32_t sizes[] = { 0, 3, 65536, UINT32_MAX, 32769 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_NUM, 0, sizes[i]), 1);
	assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_BASE, 0, 65536), 1);
}

/* What is no kick and no call is refused; what ends is noticed; what is full is not waited for. */
static void test_descriptors(void **context)
{
	struct frontend *f = *context;
	int before, null = open("/dev/null", O_RDWR | O_CLOEXEC), pair[2];
	fe_start(f, FE_FEATURES);
	before = fe_open_fds();
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_KICK, 4, f->ram_fd), 1);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_CALL, 4, f->ram_fd), 1);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_CALL, 4, null), 1);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_BACKEND_REQ_FD, NULL, 0, f->ram_fd), 1);
	assert_int_equal(fe_open_fds(), before);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_CALL, 4, pair[1]), 0); /* nobody reads the other end */
	for (int i = 0; i < 20000; i++)
		ph_vhost_tell_queue(f->vhost, 4);
	assert_true(fe_stats(f).interrupts_lost > 0);
	close(pair[0]);
	ph_vhost_tell_queue(f->vhost, 4); /* gone: no signal kills us */
	close(pair[1]);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_KICK, 4, pair[1]), 0);
	close(pair[1]);
	assert_int_equal(fe_stats(f).queues_running, 5);
	close(pair[0]);
	assert_int_equal(fe_step(f), 0); /* comes to rest: a closed kick is not looked at again and again */
	assert_int_equal(fe_stats(f).queues_running, 4);
	close(null);
}

/* Any request, with any size and payload, with any number of descriptors: answered, ignored, or the end; nothing leaks. */
static void one_session(struct frontend *f)
{
	static const uint32_t sizes[] = {
		0, 1, 7, 8, 9, 12, 16, 20, 24, 32, 40, 48, 72, 264, 512, 513, 4096, UINT32_MAX
	};
	for (int i = 0; i < 40; i++) {
		unsigned char bytes[PH_VHOST_HEADER + 4096];
		int fds[12];
		uint32_t request =
			(uint32_t)rnd(8) == 0 ? (uint32_t)rnd(UINT32_MAX) : (uint32_t)rnd(PH_VHOST_REQUESTS + 2);
		uint32_t header[3] = { request, (uint32_t)(rnd(10) == 0 ? rnd(16) : rnd(2) ? 9 : 1), 0 };
		header[2] = rnd(20) == 0 ? sizes[rnd(sizeof(sizes) / sizeof(sizes[0]))] : sizes[rnd(15)];
		for (size_t j = 0; j < sizeof(bytes); j++)
			bytes[j] = (unsigned char)(rnd(3) == 0 ? rnd(256) : rnd(2) ? 0 : rnd(6));
		memcpy(bytes, header, sizeof(header));
		uint32_t n = (uint32_t)(rnd(3) == 0 ? rnd(12) : rnd(2)), size = header[2] < 4096 ? header[2] : 4096;
		for (uint32_t j = 0; j < n; j++)
			fds[j] = rnd(2) ? f->ram_fd : f->kick[0];
		if (rnd(30) == 0)
			size = (uint32_t)rnd(size + 1);
		(void)ph_sys_real.send(NULL, f->wire.fd, bytes, PH_VHOST_HEADER + size, fds, n);
		if (fe_step(f) != 0)
			return;
		while (recv(f->wire.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
	shutdown(f->wire.fd, SHUT_RDWR);
	assert_int_equal(fe_step(f), -ENODEV);
}

static void test_any_messages(void **context)
{
	struct frontend *f = *context;
	m.seed = state = UINT64_C(0x9e3779b97f4a7c15);
	f->kick[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memset(f->ram, 0x77, FE_BYTES);
	int before = fe_open_fds();
	for (m.round = 0; m.round < rounds_scaled(400); m.round++) {
		one_session(f);
		close(f->wire.fd);
		REQUIRE(fe_open_fds() == before - 2);
		REQUIRE(fe_stats(f).connected == 0 && fe_stats(f).regions == 0);
		fe_connect(f);
	}
	for (uint64_t i = 0; i < FE_BYTES; i++) /* no queue ever ran with anything in it */
		REQUIRE(f->ram[i] == 0x77);
}

/* A right session that breaks off after each of its messages. */
static void test_breaks_off(void **context)
{
	struct frontend *f = *context;
	int before = fe_open_fds();
	for (int steps = 0; steps < 4; steps++) {
		if (steps > 0)
			fe_greet(f, FE_FEATURES);
		if (steps > 1)
			fe_share_memory(f);
		if (steps > 2)
			fe_rings(f);
		fe_hang_up(f);
		assert_int_equal(fe_step(f), -ENODEV);
		assert_int_equal(fe_open_fds(), before - 2);
		fe_connect(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_regions, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_overlaps, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_ring_places, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_descriptors, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_any_messages, fe_set_up, fe_tear_down),
		cmocka_unit_test_setup_teardown(test_breaks_off, fe_set_up, fe_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
