#include "virtio/numbering.h"

#include <errno.h>

static const struct {
	uint64_t feature; /* 0 = always there */
	uint32_t role;
} rows[PAGEHINT_BALLOON_Q_COUNT] = {
	{ 0, PAGEHINT_BALLOON_Q_INFLATE },
	{ 0, PAGEHINT_BALLOON_Q_DEFLATE },
	{ PAGEHINT_BALLOON_F_STATS_VQ, PAGEHINT_BALLOON_Q_STATS },
	{ PAGEHINT_BALLOON_F_FREE_PAGE_HINT, PAGEHINT_BALLOON_Q_HINT },
	{ PAGEHINT_BALLOON_F_PAGE_REPORTING, PAGEHINT_BALLOON_Q_REPORT },
};

static int has(uint64_t features, uint64_t feature)
{
	return (features & feature) == feature;
}

/* Does the row take a number, used or not? */
static int takes_number(uint32_t policy, uint64_t offered, uint64_t negotiated, uint32_t row)
{
	uint64_t feature = rows[row].feature;
	switch (policy) {
	case PAGEHINT_BALLOON_NUMBERING_SPEC:
		return 1;
	case PAGEHINT_BALLOON_NUMBERING_NEGOTIATED:
		return has(negotiated, feature);
	case PAGEHINT_BALLOON_NUMBERING_QEMU:
		return rows[row].role == PAGEHINT_BALLOON_Q_STATS || has(offered, feature);
	default:
		return has(offered, feature);
	}
}

int ph_numbering_role(uint32_t policy, uint64_t offered, uint64_t negotiated, uint32_t index)
{
	uint32_t at = 0;
	for (uint32_t row = 0; row < PAGEHINT_BALLOON_Q_COUNT; row++) {
		if (!takes_number(policy, offered, negotiated, row))
			continue;
		if (at++ == index)
			return has(negotiated, rows[row].feature) ? (int)rows[row].role : -ENOENT;
	}
	return -ENOENT;
}

uint32_t ph_numbering_queues(uint32_t policy, uint64_t offered, uint64_t negotiated)
{
	uint32_t n = PAGEHINT_BALLOON_Q_COUNT;
	while (n > 0 && ph_numbering_role(policy, offered, negotiated, n - 1) < 0)
		n--;
	return n;
}
