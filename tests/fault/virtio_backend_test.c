/* Each allocation of the virtio backend fails in turn: an error, nothing left over, and the driver is as it was. */
#include "support/balloon_serve.h"

static unsigned long allocations, fail_at;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	return ++allocations == fail_at ? NULL : __real_calloc(n, size);
}

static void test_allocations(void **state)
{
	(void)state;
	struct dev *d = dev_new();
	struct pagehint_run run = { 0, 512 };
	struct pagehint_backend *backend = NULL;
	struct pagehint_outcome outcome;
	uint64_t cookie;
	uint32_t n;
	int r = -ENOMEM;
	dev_start(d);
	for (fail_at = 1; r == -ENOMEM; fail_at++) {
		allocations = 0;
		r = pagehint_driver_backend_new(d->driver, NULL, &backend);
		if (r != 0)
			assert_null(backend);
	}
	assert_int_equal(r, 0);
	assert_int_equal(fail_at, 4); /* two allocations, as its contract says */
	fail_at = 0;
	assert_int_equal(pagehint_backend_submit(backend, &run, 1, 0, 1), 0);
	assert_int_equal(dev_serve(d, PAGEHINT_BALLOON_Q_REPORT, DEV_EVERYTHING), 1);
	assert_int_equal(pagehint_backend_reap(backend, 1, &outcome, &cookie, &n), 0);
	assert_int_equal(outcome.accepted, 2 << 20);
	assert_int_equal(pagehint_backend_free(backend), 0);
	dev_delete(d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
