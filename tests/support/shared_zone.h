/*
 * shared_zone: a zone whose state lies in a memfd, handles on it, and a backend that writes down what it was given.
 */
#ifndef TESTS_SUPPORT_SHARED_ZONE_H
#define TESTS_SUPPORT_SHARED_ZONE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagehint/backend.h>
#include <pagehint/reclaimer.h>
#include <pagehint/shared.h>
#include <pagehint/zone.h>

#define SHARED_SECTION ((uint64_t)PAGEHINT_SECTION_FRAMES)
#define SHARED_GRANULE UINT64_C(512)
#define SHARED_MB (UINT64_C(1) << 20)

struct shared_zone {
	int fd;
	struct pagehint_zone_opts opts;
	struct pagehint_zone *zone; /* of the process that made it */
};

/* `sections` are added; flags beside SHARED */
static inline int shared_zone_make(struct shared_zone *s, uint64_t sections, uint32_t flags, uint32_t granule_order)
{
	struct pagehint_zone *made;
	uint64_t bytes;
	s->opts = (struct pagehint_zone_opts) {
		.struct_size = sizeof(s->opts),
		.max_sections = sections,
		.flags = PAGEHINT_ZONE_SHARED | flags,
		.granule_order = granule_order,
		.max_caches = 16,
	};
	s->fd = memfd_create("zone", MFD_CLOEXEC);
	if (s->fd < 0 || pagehint_zone_size(&s->opts, &bytes) < 0 || ftruncate(s->fd, (off_t)bytes) < 0)
		return -1;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (memory == MAP_FAILED || pagehint_zone_init(memory, bytes, &s->opts, &made) < 0)
		return -1;
	munmap(memory, bytes);
	if (pagehint_zone_attach(s->fd, 0, &s->opts, 1, &s->zone) < 0)
		return -1;
	return pagehint_zone_add(s->zone, 0, sections * SHARED_SECTION);
}

static inline void shared_zone_close(struct shared_zone *s)
{
	pagehint_zone_detach(s->zone);
	close(s->fd);
}

/* a number below n; the state is the caller's, so threads and processes have their own */
static inline uint64_t chance_below(uint64_t *state, uint64_t n)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*state >> 33) % n;
}

/* What was discarded; frames [0, frames) are the guest's, others are refused. */
struct shared_sink {
	uint64_t frames, asked, refused, runs;
	uint64_t fail_next;   /* so many runs fail */
	uint64_t frame, last; /* of the last run */
};

static inline int shared_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
				 struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct shared_sink *sink = ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bytes = runs[i].frames << 12;
		memset(&outcomes[i], 0, sizeof(outcomes[i]));
		outcomes[i].asked = bytes;
		if (sink->fail_next != 0 || runs[i].frame + runs[i].frames > sink->frames) {
			sink->refused += sink->fail_next == 0;
			sink->fail_next -= sink->fail_next != 0;
			outcomes[i].kept = bytes;
			outcomes[i].kept_why = PAGEHINT_WHY_NO_REGION;
			continue;
		}
		outcomes[i].accepted = bytes;
		sink->asked += runs[i].frames;
		sink->runs++;
		sink->frame = runs[i].frame;
		sink->last = runs[i].frames;
	}
	*ret_done = n;
	return 0;
}

static inline int shared_backend(struct shared_sink *sink, struct pagehint_backend **ret_backend)
{
	static const struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops),
		.name = "sink",
		.max_runs = 1024,
		.discard = shared_discard,
	};
	return pagehint_backend_new(&ops, sink, NULL, ret_backend);
}

#endif
