/*
 * A device that disappears at its k-th register access, for k = 1, 2, 3 .. until a whole life passes without; and one whose
 * k-th queue cannot be set up. Whatever was under way: no frame is lost, each batch ends once, and the driver works with the
 * device's successor.
 */
#include "support/balloon_serve.h"
#include "virtio/transport.h"

static struct {
	struct pagehint_virtio_ops real;
	struct dev *dev;
	uint64_t calls, at;
	uint64_t setups, bad_setup;
} fault;

static void count(void)
{
	if (++fault.calls == fault.at)
		fault.dev->is_gone = 1;
}

static uint32_t get_status(void *ctx)
{
	count();
	return fault.real.get_status(ctx);
}

static void set_status(void *ctx, uint32_t status)
{
	count();
	if (!fault.dev->is_gone)
		fault.real.set_status(ctx, status);
}

static uint64_t get_features(void *ctx)
{
	count();
	return fault.dev->is_gone ? UINT64_MAX : fault.real.get_features(ctx);
}

static void set_features(void *ctx, uint64_t features)
{
	count();
	if (!fault.dev->is_gone)
		fault.real.set_features(ctx, features);
}

static uint32_t queue_max(void *ctx, uint32_t index)
{
	count();
	return fault.dev->is_gone ? UINT32_MAX : fault.real.queue_max(ctx, index);
}

static int queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	count();
	if (++fault.setups == fault.bad_setup)
		return -ENODEV;
	return fault.dev->is_gone ? 0 : fault.real.queue_setup(ctx, queue);
}

static void notify(void *ctx, uint32_t index)
{
	count();
	if (!fault.dev->is_gone)
		fault.real.notify(ctx, index);
}

static uint32_t config_read(void *ctx, uint32_t offset)
{
	count();
	return fault.dev->is_gone ? UINT32_MAX : fault.real.config_read(ctx, offset);
}

static void config_write(void *ctx, uint32_t offset, uint32_t value)
{
	count();
	if (!fault.dev->is_gone)
		fault.real.config_write(ctx, offset, value);
}

static uint32_t config_generation(void *ctx)
{
	count();
	return fault.dev->is_gone ? UINT32_MAX : fault.real.config_generation(ctx);
}

static struct dev *faulty_device(uint64_t at, uint64_t bad_setup)
{
	static const struct pagehint_virtio_ops ops = {
		.struct_size = sizeof(ops),
		.name = "faulty",
		.get_status = get_status,
		.set_status = set_status,
		.get_features = get_features,
		.set_features = set_features,
		.queue_max = queue_max,
		.queue_setup = queue_setup,
		.notify = notify,
		.config_read = config_read,
		.config_write = config_write,
		.config_generation = config_generation,
	};
	struct dev *d = dev_new();
	memset(&fault, 0, sizeof(fault));
	fault.dev = d;
	fault.real = d->virtio->ops;
	fault.at = at;
	fault.bad_setup = bad_setup;
	assert_int_equal(pagehint_virtio_init(d->virtio_memory, pagehint_virtio_size(), &ops, d, &d->virtio), 0);
	dev_init(d);
	return d;
}

static void serve_all(struct dev *d)
{
	if (d->is_gone)
		return;
	for (uint32_t duty = 0; duty < DEV_QUEUES; duty++)
		(void)dev_serve(d, duty, DEV_EVERYTHING);
}

/* Inflates, reports, hints, runs out of memory, deflates, as far as the device lasts. Batches taken are counted. */
static uint64_t live(struct dev *d)
{
	struct pagehint_run run = { 60000, 512 };
	uint64_t now = 10, deadline, given, batches = 0;
	if (pagehint_driver_start(d->driver, now) < 0)
		return 0;
	for (uint32_t i = 0; i < 12; i++, now += 1000) {
		d->config[0] = i < 6 ? 3000 : 100;
		d->config[2] = i < 3 ? 0 : i < 8 ? 5 : PAGEHINT_BALLOON_HINT_DONE;
		if (i % 4 == 1)
			batches += pagehint_driver_report(d->driver, &run, 1, i) == 0;
		if (i == 5)
			(void)!pagehint_driver_oom(d->driver, 100, now, &given);
		(void)dev_step(d, now, &deadline);
		if (i % 3 != 0)
			serve_all(d);
	}
	return batches;
}

/* The device comes back, as its successor would: reset, and with everything to be told anew. */
static void expect_recovery(struct dev *d, uint64_t batches)
{
	const struct pagehint_run *runs;
	uint64_t cookie, ended = 0;
	int32_t result;
	uint32_t n;
	fault.at = 0;
	fault.bad_setup = 0;
	d->is_gone = 0;
	d->status = 0;
	assert_int_equal(pagehint_driver_reset(d->driver, 100000), 0);
	assert_int_equal(d->with_driver, 0);
	while (pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n) == 0)
		ended++;
	assert_int_equal(ended, batches);
	memset(d->told, 0, sizeof(d->told));
	d->told_n = 0;
	d->stats_ticket = 0;
	assert_int_equal(pagehint_driver_start(d->driver, 100001), 0);
	d->config[0] = 500;
	d->config[2] = 0;
	dev_settle(d, 100002);
	assert_int_equal(d->told_n, 500);
	assert_int_equal(dev_stats(d).held, 500);
	dev_delete(d);
}

static void test_gone_at_any_access(void **state)
{
	(void)state;
	uint64_t at = 1;
	for (int was_hit = 1; was_hit; at++) {
		struct dev *d = faulty_device(at, 0);
		uint64_t batches = live(d);
		was_hit = fault.calls >= at;
		expect_recovery(d, batches);
	}
	assert_true(at > 60); /* a life has many accesses */
}

static void test_a_queue_that_cannot_be_set_up(void **state)
{
	(void)state;
	for (uint64_t k = 1; k <= 5; k++) {
		struct dev *d = faulty_device(0, k);
		assert_int_equal(pagehint_driver_start(d->driver, 1), -ENODEV);
		assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_OFF);
		expect_recovery(d, 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gone_at_any_access),
		cmocka_unit_test(test_a_queue_that_cannot_be_set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
