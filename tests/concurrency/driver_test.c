/*
 * Interrupts come on another thread: whatever that thread changed before it told, a step that follows sees. The driver looks at
 * its device only when it was told, so an event that got lost would be waited for in vain.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "support/balloon_serve.h"
#include "support/rounds.h"
#include "virtio/transport.h"

static _Atomic uint32_t target, seen;
static struct pagehint_virtio_ops real;
static struct dev *d;
static uint32_t rounds;

static uint32_t config_read(void *ctx, uint32_t offset)
{
	return offset == PAGEHINT_BALLOON_CONFIG_NUM_PAGES ? atomic_load(&target) : real.config_read(ctx, offset);
}

static void *host(void *arg)
{
	for (uint32_t i = 1; i <= rounds; i++) {
		atomic_store(&target, i);
		uint32_t why = PAGEHINT_VIRTIO_INTERRUPT_CONFIG | (i % 2 ? PAGEHINT_VIRTIO_INTERRUPT_QUEUE : 0);
		if (pagehint_driver_interrupt(d->driver, why) != 1)
			abort();
		while (atomic_load(&seen) != i)
			sched_yield();
	}
	return arg;
}

static void test_no_interrupt_is_lost(void **state)
{
	(void)state;
	pthread_t thread;
	uint64_t deadline;
	rounds = (uint32_t)rounds_scaled(20000);
	d = dev_new();
	d->ops.take = NULL; /* the target is only to be seen */
	real = d->virtio->ops;
	d->virtio->ops.config_read = config_read;
	dev_start(d);
	assert_int_equal(pthread_create(&thread, NULL, host, NULL), 0);
	while (atomic_load(&seen) != rounds) {
		assert_int_equal(pagehint_driver_step(d->driver, 2, &deadline), 0);
		uint64_t now = dev_stats(d).target;
		assert_true(now <= rounds);
		atomic_store(&seen, (uint32_t)now);
		sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	dev_delete(d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_interrupt_is_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
