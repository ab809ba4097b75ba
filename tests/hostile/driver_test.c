/*
 * A device that lies: used indices that jump, wrong ids and lengths, a status and a config that say anything, no answers, answers
 * after a reset. Whatever it does, no frame is lost or given back twice, each batch ends once, and after one honest reset
 * everything is with the embedder again.
 */
#include <inttypes.h>
#include <stdio.h>

#include "support/balloon_serve.h"

static struct {
	uint64_t seed;
	unsigned round;
} m;

#include "support/chance.h"
#include "support/rounds.h"

/* ---- one lie at a time ---- */

static struct ph_used *used_of(struct dev *d, uint32_t queue)
{
	return dev_at(d, d->queues[queue].setup.device);
}

static void say_used(struct dev *d, uint32_t queue, uint32_t at, uint32_t id, uint32_t len)
{
	struct ph_used *used = used_of(d, queue);
	ph_le32_put(&used->ring[at].id, id);
	ph_le32_put(&used->ring[at].len, len);
	ph_le16_release(&used->idx, (uint16_t)(at + 1));
}

/* Starts, inflates some, and has a report and an inflate in flight. */
static struct dev *busy_device(uint64_t features)
{
	struct pagehint_run run = { 40000, 512 };
	uint64_t deadline;
	struct dev *d = dev_new();
	d->offered = (d->offered & ~(uint64_t)PAGEHINT_VIRTIO_F_EVENT_IDX) | features;
	dev_start(d);
	dev_target(d, 2000);
	dev_settle(d, 2);
	dev_target(d, 4000);
	assert_int_equal(dev_step(d, 3, &deadline), 0);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 5), 0);
	assert_int_equal(d->with_driver, 4000);
	return d;
}

/* The driver has seen through it: nothing moves until a reset, which brings everything back once. */
static void expect_broken(struct dev *d)
{
	struct pagehint_run run = { 50000, 512 };
	const struct pagehint_run *runs;
	uint64_t deadline, cookie, given;
	int32_t result;
	uint32_t n;
	assert_int_equal(dev_step(d, 4, &deadline), -ENODEV);
	assert_int_equal(deadline, UINT64_MAX);
	assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_BROKEN);
	assert_int_equal(d->with_driver, 4000);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 6), -ENODEV);
	assert_int_equal(pagehint_driver_oom(d->driver, 1, 5, &given), -ENODEV);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), -EAGAIN);
	assert_int_equal(pagehint_driver_reset(d->driver, 6), 0);
	assert_int_equal(d->with_driver, 0);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), 0);
	assert_int_equal(cookie, 5);
	assert_int_equal(result, -ENODEV);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), -EAGAIN);
	/* and it works again */
	memset(d->told, 0, sizeof(d->told));
	d->told_n = 0;
	d->status = 0;
	d->is_gone = 0;
	assert_int_equal(pagehint_driver_start(d->driver, 7), 0);
	dev_settle(d, 8);
	assert_int_equal(d->told_n, 4000);
	dev_delete(d);
}

static void test_an_index_that_jumps(void **unused)
{
	(void)unused;
	struct dev *d = busy_device(0);
	ph_le16_release(&used_of(d, PAGEHINT_BALLOON_Q_INFLATE)->idx, 900);
	expect_broken(d);
	d = busy_device(0);
	ph_le16_release(&used_of(d, PAGEHINT_BALLOON_Q_REPORT)->idx, 0xffff);
	expect_broken(d);
}

static void test_ids_that_are_not_in_flight(void **unused)
{
	(void)unused;
	static const uint32_t ids[] = { 63, 64, 0xffffffff };
	for (uint32_t i = 0; i < 3; i++) {
		struct dev *d = busy_device(0);
		say_used(d, PAGEHINT_BALLOON_Q_REPORT, 0, ids[i], 0);
		expect_broken(d);
	}
	/* the same answer twice */
	struct dev *d = busy_device(0);
	uint64_t deadline;
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_INFLATE, DEV_EVERYTHING), 2);
	assert_int_equal(dev_step(d, 3, &deadline), 0);
	uint16_t at = ph_le16_get(&used_of(d, 0)->idx);
	struct ph_used *used = used_of(d, 0);
	ph_le32_put(&used->ring[at % 16].id, ph_le32_get(&used->ring[(at - 1) % 16].id));
	ph_le16_release(&used->idx, (uint16_t)(at + 1));
	expect_broken(d);
}

static void test_more_used_than_was_writable(void **unused)
{
	(void)unused;
	struct dev *d = busy_device(0);
	say_used(d, PAGEHINT_BALLOON_Q_REPORT, 0, 0, (2 << 20) + 1);
	expect_broken(d);
}

static void test_packed_descriptors_that_lie(void **unused)
{
	(void)unused;
	struct dev *d = busy_device(PAGEHINT_VIRTIO_F_RING_PACKED);
	struct ph_packed_desc *desc = dev_at(d, d->queues[PAGEHINT_BALLOON_Q_REPORT].setup.desc);
	ph_le16_put(&desc[0].id, 61);
	ph_le16_release(&desc[0].flags, PH_DESC_AVAIL | PH_DESC_USED);
	expect_broken(d);
}

static void test_a_status_that_says_stop(void **unused)
{
	(void)unused;
	struct dev *d = busy_device(0);
	d->status |= PAGEHINT_VIRTIO_STATUS_NEEDS_RESET;
	expect_broken(d);
	d = busy_device(0);
	d->is_gone = 1;
	expect_broken(d);
	d = busy_device(0);
	d->status = 0; /* somebody reset it behind our back */
	expect_broken(d);
}

static void test_silence_and_its_end(void **unused)
{
	(void)unused;
	struct dev *d = busy_device(0);
	struct pagehint_run run = { 50000, 512 };
	const struct pagehint_run *runs;
	uint64_t deadline, cookie;
	int32_t result = 1;
	uint32_t n;
	assert_int_equal(dev_step(d, 4, &deadline), 0);
	assert_in_range(deadline, 10 * SECOND_NS, 10 * SECOND_NS + 10); /* its wait has an end */
	assert_int_equal(dev_step(d, deadline, &deadline), -ENODEV);
	assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_SILENT);
	assert_int_equal(deadline, 20 * SECOND_NS + 3);
	assert_int_equal(pagehint_driver_report(d->driver, &run, 1, 6), -ENODEV);
	assert_int_equal(d->with_driver, 4000);
	/* late is better than never: nothing was given up */
	while (dev_serve(d, PAGEHINT_BALLOON_Q_INFLATE, 9) + dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, 9) != 0)
		;
	assert_int_equal(dev_step(d, 60 * SECOND_NS, &deadline), 0);
	assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_RUNNING);
	assert_int_equal(dev_stats(d).held, 4000);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), 0);
	assert_int_equal(result, 0);
	dev_delete(d);
}

static void test_answers_after_a_reset_are_dropped(void **unused)
{
	(void)unused;
	struct dev *d = busy_device(0);
	const struct pagehint_run *runs;
	uint64_t cookie, deadline;
	int32_t result = 0;
	uint32_t n;
	d->resets_after = 3;
	d->reset_pending = 0;
	assert_int_equal(pagehint_driver_reset(d->driver, 4), -EAGAIN);
	assert_int_equal(d->with_driver, 4000);
	say_used(d, PAGEHINT_BALLOON_Q_REPORT, 0, 0, 0);
	say_used(d, PAGEHINT_BALLOON_Q_INFLATE, 2, 0, 0);
	assert_int_equal(dev_step(d, 5, &deadline), -ENODEV);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), -EAGAIN);
	assert_int_equal(pagehint_driver_reset(d->driver, 6), -EAGAIN);
	assert_int_equal(pagehint_driver_reset(d->driver, 7), 0);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), 0);
	assert_int_equal(result, -ENODEV);
	assert_int_equal(d->with_driver, 0);
	say_used(d, PAGEHINT_BALLOON_Q_REPORT, 1, 1, 0);
	assert_int_equal(pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n), -EAGAIN);
	assert_int_equal(pagehint_driver_reset(d->driver, 8), 0);
	dev_delete(d);
	/* a device that never confirms keeps what it has, and the call has an end */
	d = busy_device(0);
	d->resets_after = 1000000;
	assert_int_equal(pagehint_driver_reset(d->driver, 4), -EAGAIN);
	assert_int_equal(pagehint_driver_reset(d->driver, 4 + 10 * SECOND_NS), -ENODEV);
	assert_int_equal(d->with_driver, 4000);
	d->reset_pending = 1;
	assert_int_equal(pagehint_driver_reset(d->driver, 99 * SECOND_NS), 0);
	assert_int_equal(d->with_driver, 0);
	dev_delete(d);
}

/* An embedder does what deadlines say: a device that only never stands still must not keep it awake. */
static void test_a_config_that_never_stands_still(void **unused)
{
	(void)unused;
	struct dev *d = dev_new();
	uint64_t now = SECOND_NS, deadline;
	uint32_t steps = 0;
	dev_start(d);
	dev_settle(d, now);
	d->is_unsteady = 1;
	for (assert_int_equal(dev_step(d, now, &deadline), 0); deadline <= 2 * SECOND_NS; steps++) {
		now = deadline > now ? deadline : now;
		assert_true(steps < 2000);
		assert_int_equal(pagehint_driver_step(d->driver, now, &deadline), 0);
	}
	assert_in_range(steps, 10, 1001); /* it is asked again, though */
	dev_delete(d);
}

/* ---- all of them at once ---- */

#define COOKIES 4096u
static unsigned char batch_state[COOKIES]; /* 1 = reported, 2 = ended */

static void lie(struct dev *d)
{
	struct dev_queue *q = &d->queues[rnd(DEV_QUEUES)];
	if (!q->is_live)
		return;
	unsigned char *area = dev_at(d, rnd(2) ? q->setup.device : q->setup.desc);
	uint32_t bytes = q->setup.size * 8;
	switch (rnd(8)) {
	case 0: /* anything, anywhere that a device may write */
		area[rnd(bytes)] = (unsigned char)rnd(256);
		break;
	case 1:
		d->config[rnd(3) * (rnd(2) + 0)] = (uint32_t)rnd(1u << rnd(32));
		break;
	case 2:
		d->config[2] = (uint32_t)rnd(4);
		break;
	case 3:
		d->is_unsteady = rnd(8) == 0;
		break;
	case 4:
		if (rnd(8) == 0)
			d->status = (uint32_t)rnd(256);
		break;
	default: { /* an answer that may be right */
		struct ph_used *used = dev_at(d, q->setup.device);
		uint16_t idx = ph_le16_get(&used->idx);
		ph_le32_put(&used->ring[idx % q->setup.size].id, (uint32_t)rnd(4));
		ph_le32_put(&used->ring[idx % q->setup.size].len, rnd(8) ? 0 : (uint32_t)rnd(UINT32_MAX));
		ph_le16_release(&used->idx, (uint16_t)(idx + 1));
	}
	}
}

static void reap_all(struct dev *d)
{
	const struct pagehint_run *runs;
	uint64_t cookie;
	int32_t result;
	uint32_t n;
	while (pagehint_driver_reap(d->driver, &cookie, &result, &runs, &n) == 0) {
		REQUIRE(cookie < COOKIES && batch_state[cookie] == 1);
		batch_state[cookie] = 2;
	}
}

static void act(struct dev *d, uint64_t now, uint32_t *cookies)
{
	struct pagehint_run runs[8];
	uint64_t deadline, given;
	uint32_t n = 1 + (uint32_t)rnd(8);
	switch (rnd(8)) {
	case 0:
		for (uint32_t i = 0; i < n; i++)
			runs[i] = (struct pagehint_run) { rnd(1u << 20), 1 + rnd(1u << rnd(20)) };
		if (*cookies < COOKIES && pagehint_driver_report(d->driver, runs, n, *cookies) == 0)
			batch_state[(*cookies)++] = 1;
		break;
	case 1:
		(void)!pagehint_driver_oom(d->driver, 1 + rnd(3000), now, &given);
		break;
	case 2:
		reap_all(d);
		break;
	case 3:
		if (rnd(40) == 0)
			(void)!pagehint_driver_reset(d->driver, now);
		break;
	default:
		if (dev_step(d, now, &deadline) < 0 && rnd(4) == 0)
			(void)!pagehint_driver_start(d->driver, now);
	}
}

/* Returns how often the driver saw through it. */
static uint64_t life(uint64_t features)
{
	uint64_t now = 1, deadline;
	uint64_t breaks = 0;
	uint32_t cookies = 0;
	struct dev *d = dev_new();
	memset(batch_state, 0, sizeof(batch_state));
	d->offered = (DEV_ALL & ~(rnd(2) ? (uint64_t)PAGEHINT_BALLOON_F_MUST_TELL_HOST : 0)) | features;
	d->opts.max_batches = 8;
	d->opts.max_held = 256;
	d->opts.answer_ns = 1000000;
	dev_start(d);
	for (uint32_t i = 0; i < 4000; i++) {
		now += rnd(2000);
		if (rnd(3) == 0)
			lie(d);
		act(d, now, &cookies);
		breaks = dev_stats(d).breaks; /* and the one equation holds */
		d->resets_after = rnd(50) == 0 ? (uint32_t)rnd(20) : 0;
	}
	d->resets_after = 0;
	d->reset_pending = 0;
	d->status = 0;
	for (uint32_t i = 0; i < 3; i++) {
		(void)dev_step(d, now, &deadline);
		REQUIRE(pagehint_driver_reset(d->driver, now) == 0);
	}
	REQUIRE(d->with_driver == 0);
	reap_all(d);
	for (uint32_t i = 0; i < cookies; i++)
		REQUIRE(batch_state[i] == 2);
	dev_delete(d);
	return breaks;
}

static void test_whatever_it_does(void **unused)
{
	(void)unused;
	const char *seed = getenv("SEED");
	m.seed = seed != NULL ? strtoull(seed, NULL, 0) : 0x5eed5eed;
	uint64_t breaks = 0;
	state = m.seed;
	for (m.round = 0; m.round < rounds_scaled(60); m.round++)
		breaks += life(m.round % 2 ? PAGEHINT_VIRTIO_F_RING_PACKED : 0);
	REQUIRE(breaks > m.round); /* the lies were told, and noticed */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_index_that_jumps),
		cmocka_unit_test(test_ids_that_are_not_in_flight),
		cmocka_unit_test(test_more_used_than_was_writable),
		cmocka_unit_test(test_packed_descriptors_that_lie),
		cmocka_unit_test(test_a_status_that_says_stop),
		cmocka_unit_test(test_silence_and_its_end),
		cmocka_unit_test(test_answers_after_a_reset_are_dropped),
		cmocka_unit_test(test_a_config_that_never_stands_still),
		cmocka_unit_test(test_whatever_it_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
