/*
 * A backend that takes its time: while a discard is in flight the guest's memory stays mapped, whatever the frontend says, and
 * what it said is done afterwards, in its order.
 */
#include "support/vhost_frontend.h"

#include <pagehint/backend.h>

#define MIB (UINT64_C(1) << 20)
#define REPORT 4u
#define HELD 8

/* Keeps what is submitted until `open`; then every batch is accepted. */
struct slow {
	int open;
	uint32_t n, destroyed;
	struct {
		uint64_t cookie;
		uint32_t runs;
		uint64_t bytes[32];
	} held[HELD];
};

static struct slow slow;

static int submit(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie)
{
	(void)ctx;
	(void)flags;
	if (slow.n == HELD || n > 32)
		return -EAGAIN;
	slow.held[slow.n].cookie = cookie;
	slow.held[slow.n].runs = n;
	for (uint32_t i = 0; i < n; i++)
		slow.held[slow.n].bytes[i] = runs[i].frames << 12;
	slow.n++;
	return 0;
}

static int reap(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie, uint32_t *ret_n)
{
	(void)ctx;
	if (!slow.open || slow.n == 0)
		return -EAGAIN;
	slow.n--;
	assert_true(slow.held[slow.n].runs <= max);
	for (uint32_t i = 0; i < slow.held[slow.n].runs; i++) {
		memset(&outcomes[i], 0, sizeof(outcomes[i]));
		outcomes[i].asked = outcomes[i].accepted = slow.held[slow.n].bytes[i];
	}
	*ret_cookie = slow.held[slow.n].cookie;
	*ret_n = slow.held[slow.n].runs;
	return 0;
}

static void destroy(void *ctx)
{
	(void)ctx;
	slow.destroyed++;
}

static int make(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate, struct pagehint_backend **ret_backend)
{
	static const struct pagehint_backend_ops ops = { .struct_size = sizeof(ops),
							 .name = "slow",
							 .caps = PAGEHINT_BACKEND_ASYNC,
							 .max_runs = 32,
							 .submit = submit,
							 .reap = reap,
							 .destroy = destroy };
	const struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .gate = gate };
	(void)map;
	return pagehint_backend_new(&ops, ctx, &opts, ret_backend);
}

static int set_up(void **state)
{
	const struct pagehint_vhost_opts opts = { .struct_size = sizeof(opts), .backend = make, .backend_ctx = &slow };
	struct frontend *f = malloc(sizeof(*f));
	if (f == NULL)
		return -1;
	memset(&slow, 0, sizeof(slow));
	fe_open(f, &opts);
	fe_start(f, FE_FEATURES);
	*state = f;
	return 0;
}

/* A few steps at rising times, as a loop with a timer makes them. Returns the last one's result. */
static int some_steps(struct frontend *f)
{
	int r = 0;
	for (int i = 0; i < 20 && r == 0; i++) {
		r = pagehint_vhost_step(f->vhost, f->now, &f->deadline, NULL);
		f->now += 20000000;
	}
	return r;
}

static void begin_report(struct frontend *f)
{
	fe_submit(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	fe_kick(f, REPORT);
	assert_int_equal(some_steps(f), 0);
	assert_int_equal(slow.n, 1);
	assert_int_equal(fe_reap(f, REPORT), 0);
}

/* Sends a message that has to wait; it is answered only when the discard has ended. */
static void waits(struct frontend *f, uint32_t request, const void *payload, uint32_t size, int fd)
{
	struct ph_vhost_message answer;
	fe_send_fds(f, request, PH_VHOST_NEED_REPLY, payload, size, &fd, fd >= 0);
	fe_send_fds(f, PH_VHOST_GET_QUEUE_NUM, 0, NULL, 0, NULL, 0); /* the next in line */
	assert_int_equal(some_steps(f), 0);
	assert_int_equal(ph_vhost_wire_receive(&f->wire, &answer), -EAGAIN);
	assert_int_equal(fe_stats(f).regions, 1); /* nothing was unmapped */
	slow.open = 1;
	assert_int_equal(some_steps(f), 0);
	assert_int_equal(ph_vhost_wire_receive(&f->wire, &answer), 0);
	assert_int_equal(answer.request, request);
	assert_int_equal(ph_vhost_wire_receive(&f->wire, &answer), 0);
	assert_int_equal(answer.request, PH_VHOST_GET_QUEUE_NUM);
	slow.open = 0;
}

static void test_messages_wait(void **state)
{
	struct frontend *f = *state;
	const struct {
		uint32_t n, padding;
		struct ph_vhost_region region;
	} table = { 1, 0, fe_region() };
	const struct ph_vhost_vring_state which = { REPORT, 0 };
	begin_report(f);
	waits(f, PH_VHOST_SET_MEM_TABLE, &table, sizeof(table), f->ram_fd);
	assert_int_equal(fe_reap(f, REPORT), 1); /* acknowledged before, in the memory that there was */
	begin_report(f);
	waits(f, PH_VHOST_GET_VRING_BASE, &which, sizeof(which), -1);
	assert_int_equal(fe_reap(f, REPORT), 1);
	fe_tell_ring(f, REPORT);
	begin_report(f);
	waits(f, PH_VHOST_RESET_DEVICE, NULL, 0, -1);
	assert_int_equal(fe_stats(f).queues_running, 0);
	slow.open = 1;
	fe_close(f);
	assert_int_equal(slow.destroyed, 1);
	free(f);
}

/* The frontend goes while a discard is in flight: its memory goes only afterwards. */
static void test_hang_up_waits(void **state)
{
	struct frontend *f = *state;
	begin_report(f);
	fe_hang_up(f);
	assert_int_equal(some_steps(f), 0);
	assert_int_equal(fe_stats(f).connected, 1);
	assert_int_equal(fe_stats(f).regions, 1);
	assert_int_equal(pagehint_vhost_attach(f->vhost, f->ram_fd), -EBUSY);
	assert_int_equal(pagehint_vhost_free(f->vhost), -EBUSY);
	slow.open = 1;
	assert_int_equal(some_steps(f), -ENODEV);
	assert_int_equal(fe_stats(f).regions, 0);
	fe_connect(f);
	fe_start(f, FE_FEATURES);
	assert_int_equal(fe_stats(f).queues_running, 5);
	fe_close(f);
	assert_int_equal(slow.destroyed, 1);
	free(f);
}

/* The same with a message that waits, and descriptors in it. */
static void test_hang_up_in_line(void **state)
{
	struct frontend *f = *state;
	const struct {
		uint32_t n, padding;
		struct ph_vhost_region region;
	} table = { 1, 0, fe_region() };
	int before = fe_open_fds();
	begin_report(f);
	fe_send(f, PH_VHOST_SET_MEM_TABLE, &table, sizeof(table), f->ram_fd);
	assert_int_equal(some_steps(f), 0);
	assert_int_equal(fe_open_fds(), before + 1); /* in the message that waits */
	shutdown(f->wire.fd, SHUT_RDWR);
	slow.open = 1;
	assert_int_equal(some_steps(f), -ENODEV);
	fe_close(f);
	assert_int_equal(slow.destroyed, 1);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_messages_wait, set_up),
		cmocka_unit_test_setup(test_hang_up_waits, set_up),
		cmocka_unit_test_setup(test_hang_up_in_line, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
