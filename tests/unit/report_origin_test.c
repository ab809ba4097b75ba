#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/model_origin.h"
#include "report/origin.h"

static struct pagehint_origin_ops good(void)
{
	static struct model model = { .order = 9 };
	struct pagehint_origin_ops ops;
	model_ops(&model, &ops);
	return ops;
}

static void refused(struct pagehint_origin_ops ops, int with)
{
	struct pagehint_origin *origin = (void *)&ops;
	assert_int_equal(pagehint_origin_new(&ops, NULL, &origin), with);
	assert_ptr_equal(origin, &ops); /* untouched */
}

static void test_bad_tables(void **state)
{
	(void)state;
	struct pagehint_origin_ops ops = good();
	struct pagehint_origin *origin;
	assert_int_equal(pagehint_origin_new(NULL, NULL, &origin), -EINVAL);
	assert_int_equal(pagehint_origin_new(&ops, NULL, NULL), -EINVAL);
	ops.next_span = NULL;
	refused(ops, -EINVAL);
	ops = good();
	ops.harvest = NULL;
	refused(ops, -EINVAL);
	ops = good();
	ops.release = NULL;
	refused(ops, -EINVAL);
	ops = good();
	ops.order = 19;
	refused(ops, -EINVAL);
	ops = good();
	ops.min_order = 10;
	refused(ops, -EINVAL);
	ops = good();
	ops.frame_shift = 11;
	refused(ops, -EINVAL);
	ops = good();
	ops.frame_shift = 31;
	refused(ops, -EINVAL);
	ops = good();
	ops.struct_size = 4;
	refused(ops, -EINVAL);
	ops = good();
	ops.struct_size = offsetof(struct pagehint_origin_ops, harvest); /* too old to work */
	refused(ops, -EINVAL);
}

static void test_longer_tables(void **state)
{
	(void)state;
	struct {
		struct pagehint_origin_ops ops;
		uint64_t more;
	} longer;
	struct pagehint_origin *origin = NULL;
	memset(&longer, 0, sizeof(longer));
	longer.ops = good();
	longer.ops.struct_size = sizeof(longer);
	longer.ops.destroy = NULL;
	assert_int_equal(pagehint_origin_new(&longer.ops, NULL, &origin), 0);
	pagehint_origin_free(origin);
	longer.more = 1;
	assert_int_equal(pagehint_origin_new(&longer.ops, NULL, &origin), -E2BIG);
}

static void test_is_copied_and_destroyed_once(void **state)
{
	(void)state;
	struct model *model = model_new(16, 0, 9);
	struct pagehint_origin_ops ops;
	struct pagehint_origin *origin = NULL;
	model_ops(model, &ops);
	assert_int_equal(pagehint_origin_new(&ops, model, &origin), 0);
	memset(&ops, 0, sizeof(ops));
	assert_non_null(origin->ops.harvest);
	assert_int_equal(origin->ops.frame_shift, 12);
	assert_ptr_equal(origin->ctx, model);
	pagehint_origin_free(origin);
	assert_int_equal(model->destroyed, 1);
	pagehint_origin_free(NULL);
	model_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_tables),
		cmocka_unit_test(test_longer_tables),
		cmocka_unit_test(test_is_copied_and_destroyed_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
