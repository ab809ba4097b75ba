/*
 * anon: memory that MADV_DONTNEED frees, gathered into batches of up to 1024 ranges for one process_madvise on oneself.
 *
 * Why so careful: process_madvise stops at the first range that fails and says only how many bytes it got through, and
 * many kernels refuse this advice on principle. The range that stopped it is tried alone, which tells its own error; when
 * that works, the batch as such was refused, and the handle does without from then on.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "discard/backend.h"
#include "host/madvise.h"
#include "host/residency.h"

static void give_up_batches(struct ph_madvise *m, int error)
{
	if (m->pidfd >= 0)
		(void)m->sys->close(m->sys->ctx, m->pidfd);
	m->pidfd = -1;
	m->batch_error = error;
}

/* No range at all: the kernel checks the advice and the right to give it, and does nothing. */
void ph_batch_probe(struct ph_madvise *m)
{
	if ((m->flags & PAGEHINT_MADVISE_NO_BATCH) != 0)
		return;
	m->pidfd = m->sys->pidfd_open(m->sys->ctx, m->sys->getpid(m->sys->ctx));
	if (m->pidfd < 0) {
		give_up_batches(m, m->pidfd);
		return;
	}
	int64_t r = m->sys->process_madvise(m->sys->ctx, m->pidfd, m->batch.iov, 0, MADV_DONTNEED);
	if (r < 0)
		give_up_batches(m, (int)r);
}

/* One range by itself. *used: the advice that was taken in the end. */
static int advise_alone(struct ph_madvise *m, const struct iovec *range, int advice, int *used)
{
	PH_MADVISE_COUNT(m, madvise);
	*used = advice;
	int r = m->sys->madvise(m->sys->ctx, range->iov_base, range->iov_len, advice);
	if (r == -EINVAL && advice == MADV_FREE)
		return advise_alone(m, range, MADV_DONTNEED, used);
	if (r == -EINVAL && advice == MADV_DONTNEED) /* locked since it was registered? */
		return advise_alone(m, range, PH_ADVICE_DONTNEED_LOCKED, used);
	return r;
}

static void settle(struct ph_madvise *m, uint32_t i, int used, int r)
{
	const struct ph_batch_item *item = &m->batch.item[i];
	uint64_t bytes = m->batch.iov[i].iov_len;
	if (r < 0) {
		char text[128];
		ph_outcome_failed(item->outcome, bytes, PAGEHINT_WHY_SYSCALL, r);
		if (r != -ENOMEM)
			return;
		snprintf(text, sizeof(text), "madvise: a hole between mappings in %" PRIu64 " bytes at 0x%" PRIxPTR,
			 bytes, (uintptr_t)m->batch.iov[i].iov_base);
		ph_backend_log(m->handle, PAGEHINT_LOG_WARN, text);
	} else if (used == MADV_FREE) {
		uint64_t resident = item->resident < bytes ? item->resident : bytes;
		ph_outcome_lazy(item->outcome, resident, PAGEHINT_WHY_MADV_FREE);
		ph_outcome_absent(item->outcome, bytes - resident);
	} else {
		ph_book(item->outcome, bytes, item->resident);
	}
}

/* The batch failed at a range that `alone` gave this result for: is it the range, or are batches not allowed? */
static void judge(struct ph_madvise *m, int64_t refused, int alone, int same_advice)
{
	char text[96];
	int never = refused == -EPERM || refused == -ENOSYS;
	int passing = refused == -EAGAIN || refused == -EINTR || refused == -ENOMEM || refused == -EBUSY;
	if (!never && (passing || alone < 0 || !same_advice))
		return;
	give_up_batches(m, (int)refused);
	snprintf(text, sizeof(text), "madvise: process_madvise is refused (error %d), one call a run from now on",
		 (int)refused);
	ph_backend_log(m->handle, PAGEHINT_LOG_INFO, text);
}

/* Gives as much as one call takes; returns where it stopped. */
static uint32_t advise_together(struct ph_madvise *m, uint32_t from, int64_t *ret_refused)
{
	struct ph_batch *batch = &m->batch;
	PH_MADVISE_COUNT(m, process_madvise);
	int64_t r = m->sys->process_madvise(m->sys->ctx, m->pidfd, batch->iov + from, batch->n - from, batch->advice);
	*ret_refused = r < 0 ? r : 0;
	uint64_t through = r < 0 ? 0 : (uint64_t)r;
	for (; from < batch->n && through >= batch->iov[from].iov_len; from++) {
		through -= batch->iov[from].iov_len;
		settle(m, from, batch->advice, 0);
	}
	return from;
}

void ph_batch_flush(struct ph_madvise *m)
{
	struct ph_batch *batch = &m->batch;
	for (uint32_t at = 0; at < batch->n;) {
		int64_t refused = 0;
		if (m->pidfd >= 0 && batch->n - at > 1)
			at = advise_together(m, at, &refused);
		if (at == batch->n)
			break;
		int used = batch->advice;
		int r = advise_alone(m, &batch->iov[at], batch->advice, &used);
		settle(m, at, used, r);
		at++;
		if (refused < 0)
			judge(m, refused, r, used == batch->advice);
	}
	for (uint32_t i = 0; i < batch->entered_n; i++)
		ph_map_leave(m->map, batch->entered[i]);
	batch->n = 0;
	batch->entered_n = 0;
	batch->bytes = 0;
}

static int advice_for(const struct ph_madvise *m, const struct ph_job *job)
{
	if ((job->region.flags & PAGEHINT_REGION_LOCKED) != 0 && job->region.backing == PAGEHINT_BACKING_ANON)
		return PH_ADVICE_DONTNEED_LOCKED;
	if ((m->flags & PAGEHINT_MADVISE_LAZY) != 0 && (job->flags & PAGEHINT_DISCARD_ZERO) == 0 &&
	    job->region.backing == PAGEHINT_BACKING_ANON)
		return MADV_FREE;
	return MADV_DONTNEED;
}

void ph_batch_add(struct ph_madvise *m, struct ph_job *job, uint64_t at, uint64_t bytes)
{
	struct ph_batch *batch = &m->batch;
	int advice = advice_for(m, job);
	uint64_t resident = ph_residency_for(m, job, at, bytes);
	if (batch->n == PH_BATCH_MAX ||
	    (batch->n > 0 && (batch->advice != advice || bytes > PH_BATCH_BYTES - batch->bytes)))
		ph_batch_flush(m);
	batch->advice = advice;
	batch->iov[batch->n] =
		(struct iovec) { .iov_base = ph_host_pointer(job->region.host_addr + at), .iov_len = (size_t)bytes };
	batch->item[batch->n] = (struct ph_batch_item) { .outcome = job->outcome, .resident = resident };
	batch->n++;
	batch->bytes = bytes > PH_BATCH_BYTES - batch->bytes ? PH_BATCH_BYTES : batch->bytes + bytes;
	job->in_batch = 1;
}

void ph_batch_keep_entered(struct ph_madvise *m, const struct ph_job *job)
{
	m->batch.entered[m->batch.entered_n++] = job->region.id;
}
