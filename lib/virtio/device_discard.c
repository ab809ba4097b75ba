/*
 * device_discard: from the pieces of a request to maximal runs, to the backend, and what it answers.
 *
 * Why this shape: a batch is settled once (whole host pages cut out, parts remembered), and the runs stay with the queue until
 * the backend has taken them: settling is not repeated when it has no room. The gate is entered for as long as a batch is on
 * its way, so who closes it knows when nothing is any more.
 */
#include <errno.h>

#include "virtio/device.h"

#define COOKIE(role, slot) ((uint64_t)(role) << 32 | (slot))

/* ---- pieces become runs ---- */

/* Appends pages [at, end), in the numbers that larger pages align by; joined when the region has just come so far. */
static void emit(const struct pagehint_device *device, struct ph_device_queue *q, uint64_t at, uint64_t end, int joins)
{
	const struct ph_place *place = &device->place;
	uint32_t shift = device->frame_pages_shift;
	uint64_t from = place->page + (at - place->base), to = place->page + (end - place->base);
	uint64_t frame = (from + ((UINT64_C(1) << shift) - 1)) >> shift, last = to >> shift;
	if (frame >= last)
		return;
	if (joins && q->n_runs != 0 && q->runs[q->n_runs - 1].frame + q->runs[q->n_runs - 1].frames == frame)
		q->runs[q->n_runs - 1].frames += last - frame;
	else
		q->runs[q->n_runs++] = (struct pagehint_run) { frame, last - frame };
}

/* how far the runs of this region have come */
struct reached {
	uint64_t region;
	uint64_t end; /* as in emit */
	int any;
};

/* Whole larger pages [at, end). */
static void go_on(const struct pagehint_device *device, struct ph_device_queue *q, uint64_t at, uint64_t end,
		  struct reached *reached)
{
	emit(device, q, at, end, reached->any && reached->end == at);
	reached->end = end;
	reached->any = 1;
}

/* One larger page, of which [at, end) came in. */
static void take_part(struct pagehint_device *device, struct ph_device_queue *q, uint64_t at, uint64_t end,
		      struct reached *reached)
{
	struct ph_place *place = &device->place;
	struct ph_partial_page larger;
	uint64_t page = place->page + (at - place->base);
	if (reached->any && at < reached->end) {
		PH_DROP(device, DUPLICATE, end - at); /* it went as a whole already */
		return;
	}
	if (ph_device_larger(place, page, &larger) < 0 || place->granule > PH_PARTIAL_PAGE_MAX) {
		PH_DROP(device, EDGE, end - at);
		return;
	}
	/* who need not tell may use an acknowledged page again as soon as it has asked for it, before we look */
	if (!ph_device_has(device, PAGEHINT_BALLOON_F_MUST_TELL_HOST)) {
		PH_DROP(device, PARTIAL, 1);
		return;
	}
	uint64_t forgotten = device->partial.forgotten;
	if (ph_partial_add(&device->partial, &larger, at - larger.first, end - at)) {
		q->request[(q->first + q->n - 1) % PH_DEVICE_REQUESTS].completes = 1;
		go_on(device, q, larger.first, larger.first + larger.pages, reached);
	}
	PH_DROP(device, PARTIAL, device->partial.forgotten - forgotten);
}

/* Cuts a piece into larger pages; device->place has it. */
static void cut(struct pagehint_device *device, struct ph_device_queue *q, const struct ph_piece *piece,
		struct reached *reached)
{
	const struct ph_place *place = &device->place;
	uint64_t at = place->base + (piece->page - place->page), end = at + piece->pages, unit = place->granule;
	while (at < end) {
		uint64_t first = at & ~(unit - 1), next = first + unit;
		if (at != first || next > end) {
			next = next < end ? next : end;
			take_part(device, q, at, next, reached);
			at = next;
			continue;
		}
		next = end & ~(unit - 1);
		for (uint64_t whole = at; whole < next && device->partial.n != 0; whole += unit) {
			struct ph_partial_page larger = { place->id, whole, unit, 0 };
			if (unit <= PH_PARTIAL_PAGE_MAX)
				ph_partial_forget(&device->partial, &larger);
		}
		go_on(device, q, at, next, reached);
		at = next;
	}
}

void ph_device_settle(struct pagehint_device *device, uint32_t role)
{
	struct ph_device_queue *q = &device->queue[role];
	struct reached reached = { 0, 0, 0 };
	PH_DROP(device, DUPLICATE, ph_pieces_settle(&q->pieces));
	if (role == PAGEHINT_BALLOON_Q_DEFLATE) {
		ph_device_populate(device, q);
		ph_pieces_clear(&q->pieces);
		return;
	}
	for (uint32_t i = 0; i < q->pieces.n; i++) {
		const struct ph_piece *piece = &q->pieces.piece[i];
		if (ph_device_find(device, piece->page) < 0 || device->place.id != piece->region) {
			PH_DROP(device, BAD_PFN, piece->pages); /* its region went in the meantime */
			continue;
		}
		if (device->place.drop != PAGEHINT_DEVICE_DROP_COUNT) {
			device->counts.dropped[device->place.drop]++; /* pinned since it was collected */
			continue;
		}
		if (reached.region != piece->region)
			reached = (struct reached) { piece->region, 0, 0 };
		uint64_t at = device->place.base + (piece->page - device->place.page);
		if (role == PAGEHINT_BALLOON_Q_INFLATE && device->place.granule > 1)
			cut(device, q, piece, &reached);
		else
			emit(device, q, at, at + piece->pages, 0);
	}
	ph_pieces_clear(&q->pieces);
}

void ph_device_populate(struct pagehint_device *device, struct ph_device_queue *q)
{
	uint32_t shift = device->frame_pages_shift, done = 0, n = 0;
	uint64_t round = (UINT64_C(1) << shift) - 1;
	for (uint32_t i = 0; i < q->pieces.n; i++) {
		const struct ph_piece *piece = &q->pieces.piece[i];
		uint64_t frame = piece->page >> shift, end = (piece->page + piece->pages + round) >> shift;
		if (n > 0 && frame < q->runs[n - 1].frame + q->runs[n - 1].frames)
			frame = q->runs[n - 1].frame + q->runs[n - 1].frames;
		if (frame < end)
			q->runs[n++] = (struct pagehint_run) { frame, end - frame };
	}
	int r = pagehint_backend_populate(device->backend, q->runs, n, &done);
	for (uint32_t i = 0; i < done && i < n; i++)
		device->counts.populated += q->runs[i].frames << (shift + PAGEHINT_BALLOON_PAGE_SHIFT);
	if (r < 0) {
		/* what is not present yet comes with a fault */
		device->counts.populate_errors++;
		ph_device_log(device, PAGEHINT_LOG_WARN, "deflated pages could not be made present: error %d", r);
	}
}

/* ---- runs go down ---- */

static uint64_t bytes_of(const struct pagehint_device *device, const struct pagehint_run *runs, uint32_t n)
{
	uint64_t frames = 0;
	for (uint32_t i = 0; i < n; i++)
		frames += runs[i].frames;
	return frames << (device->frame_pages_shift + PAGEHINT_BALLOON_PAGE_SHIFT);
}

static void count(struct pagehint_device *device, const struct pagehint_outcome *o)
{
	struct pagehint_device_stats *c = &device->counts;
	c->asked += o->asked;
	c->freed += o->freed;
	c->absent += o->absent;
	c->accepted += o->accepted;
	c->kept += o->kept;
	c->lazy += o->lazy;
	c->failed += o->failed;
	/* what was paid for beforehand, and did not go */
	ph_device_rate_give_back(&device->rate, o->absent + o->kept + o->failed);
}

static uint64_t gone(const struct pagehint_outcome *o)
{
	return o->freed + o->absent + o->accepted;
}

static void refused(struct pagehint_device *device, int error, uint64_t bytes)
{
	device->counts.submit_errors++;
	ph_device_rate_give_back(&device->rate, bytes);
	ph_device_log(device, PAGEHINT_LOG_WARN, "the backend refused a batch: error %d", error);
}

static void send_sync(struct pagehint_device *device, struct ph_device_queue *q, struct ph_request *request, uint32_t n,
		      uint32_t flags, uint64_t bytes)
{
	struct pagehint_outcome sum = { 0 };
	uint32_t done = 0;
	int r = pagehint_backend_discard(device->backend, q->runs + q->sent, n, flags, NULL, &sum, &done);
	device->counts.batches++;
	device->counts.runs += n;
	count(device, &sum);
	request->gone += gone(&sum);
	if (sum.asked < bytes)
		refused(device, r, bytes - sum.asked);
}

static int send_async(struct pagehint_device *device, struct ph_device_queue *q, uint32_t role,
		      struct ph_request *request, uint32_t n, uint32_t flags, uint64_t bytes)
{
	uint32_t slot = (uint32_t)(request - q->request);
	int r = pagehint_backend_submit(device->backend, q->runs + q->sent, n, flags, COOKIE(role, slot));
	device->poll_gap_ns = r == 0 ? PH_DEVICE_POLL_NS : device->poll_gap_ns;
	if (r == -EAGAIN) {
		ph_device_rate_give_back(&device->rate, bytes);
		device->poll_ns = ph_device_later(device->now_ns, device->poll_gap_ns);
		return r;
	}
	if (r < 0) {
		refused(device, r, bytes);
		return 0;
	}
	device->counts.batches++;
	device->counts.runs += n;
	device->counts.in_flight += request->batches == 0;
	request->batches++;
	device->batches++;
	device->poll_ns = ph_device_later(device->now_ns, device->poll_gap_ns);
	return 1;
}

/* Returns -EAGAIN when the backend has no room. */
static int send_part(struct pagehint_device *device, struct ph_device_queue *q, uint32_t role, uint32_t n)
{
	struct ph_request *request = &q->request[(q->first + q->n - 1) % PH_DEVICE_REQUESTS];
	uint32_t flags = (device->flags & PAGEHINT_DEVICE_PROBE) != 0 ? PAGEHINT_DISCARD_PROBE : 0;
	uint64_t bytes = bytes_of(device, q->runs + q->sent, n);
	if (device->gate != NULL && pagehint_gate_enter(device->gate, NULL) < 0) {
		PH_DROP(device, INHIBITED, !q->inhibited);
		q->inhibited = 1;
		return 0;
	}
	int in_flight = 0;
	ph_device_rate_take(&device->rate, bytes);
	if (device->async)
		in_flight = send_async(device, q, role, request, n, flags, bytes);
	else
		send_sync(device, q, request, n, flags, bytes);
	if (in_flight != 1 && device->gate != NULL)
		pagehint_gate_leave(device->gate);
	return in_flight < 0 ? in_flight : 0;
}

int ph_device_send(struct pagehint_device *device, uint32_t role)
{
	struct ph_device_queue *q = &device->queue[role];
	while (q->sent < q->n_runs) {
		uint32_t n = q->n_runs - q->sent;
		if (device->async && n > device->max_runs)
			n = device->max_runs;
		int r = send_part(device, q, role, n);
		if (r < 0)
			return r;
		q->sent += n;
	}
	q->n_runs = 0;
	q->sent = 0;
	return 0;
}

/* ---- what ended ---- */

static void ended(struct pagehint_device *device, uint64_t cookie, const struct pagehint_outcome *outcomes, uint32_t n)
{
	uint32_t role = (uint32_t)(cookie >> 32), slot = (uint32_t)cookie;
	uint64_t went = 0;
	for (uint32_t i = 0; i < n; i++) {
		count(device, &outcomes[i]);
		went += gone(&outcomes[i]);
	}
	device->batches--;
	if (device->gate != NULL)
		pagehint_gate_leave(device->gate);
	if (role >= PAGEHINT_BALLOON_Q_COUNT || slot >= PH_DEVICE_REQUESTS)
		return;
	struct ph_request *request = &device->queue[role].request[slot];
	request->gone += went;
	request->batches--;
	device->counts.in_flight -= request->batches == 0;
}

void ph_device_reap(struct pagehint_device *device)
{
	uint64_t cookie = 0;
	uint32_t n = 0, any = 0;
	while (device->batches != 0 &&
	       pagehint_backend_reap(device->backend, device->max_runs, device->outcomes, &cookie, &n) == 0) {
		ended(device, cookie, device->outcomes, n);
		any = 1;
	}
	if (any)
		device->poll_gap_ns = PH_DEVICE_POLL_NS;
	else if (device->now_ns >= device->poll_ns && device->poll_gap_ns < PH_DEVICE_POLL_MOST_NS)
		device->poll_gap_ns *= 2;
	if (any || device->now_ns >= device->poll_ns)
		device->poll_ns = ph_device_later(device->now_ns, device->poll_gap_ns);
}
