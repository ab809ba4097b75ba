/* Reset and negotiation: what is accepted, what is refused, which queue has which number. */
#include "support/balloon_serve.h"
#include "virtio/driver.h"

static void test_everything_is_negotiated(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	dev_start(d);
	/* POISON only when asked for */
	assert_int_equal(d->features, DEV_ALL & ~PAGEHINT_BALLOON_F_PAGE_POISON);
	assert_int_equal(dev_stats(d).features, d->features);
	const uint32_t expected[] = { 0, 1, 3, 11, 15 };
	assert_int_equal(d->status_n, 5);
	assert_memory_equal(d->status_log, expected, sizeof(expected));
	assert_int_equal(pagehint_driver_start(d->driver, 2), -EALREADY);
	assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_RUNNING);
	assert_int_equal(dev_stats(d).report_ring, 64);
	dev_delete(d);
}

static void test_what_is_unknown_is_left_alone(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->offered |= UINT64_C(1) << 6 | UINT64_C(1) << 7 | UINT64_C(1) << 40 | UINT64_C(1) << 63 |
		      PAGEHINT_VIRTIO_F_ACCESS_PLATFORM;
	dev_start(d);
	assert_int_equal(d->features, DEV_ALL & ~PAGEHINT_BALLOON_F_PAGE_POISON);
	dev_delete(d);
	/* only what the embedder has the means for, and allows */
	d = dev_new();
	d->ops.take = NULL;
	d->ops.give = NULL;
	d->ops.get_stats = NULL;
	d->opts.features = ~(uint64_t)PAGEHINT_VIRTIO_F_EVENT_IDX;
	dev_start(d);
	assert_int_equal(d->features, PAGEHINT_BALLOON_F_MUST_TELL_HOST | PAGEHINT_BALLOON_F_PAGE_REPORTING |
					      PAGEHINT_VIRTIO_F_VERSION_1 | PAGEHINT_VIRTIO_F_INDIRECT_DESC);
	dev_delete(d);
}

static void test_refusals(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->offered &= ~PAGEHINT_VIRTIO_F_VERSION_1;
	dev_init(d);
	assert_int_equal(pagehint_driver_start(d->driver, 1), -EOPNOTSUPP);
	assert_int_equal(d->status & PAGEHINT_VIRTIO_STATUS_FAILED, PAGEHINT_VIRTIO_STATUS_FAILED);
	assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_OFF);
	d->offered = DEV_ALL | PAGEHINT_VIRTIO_F_ACCESS_PLATFORM;
	d->refuses_features = 1;
	assert_int_equal(pagehint_driver_start(d->driver, 1), -EOPNOTSUPP);
	assert_int_equal(d->status & PAGEHINT_VIRTIO_STATUS_FAILED, PAGEHINT_VIRTIO_STATUS_FAILED);
	/* it changed its mind */
	d->refuses_features = 0;
	assert_int_equal(pagehint_driver_start(d->driver, 1), 0);
	assert_int_equal(d->features & PAGEHINT_VIRTIO_F_ACCESS_PLATFORM, 0);
	dev_delete(d);
	/* a queue that it offers and does not have, or with no room for a request */
	for (uint32_t max = 0; max < 2; max++) {
		d = dev_new();
		d->queue_max[4] = max;
		dev_init(d);
		assert_int_equal(pagehint_driver_start(d->driver, 1), -ENODEV);
		assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_OFF);
		dev_delete(d);
	}
	d = dev_new();
	d->is_gone = 1;
	dev_init(d);
	assert_int_equal(pagehint_driver_start(d->driver, 1), -ENODEV);
	dev_delete(d);
}

static void test_a_reset_may_take_its_time(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->resets_after = 3;
	d->status = 15; /* left behind by somebody */
	dev_init(d);
	assert_int_equal(pagehint_driver_start(d->driver, 100), -EAGAIN);
	assert_int_equal(dev_stats(d).state, PAGEHINT_DRIVER_RESETTING);
	assert_int_equal(pagehint_driver_start(d->driver, 200), -EAGAIN);
	assert_int_equal(pagehint_driver_start(d->driver, 300), 0);
	assert_int_equal(d->resets, 1);
	dev_delete(d);
	/* or never end: that has a deadline, and can be asked again */
	d = dev_new();
	d->resets_after = 1000;
	d->status = 15;
	d->opts.answer_ns = SECOND_NS;
	dev_init(d);
	assert_int_equal(pagehint_driver_start(d->driver, 100), -EAGAIN);
	assert_int_equal(pagehint_driver_start(d->driver, SECOND_NS), -EAGAIN);
	assert_int_equal(pagehint_driver_start(d->driver, SECOND_NS + 100), -ENODEV);
	d->reset_pending = 1;
	assert_int_equal(pagehint_driver_start(d->driver, 5 * SECOND_NS), 0);
	dev_delete(d);
}

static void test_numbers_for_every_set(void **state)
{
	(void)state;
	static const uint64_t of[] = { 0, 0, PAGEHINT_BALLOON_F_STATS_VQ, PAGEHINT_BALLOON_F_FREE_PAGE_HINT,
				       PAGEHINT_BALLOON_F_PAGE_REPORTING };
	uint32_t index[5];
	for (uint32_t offered = 0; offered < 8; offered++)
		for (uint32_t negotiated = 0; negotiated < 8; negotiated++) {
			uint64_t o = 0, n = 0;
			if ((negotiated & ~offered) != 0)
				continue;
			for (uint32_t q = 2; q < 5; q++) {
				o |= offered >> (q - 2) & 1 ? of[q] : 0;
				n |= negotiated >> (q - 2) & 1 ? of[q] : 0;
			}
			uint32_t dense_o = 2, dense_n = 2, qemu = 2;
			for (uint32_t q = 2; q < 5; q++) {
				int is_o = (o & of[q]) != 0, is_n = (n & of[q]) != 0;
				ph_driver_number(PAGEHINT_BALLOON_NUMBERING_SPEC, o, n, index);
				assert_int_equal(index[q], is_o ? q : UINT32_MAX);
				ph_driver_number(PAGEHINT_BALLOON_NUMBERING_OFFERED, o, n, index);
				assert_int_equal(index[q], is_o ? dense_o : UINT32_MAX);
				ph_driver_number(PAGEHINT_BALLOON_NUMBERING_NEGOTIATED, o, n, index);
				assert_int_equal(index[q], is_n ? dense_n : UINT32_MAX);
				ph_driver_number(PAGEHINT_BALLOON_NUMBERING_QEMU, o, n, index);
				assert_int_equal(index[q], is_o || q == 2 ? qemu : UINT32_MAX);
				dense_o += is_o;
				dense_n += is_n;
				qemu += is_o || q == 2;
			}
		}
}

/* Each policy's device, for each set: the driver finds numbers that are right for it. */
static void test_numbers_are_found_by_looking(void **state)
{
	(void)state;
	static const uint32_t policies[] = { PAGEHINT_BALLOON_NUMBERING_SPEC, PAGEHINT_BALLOON_NUMBERING_QEMU,
					     PAGEHINT_BALLOON_NUMBERING_OFFERED };
	for (uint32_t p = 0; p < 3; p++)
		for (uint32_t set = 0; set < 8; set++) {
			struct dev *d = dev_new();
			uint32_t device[5], found[5];
			uint64_t offered = (set & 1 ? PAGEHINT_BALLOON_F_STATS_VQ : 0) |
					   (set & 2 ? PAGEHINT_BALLOON_F_FREE_PAGE_HINT : 0) |
					   (set & 4 ? PAGEHINT_BALLOON_F_PAGE_REPORTING : 0);
			ph_driver_number(policies[p], offered, 0, device);
			memset(d->queue_max, 0, sizeof(d->queue_max));
			for (uint32_t q = 0; q < 5; q++)
				if (device[q] != UINT32_MAX)
					d->queue_max[device[q]] = 64;
			ph_driver_number(ph_driver_find_numbering(d->virtio, offered), offered, offered, found);
			for (uint32_t q = 0; q < 5; q++)
				if (q < 2 || (q == 2 && (set & 1)) || (q == 3 && (set & 2)) || (q == 4 && (set & 4)))
					assert_int_equal(found[q], device[q]);
			d->offered = PAGEHINT_VIRTIO_F_VERSION_1 | offered;
			dev_start(d);
			dev_delete(d);
		}
	/* all five queues whatever is offered: numbers with gaps */
	struct dev *d = dev_new();
	assert_int_equal(ph_driver_find_numbering(d->virtio, PAGEHINT_BALLOON_F_PAGE_REPORTING),
			 PAGEHINT_BALLOON_NUMBERING_SPEC);
	dev_delete(d);
	/* the embedder's word goes before */
	d = dev_new();
	d->opts.flags = PAGEHINT_DRIVER_NUMBERED;
	d->opts.numbering = PAGEHINT_BALLOON_NUMBERING_NEGOTIATED;
	d->opts.features = ~(uint64_t)PAGEHINT_BALLOON_F_FREE_PAGE_HINT;
	dev_start(d);
	assert_int_equal(d->queues[3].is_live, 1);
	assert_int_equal(d->queues[4].is_live, 0);
	dev_delete(d);
}

static void test_poison(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->opts.flags = PAGEHINT_DRIVER_POISON;
	d->opts.poison_val = 0xaabbccdd;
	dev_start(d);
	assert_int_equal(d->features, DEV_ALL);
	assert_int_equal(d->config[3], 0xaabbccdd);
	dev_delete(d);
	/* no way to say so: neither reports nor hints */
	d = dev_new();
	d->offered &= ~PAGEHINT_BALLOON_F_PAGE_POISON;
	d->opts.flags = PAGEHINT_DRIVER_POISON;
	dev_start(d);
	assert_int_equal(d->features & (PAGEHINT_BALLOON_F_PAGE_REPORTING | PAGEHINT_BALLOON_F_FREE_PAGE_HINT), 0);
	dev_delete(d);
}

static void test_rings_fit_the_device(void **state)
{
	(void)state;
	static const uint32_t maxima[] = { 2, 3, 31, 32, 100, 1024, 32768 };
	static const uint32_t sizes[] = { 2, 2, 16, 32, 64, 256, 256 };
	for (uint32_t i = 0; i < 7; i++) {
		struct dev *d = dev_new();
		d->queue_max[4] = maxima[i];
		dev_start(d);
		assert_int_equal(dev_stats(d).report_ring, sizes[i]);
		dev_delete(d);
	}
}

static void test_bad_arguments(void **state)
{
	(void)state;
	static const struct pagehint_driver_opts bad[] = {
		{ .flags = 4 },           { .numbering = 4 },    { .frame_shift = 11 },   { .frame_shift = 23 },
		{ .ring_size = 7 },       { .ring_size = 24 },   { .ring_size = 2048 },   { .max_held = 63 },
		{ .max_hints = 65537 },   { .max_batches = 65 }, { .batch_runs = 16385 }, { .oom_frames = 65537 },
		{ .max_held = 16777217 },
	};
	struct dev *d = dev_new();
	uint64_t bytes = 7, dma_bytes = 7;
	for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pagehint_driver_opts opts = bad[i];
		opts.struct_size = sizeof(opts);
		assert_int_equal(pagehint_driver_size(&opts, &bytes, &dma_bytes), -EINVAL);
	}
	assert_int_equal(bytes + dma_bytes, 14);
	assert_int_equal(pagehint_driver_size(NULL, NULL, &dma_bytes), -EINVAL);
	struct {
		struct pagehint_driver_opts opts;
		uint64_t tail;
	} longer = { .opts = { .struct_size = sizeof(longer) }, .tail = 1 };
	assert_int_equal(pagehint_driver_size(&longer.opts, &bytes, &dma_bytes), -E2BIG);
	dev_init(d);
	struct pagehint_driver *driver = NULL;
	struct pagehint_driver_ops no_give = { .struct_size = sizeof(no_give), .take = dev_take };
	struct pagehint_driver_opts opts = d->opts;
	assert_int_equal(pagehint_driver_size(&opts, &bytes, &dma_bytes), 0);
	assert_int_equal(pagehint_driver_init(d->memory, bytes - 1, d->dma, d->virtio, NULL, d, &opts, &driver),
			 -EINVAL);
	assert_int_equal(pagehint_driver_init(d->memory, bytes, d->dma + 8, d->virtio, NULL, d, &opts, &driver),
			 -EINVAL);
	assert_int_equal(pagehint_driver_init(d->memory, bytes, d->dma, d->virtio, &no_give, d, &opts, &driver),
			 -EINVAL);
	opts.dma_bytes--;
	assert_int_equal(pagehint_driver_init(d->memory, bytes, d->dma, d->virtio, NULL, d, &opts, &driver), -EINVAL);
	opts.dma_bytes++;
	opts.dma_address = UINT64_MAX - 63;
	assert_int_equal(pagehint_driver_init(d->memory, bytes, d->dma, d->virtio, NULL, d, &opts, &driver), -EINVAL);
	assert_null(driver);
	dev_delete(d);
}

/* A device may remember what was in the balloon before its reset; nothing is any more. */
static void test_actual_is_told_anew(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	d->config[PAGEHINT_BALLOON_CONFIG_ACTUAL / 4] = 4711;
	dev_start(d);
	assert_int_equal(d->config[PAGEHINT_BALLOON_CONFIG_ACTUAL / 4], 0);
	dev_target(d, 300);
	dev_settle(d, 2);
	assert_int_equal(d->config[PAGEHINT_BALLOON_CONFIG_ACTUAL / 4], 300);
	dev_target(d, 0);
	assert_int_equal(pagehint_driver_reset(d->driver, 3), 0);
	assert_int_equal(d->config[PAGEHINT_BALLOON_CONFIG_ACTUAL / 4], 300); /* it is not told of a reset */
	assert_int_equal(pagehint_driver_start(d->driver, 4), 0);
	assert_int_equal(d->config[PAGEHINT_BALLOON_CONFIG_ACTUAL / 4], 0);
	dev_delete(d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_actual_is_told_anew),           cmocka_unit_test(test_everything_is_negotiated),
		cmocka_unit_test(test_what_is_unknown_is_left_alone), cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_a_reset_may_take_its_time),     cmocka_unit_test(test_numbers_for_every_set),
		cmocka_unit_test(test_numbers_are_found_by_looking),  cmocka_unit_test(test_poison),
		cmocka_unit_test(test_rings_fit_the_device),          cmocka_unit_test(test_bad_arguments),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
