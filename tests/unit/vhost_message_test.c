/* The shapes of messages, and messages in pieces over a real socket: every descriptor is handed out once or closed. */
#include "support/vhost_frontend.h"

#define KNOWN 25 /* requests that have a shape */

static struct ph_vhost_message message(uint32_t request, uint32_t size, uint32_t fds)
{
	struct ph_vhost_message m;
	memset(&m, 0, sizeof(m));
	m.request = request;
	m.flags = PH_VHOST_VERSION;
	m.size = size;
	m.fds_n = fds;
	return m;
}

/* Tries every size and number of descriptors on every request; counts those that are right. */
static void test_shapes(void **state)
{
	(void)state;
	uint32_t known = 0, right[PH_VHOST_REQUESTS] = { 0 };
	for (uint32_t request = 0; request < PH_VHOST_REQUESTS + 20; request++) {
		uint32_t is_known = 0;
		for (uint32_t size = 0; size <= PH_VHOST_PAYLOAD; size++)
			for (uint32_t fds = 0; fds <= PH_VHOST_FDS; fds++) {
				const struct ph_vhost_message m = message(request, size, fds);
				int r = ph_vhost_message_check(&m);
				assert_true(r == 0 || r == -EPROTO || r == -EOPNOTSUPP);
				assert_true(r == -EOPNOTSUPP || request < PH_VHOST_REQUESTS);
				is_known |= r != -EOPNOTSUPP;
				if (r == 0)
					right[request]++;
			}
		known += is_known;
		assert_int_equal(is_known, strcmp(ph_vhost_message_name(request), "?") != 0);
	}
	assert_int_equal(known, KNOWN);
	assert_int_equal(right[PH_VHOST_SET_FEATURES], 1);
	assert_int_equal(right[PH_VHOST_SET_VRING_NUM], 1);
	assert_int_equal(right[PH_VHOST_SET_VRING_ADDR], 1);
	assert_int_equal(right[PH_VHOST_SET_VRING_KICK],
			 1); /* with a descriptor: the payload of zeros says there is one */
	assert_int_equal(right[PH_VHOST_GET_FEATURES], 9);
	assert_int_equal(right[PH_VHOST_SET_MEM_TABLE], 0); /* zeros say no region, and one is the least */
	assert_int_equal(right[PH_VHOST_ADD_MEM_REG], 1);
	assert_int_equal(right[PH_VHOST_REM_MEM_REG], 2);
	assert_int_equal(right[PH_VHOST_GET_CONFIG], 1);
}

static void test_headers(void **state)
{
	(void)state;
	struct ph_vhost_message m = message(PH_VHOST_SET_OWNER, 0, 0);
	assert_int_equal(ph_vhost_message_check(&m), 0);
	for (uint32_t flags = 0; flags < 64; flags++) {
		m.flags = flags;
		int ours = (flags & 3) == 1 && (flags & PH_VHOST_REPLY) == 0;
		assert_int_equal(ph_vhost_message_check(&m), ours ? 0 : -EINVAL);
	}
	m = message(PH_VHOST_SET_OWNER, PH_VHOST_PAYLOAD + 1, 0);
	assert_int_equal(ph_vhost_message_check(&m), -EINVAL);
	m = message(UINT32_MAX, 0, 0);
	assert_int_equal(ph_vhost_message_check(&m), -EOPNOTSUPP);
}

static void test_counts(void **state)
{
	(void)state;
	struct ph_vhost_message m;
	for (uint32_t n = 0; n <= PH_VHOST_FDS + 1; n++)
		for (uint32_t fds = 0; fds <= PH_VHOST_FDS; fds++)
			for (uint32_t size = 0; size <= 8 + 32 * PH_VHOST_FDS; size += 8) {
				m = message(PH_VHOST_SET_MEM_TABLE, size, fds);
				memcpy(m.payload, &n, sizeof(n));
				int right = n >= 1 && n == fds && size >= 8 + 32 * n;
				assert_int_equal(ph_vhost_message_check(&m), right ? 0 : -EPROTO);
			}
	for (uint32_t fds = 0; fds < 3; fds++)
		for (uint64_t none = 0; none < 2; none++) {
			const uint64_t said = 3 | (none ? PH_VHOST_VRING_NOFD : 0);
			m = message(PH_VHOST_SET_VRING_CALL, 8, fds);
			memcpy(m.payload, &said, sizeof(said));
			assert_int_equal(ph_vhost_message_check(&m), fds == !none ? 0 : -EPROTO);
		}
	const struct ph_vhost_config config = { 4, 4, 0 };
	for (uint32_t size = 12; size < 24; size++) {
		m = message(PH_VHOST_SET_CONFIG, size, 0);
		memcpy(m.payload, &config, sizeof(config));
		assert_int_equal(ph_vhost_message_check(&m), size == 16 ? 0 : -EPROTO);
	}
}

/* ---- the wire ---- */

struct pair {
	int peer;
	struct ph_vhost_wire wire;
};

static int set_up(void **state)
{
	struct pair *p = malloc(sizeof(*p));
	int fds[2];
	if (p == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		return -1;
	p->peer = fds[0];
	ph_vhost_wire_init(&p->wire, &ph_sys_real, fds[1]);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *p = *state;
	ph_vhost_wire_drop(&p->wire);
	close(p->peer);
	close(p->wire.fd);
	free(p);
	return 0;
}

static void put(const struct pair *p, const void *bytes, size_t n, const int *fds, uint32_t fds_n)
{
	assert_int_equal(ph_sys_real.send(NULL, p->peer, bytes, n, fds, fds_n), n);
}

/* Cut after every byte, and the descriptor with any of the pieces. */
static void test_pieces(void **state)
{
	struct pair *p = *state;
	const struct {
		uint32_t header[3];
		uint64_t value;
	} __attribute__((packed)) whole = { { PH_VHOST_SET_VRING_KICK, 1, 8 }, 2 };
	struct ph_vhost_message m;
	int before = fe_open_fds();
	for (size_t cut = 1; cut < sizeof(whole); cut++)
		for (int second = 0; second < 2; second++) {
			put(p, &whole, cut, &p->peer, !second);
			assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -EAGAIN);
			put(p, (const char *)&whole + cut, sizeof(whole) - cut, &p->peer, (uint32_t)second);
			assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), 0);
			assert_int_equal(m.request, PH_VHOST_SET_VRING_KICK);
			assert_int_equal(ph_vhost_u64(&m), 2);
			assert_int_equal(m.fds_n, 1);
			close(m.fds[0]);
			assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -EAGAIN);
		}
	assert_int_equal(fe_open_fds(), before);
}

/* Two messages at once: the second one's descriptor is not taken for the first one's. */
static void test_two_at_once(void **state)
{
	struct pair *p = *state;
	const uint32_t owner[3] = { PH_VHOST_SET_OWNER, 1, 0 };
	const struct {
		uint32_t header[3];
		uint64_t value;
	} __attribute__((packed)) kick = { { PH_VHOST_SET_VRING_KICK, 1, 8 }, 1 };
	struct ph_vhost_message m;
	put(p, owner, sizeof(owner), NULL, 0);
	put(p, &kick, sizeof(kick), &p->peer, 1);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), 0);
	assert_int_equal(m.fds_n, 0);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), 0);
	assert_int_equal(m.fds_n, 1);
	close(m.fds[0]);
}

static void test_too_many_fds(void **state)
{
	struct pair *p = *state;
	const uint32_t owner[3] = { PH_VHOST_SET_OWNER, 1, 0 };
	int fds[100], before = fe_open_fds();
	struct ph_vhost_message m;
	for (int i = 0; i < 100; i++)
		fds[i] = p->peer;
	put(p, owner, sizeof(owner), fds, 100);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -EPROTO);
	assert_int_equal(fe_open_fds(), before);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -EPROTO); /* broken for good */
	assert_int_equal(ph_vhost_wire_send(&p->wire, 1, 1, NULL, 0, NULL, 0), -EPROTO);
}

static void test_ends(void **state)
{
	struct pair *p = *state;
	const uint32_t owner[3] = { PH_VHOST_SET_OWNER, 1, 100 };
	int before = fe_open_fds();
	struct ph_vhost_message m;
	put(p, owner, sizeof(owner), &p->peer, 1);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -EAGAIN);
	assert_int_equal(shutdown(p->peer, SHUT_RDWR), 0);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -ENODEV); /* in the middle */
	assert_int_equal(fe_open_fds(), before);
}

static void test_oversize(void **state)
{
	struct pair *p = *state;
	const uint32_t owner[3] = { PH_VHOST_SET_OWNER, 1, PH_VHOST_PAYLOAD + 1 };
	struct ph_vhost_message m;
	put(p, owner, sizeof(owner), NULL, 0);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -EPROTO);
}

/* A peer that does not read: one answer waits, nothing more is taken until it is gone. */
static void test_slow_peer(void **state)
{
	struct pair *p = *state;
	static unsigned char payload[PH_VHOST_PAYLOAD], sink[1 << 16];
	const uint32_t owner[3] = { PH_VHOST_SET_OWNER, 1, 0 };
	struct ph_vhost_message m;
	int sent = 0;
	while (p->wire.pending == 0 && sent < 100000) {
		assert_int_equal(ph_vhost_wire_send(&p->wire, 1, 5, payload, sizeof(payload), NULL, 0), 0);
		sent++;
	}
	assert_true(p->wire.pending != 0);
	assert_int_equal(ph_vhost_wire_send(&p->wire, 1, 5, payload, 8, NULL, 0), -EBUSY);
	put(p, owner, sizeof(owner), NULL, 0);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), -EAGAIN);
	assert_int_equal(ph_vhost_wire_flush(&p->wire), -EAGAIN);
	uint64_t got = 0, all = (uint64_t)sent * (PH_VHOST_HEADER + sizeof(payload));
	while (got < all) {
		ssize_t n = recv(p->peer, sink, sizeof(sink), MSG_DONTWAIT);
		got += n > 0 ? (uint64_t)n : 0;
		assert_true(n > 0 || ph_vhost_wire_flush(&p->wire) == 0 || p->wire.pending != 0);
	}
	assert_int_equal(ph_vhost_wire_flush(&p->wire), 0);
	assert_int_equal(ph_vhost_wire_receive(&p->wire, &m), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_counts),
		cmocka_unit_test_setup_teardown(test_pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_two_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many_fds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_oversize, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_slow_peer, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
