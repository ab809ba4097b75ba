/* explain names what stands in the way, the first missing link first. */
#include "support/balloon_serve.h"

static char lines[1024];

static void add_line(void *ctx, const char *text)
{
	(void)ctx;
	assert_true(strlen(lines) + strlen(text) + 2 < sizeof(lines));
	strcat(lines, text);
	strcat(lines, "\n");
}

static const char *explain(struct dev *d)
{
	struct pagehint_sink sink = { .line = add_line };
	lines[0] = '\0';
	pagehint_driver_explain(d->driver, &sink);
	return lines;
}

static void test_nothing_is_in_the_way(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	dev_start(d);
	dev_settle(d, 2);
	assert_string_equal(explain(d), "");
	pagehint_driver_explain(d->driver, NULL);
	dev_delete(d);
}

static void test_why_nothing_is_reported(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	dev_init(d);
	assert_string_equal(explain(d), "virtio: the driver is off: it was not started\n");
	dev_delete(d);
	d = dev_new();
	d->offered &= ~PAGEHINT_BALLOON_F_PAGE_REPORTING;
	dev_start(d);
	assert_string_equal(explain(d), "virtio: the device does not offer page reporting\n");
	dev_delete(d);
	d = dev_new();
	d->opts.features = ~(uint64_t)PAGEHINT_BALLOON_F_PAGE_REPORTING;
	dev_start(d);
	assert_string_equal(explain(d),
			    "virtio: page reporting is offered, but not accepted: opts.features leaves it out\n");
	dev_delete(d);
	d = dev_new();
	d->opts.flags = PAGEHINT_DRIVER_POISON;
	d->opts.poison_val = 1;
	dev_start(d);
	assert_string_equal(explain(d), "virtio: poison: free pages must keep their value, so reports free nothing\n");
	dev_delete(d);
	d = dev_new();
	d->opts.flags = PAGEHINT_DRIVER_POISON;
	d->offered &= ~PAGEHINT_BALLOON_F_PAGE_POISON;
	dev_start(d);
	assert_string_equal(explain(d),
			    "virtio: poison: the device cannot be told, so page reporting is not accepted\n");
	dev_delete(d);
}

static void test_why_the_balloon_does_not_grow(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t given, deadline;
	d->offered &= ~PAGEHINT_BALLOON_F_MUST_TELL_HOST;
	dev_start(d);
	dev_target(d, 4000);
	dev_settle(d, SECOND_NS);
	assert_int_equal(pagehint_driver_oom(d->driver, 1000, SECOND_NS, &given), 0);
	assert_string_equal(explain(d),
			    "virtio: no inflating for a while: the guest was out of memory; missing: 1000 frames\n");
	dev_settle(d, SECOND_NS + 1);
	d->take_error = -ENOSPC;
	assert_int_equal(dev_step(d, 12 * SECOND_NS, &deadline), 0);
	assert_string_equal(explain(d), "virtio: the balloon is stuck: no frames were to be had, or it holds too many "
					"runs; missing: 1000 frames\n");
	dev_delete(d);
	d = dev_new();
	d->ops.take = NULL;
	dev_start(d);
	dev_target(d, 7);
	dev_settle(d, 2);
	assert_string_equal(explain(d), "virtio: the host wants a balloon, but there is nothing to take frames from\n");
	dev_delete(d);
}

static void test_a_device_in_trouble(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	uint64_t deadline;
	dev_start(d);
	dev_target(d, 300);
	dev_settle(d, 2);
	d->config[PAGEHINT_BALLOON_CONFIG_HINT_CMD_ID / 4] = 9;
	d->take_most = 50;
	dev_settle(d, 3);
	assert_string_equal(explain(d), "virtio: kept still for a migration: 50 frames\n");
	d->status |= PAGEHINT_VIRTIO_STATUS_NEEDS_RESET;
	assert_int_equal(dev_step(d, 4, &deadline), -ENODEV);
	assert_string_equal(explain(d), "virtio: the device broke: the device says that it needs a reset\n"
					"virtio: frames that wait for a reset: 350\n");
	assert_int_equal(pagehint_driver_reset(d->driver, 5), 0);
	assert_string_equal(explain(d), "virtio: the driver is off: it was reset\n");
	dev_delete(d);
	d = dev_new();
	dev_start(d);
	dev_target(d, 300);
	assert_int_equal(dev_step(d, 2, &deadline), 0);
	assert_int_equal(dev_step(d, 20 * SECOND_NS, &deadline), -ENODEV);
	assert_string_equal(explain(d), "virtio: the device does not answer\n");
	dev_delete(d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_in_the_way),
		cmocka_unit_test(test_why_nothing_is_reported),
		cmocka_unit_test(test_why_the_balloon_does_not_grow),
		cmocka_unit_test(test_a_device_in_trouble),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
