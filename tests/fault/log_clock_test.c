/* The clock fails while a backend has much to say: no more than ten lines come through, and what was dropped is told when it is back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "discard/backend.h"
#include "support/faulty_sys.h"

static int is_broken;
static unsigned lines, drops;

static int strike(void *ctx, enum faulty_call call)
{
	(void)ctx;
	return is_broken && call == FAULTY_CLOCK ? -EINVAL : 0;
}

/* Claims what cannot be, which is logged each time. */
static int lie(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
	       struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	(void)ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++)
		outcomes[i] = (struct pagehint_outcome) { .asked = runs[i].frames << 12, .freed = UINT64_MAX };
	*ret_done = n;
	return 0;
}

static void log_line(void *ctx, uint32_t level, const char *text)
{
	(void)ctx;
	(void)level;
	lines++;
	drops += strstr(text, "lines dropped") != NULL;
}

static void talk(struct pagehint_backend *backend, unsigned times)
{
	const struct pagehint_run run = { 0, 1 };
	while (times-- != 0)
		assert_int_equal(pagehint_backend_discard(backend, &run, 1, 0, NULL, NULL, NULL), -EIO);
}

static void test_a_clock_that_fails(void **state)
{
	static const struct pagehint_backend_ops ops = { .struct_size = sizeof(ops), .name = "liar", .discard = lie };
	const struct pagehint_hooks hooks = { .struct_size = sizeof(hooks), .log = log_line };
	const struct pagehint_backend_opts how = { .struct_size = sizeof(how), .hooks = &hooks };
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_backend *backend;
	struct faulty_sys f;
	(void)state;
	faulty_sys_init(&f, strike, NULL);
	assert_int_equal(ph_backend_new_with(&ops, NULL, &how, &f.sys, &backend), 0);
	is_broken = 1;
	talk(backend, 50);
	assert_int_equal(lines, 10);
	is_broken = 0;
	talk(backend, 1);
	assert_int_equal(drops, 1);
	assert_int_equal(lines, 12);
	assert_int_equal(pagehint_backend_stats(backend, &stats), 0);
	assert_int_equal(stats.log_dropped, 40);
	/* and when it fails in between the lines of a second are no more for it */
	for (unsigned i = 0; i < 100; i++) {
		is_broken = i % 2 != 0;
		talk(backend, 1);
	}
	print_message("%u lines of 151\n", lines);
	assert_true(lines <= 12 + 10 + 1);
	assert_int_equal(pagehint_backend_free(backend), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_clock_that_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
