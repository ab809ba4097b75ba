#include "discard/result.h"

#include <stddef.h>

void ph_outcome_freed(struct pagehint_outcome *to, uint64_t bytes)
{
	to->asked += bytes;
	to->freed += bytes;
}

void ph_outcome_absent(struct pagehint_outcome *to, uint64_t bytes)
{
	to->asked += bytes;
	to->absent += bytes;
}

void ph_outcome_accepted(struct pagehint_outcome *to, uint64_t bytes)
{
	to->asked += bytes;
	to->accepted += bytes;
}

void ph_outcome_kept(struct pagehint_outcome *to, uint64_t bytes, uint32_t why)
{
	if (bytes > to->kept)
		to->kept_why = why;
	to->asked += bytes;
	to->kept += bytes;
}

void ph_outcome_lazy(struct pagehint_outcome *to, uint64_t bytes, uint32_t why)
{
	if (bytes > to->lazy)
		to->lazy_why = why;
	to->asked += bytes;
	to->lazy += bytes;
}

void ph_outcome_failed(struct pagehint_outcome *to, uint64_t bytes, uint32_t why, int32_t error)
{
	if (bytes > to->failed) {
		to->failed_why = why;
		to->error = error;
	}
	to->asked += bytes;
	to->failed += bytes;
}

void ph_sum_add(struct ph_sum *sum, const struct pagehint_outcome *one)
{
	struct pagehint_outcome *to = &sum->total;
	ph_outcome_freed(to, one->freed);
	ph_outcome_absent(to, one->absent);
	ph_outcome_accepted(to, one->accepted);
	ph_outcome_kept(to, one->kept, one->kept_why);
	ph_outcome_lazy(to, one->lazy, one->lazy_why);
	ph_outcome_failed(to, one->failed, one->failed_why, one->error);
	sum->kept_by[one->kept_why] += one->kept;
	sum->lazy_by[one->lazy_why] += one->lazy;
	sum->failed_by[one->failed_why] += one->failed;
	if (one->failed != 0 && sum->error_of[one->failed_why] == 0)
		sum->error_of[one->failed_why] = one->error;
}

static uint32_t largest(const uint64_t *by)
{
	uint32_t best = PAGEHINT_WHY_NONE;
	for (uint32_t why = 0; why < PAGEHINT_WHY_COUNT; why++)
		if (by[why] > by[best])
			best = why;
	return best;
}

struct pagehint_outcome ph_sum_total(const struct ph_sum *sum)
{
	struct pagehint_outcome total = sum->total;
	total.kept_why = largest(sum->kept_by);
	total.lazy_why = largest(sum->lazy_by);
	total.failed_why = largest(sum->failed_by);
	total.error = sum->error_of[total.failed_why];
	return total;
}

static int reason_fits(uint64_t bytes, uint32_t why)
{
	return bytes == 0 ? why < PAGEHINT_WHY_COUNT : why > PAGEHINT_WHY_NONE && why < PAGEHINT_WHY_COUNT;
}

int ph_outcome_is_true(const struct pagehint_outcome *outcome, uint64_t asked)
{
	const uint64_t classes[] = { outcome->freed, outcome->absent, outcome->accepted,
				     outcome->kept,  outcome->lazy,   outcome->failed };
	uint64_t left = asked;
	for (unsigned i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (classes[i] > left)
			return 0;
		left -= classes[i];
	}
	return left == 0 && outcome->asked == asked && reason_fits(outcome->kept, outcome->kept_why) &&
	       reason_fits(outcome->lazy, outcome->lazy_why) && reason_fits(outcome->failed, outcome->failed_why) &&
	       outcome->error <= 0;
}

static uint64_t take(uint64_t *from, uint64_t *wanted)
{
	uint64_t n = *from < *wanted ? *from : *wanted;
	*from -= n;
	*wanted -= n;
	return n;
}

struct pagehint_outcome ph_outcome_take(struct pagehint_outcome *from, uint64_t bytes)
{
	struct pagehint_outcome part = { 0 };
	ph_outcome_freed(&part, take(&from->freed, &bytes));
	ph_outcome_accepted(&part, take(&from->accepted, &bytes));
	ph_outcome_absent(&part, take(&from->absent, &bytes));
	ph_outcome_lazy(&part, take(&from->lazy, &bytes), from->lazy_why);
	ph_outcome_kept(&part, take(&from->kept, &bytes), from->kept_why);
	ph_outcome_failed(&part, take(&from->failed, &bytes), from->failed_why, from->error);
	from->asked -= part.asked;
	return part;
}

const char *ph_why_text(uint32_t why)
{
	static const char *const text[PAGEHINT_WHY_COUNT] = {
		[PAGEHINT_WHY_NONE] = "no reason given",
		[PAGEHINT_WHY_INHIBITED] = "the inhibit gate was closed",
		[PAGEHINT_WHY_PINNED] = "the region is pinned",
		[PAGEHINT_WHY_ALIGNMENT] = "outside whole pages of the least size that frees anything",
		[PAGEHINT_WHY_PAGE_CACHE] = "clean page-cache pages of a file",
		[PAGEHINT_WHY_BUDGET] = "the mapping budget is spent",
		[PAGEHINT_WHY_CANNOT] = "this backing cannot give memory back",
		[PAGEHINT_WHY_NO_REGION] = "not wholly inside one region",
		[PAGEHINT_WHY_SYSCALL] = "the kernel refused",
		[PAGEHINT_WHY_BACKEND_LIED] = "the backend's answer cannot be true",
		[PAGEHINT_WHY_HOOK_REFUSED] = "the before_discard hook refused",
		[PAGEHINT_WHY_MADV_FREE] = "freed lazily, when the kernel wants memory",
		[PAGEHINT_WHY_ZEROED] = "zeroed in place, still paid for",
		[PAGEHINT_WHY_NOT_TRIED] = "the backend stopped before it",
		[PAGEHINT_WHY_UFFD] = "a userfaultfd is registered that the needed call would break",
		[PAGEHINT_WHY_FORKED] = "the handle belongs to the parent process",
		[PAGEHINT_WHY_GONE] = "the other side is gone",
		[PAGEHINT_WHY_REENTRY] = "called from one of the backend's own callbacks",
		[PAGEHINT_WHY_HOLE] = "no frame there that the hypervisor would take",
		[PAGEHINT_WHY_LIMIT] = "it would have more memory than it may",
		[PAGEHINT_WHY_NO_MEMORY] = "the layer below has no memory of this kind",
		[PAGEHINT_WHY_PRESENT] = "it was there already",
		[PAGEHINT_WHY_MAPPED] = "somebody else has it mapped",
		[PAGEHINT_WHY_UNSCRUBBED] = "it could not be wiped, so it was not given away",
		[PAGEHINT_WHY_IN_FLIGHT] = "a pager is bringing these pages",
	};
	return why < PAGEHINT_WHY_COUNT && text[why] != NULL ? text[why] : "?";
}
