#include "report/origin.h"

#include <errno.h>
#include <stdlib.h>

#include "base/opts.h"

#define MAX_ORDER 18u
#define LEAST_SHIFT 12u
#define MOST_SHIFT 30u

static int ops_ok(const struct pagehint_origin_ops *ops)
{
	return ops->next_span != NULL && ops->harvest != NULL && ops->release != NULL && ops->order <= MAX_ORDER &&
	       ops->min_order <= ops->order && ops->frame_shift >= LEAST_SHIFT && ops->frame_shift <= MOST_SHIFT;
}

int pagehint_origin_new(const struct pagehint_origin_ops *ops, void *ctx, struct pagehint_origin **ret_origin)
{
	struct pagehint_origin_ops copy;
	if (ops == NULL || ret_origin == NULL)
		return -EINVAL;
	int err = PH_OPTS_IN(copy, ops);
	if (err != 0)
		return err;
	if (copy.frame_shift == 0)
		copy.frame_shift = LEAST_SHIFT;
	if (copy.name == NULL)
		copy.name = "origin";
	if (!ops_ok(&copy))
		return -EINVAL;
	struct pagehint_origin *origin = malloc(sizeof(*origin));
	if (origin == NULL)
		return -ENOMEM;
	origin->ops = copy;
	origin->ctx = ctx;
	*ret_origin = origin;
	return 0;
}

void pagehint_origin_free(struct pagehint_origin *origin)
{
	if (origin == NULL)
		return;
	if (origin->ops.destroy != NULL)
		origin->ops.destroy(origin->ctx);
	free(origin);
}
