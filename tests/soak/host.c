/*
 * host: a zone whose state two processes have mapped. The guest, a process of its own, allocates, writes and frees; the host
 * takes what is free out of the state and discards it, softly or up to a target, over its own mapping of the guest's memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/reclaimer.h>
#include <pagehint/shared.h>

#include "alloc/reclaimer.h"
#include "faults.h"
#include "ground.h"
#include "memory/map.h"
#include "soak.h"
#include "taker.h"

#define FRAMES UINT64_C(4096) /* 16 MiB */
#define GRANULE 6u
#define PART "host"

struct host {
	struct ground ground; /* the zone handle is the host's here, the guest's there */
	struct taker taker;
	int state, talk;
	pid_t guest;
	struct with_guest {
		_Atomic uint64_t operations;
		_Atomic uint32_t pause; /* the guest shall ask before it goes on */
	} * shared;
	struct pagehint_map *map;
	struct pagehint_reclaimer *reclaimer;
	uint64_t now;
	uint64_t inherited; /* bytes that the reclaimer took over when it was made */
};

static struct host h;

/* ---- the guest ---- */

static int guest_open(void)
{
	struct ground_worker *w = &h.ground.workers[0];
	int r = pagehint_zone_attach(h.state, 0, &h.ground.opts, 1, &h.ground.zone);
	w->ground = &h.ground;
	h.ground.workers_n = 1;
	return r < 0 ? r : pagehint_cache_open(h.ground.zone, &w->cache);
}

static _Noreturn void guest(int talk)
{
	struct soak_member m = { .index = SOAK_MEMBERS + 1, .chance = 20261201 };
	char word;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	int r = guest_open();
	(void)SOAK_MUST(PART, r == 0);
	while (r == 0) {
		if (atomic_load(&h.shared->pause)) {
			if (write(talk, "r", 1) != 1 || read(talk, &word, 1) != 1)
				_exit(1);
			if (word == 'e')
				break;
		}
		/* a turn may have found nothing to do: the zone may be the host's */
		m.operations += (uint64_t)ground_turn(&h.ground.workers[0], &m);
		atomic_store(&h.shared->operations, m.operations);
	}
	ground_go_home(&h.ground);
	_exit(write(talk, "r", 1) == 1 ? 0 : 1);
}

static void guest_rests(void)
{
	char word = 0;
	atomic_store(&h.shared->pause, 1);
	(void)SOAK_MUST(PART, read(h.talk, &word, 1) == 1 && word == 'r');
}

static void guest_goes_on(char word)
{
	atomic_store(&h.shared->pause, 0);
	(void)SOAK_MUST(PART, write(h.talk, &word, 1) == 1);
}

/* ---- the host ---- */

static int one_call(struct soak_member *m, uint64_t *bytes)
{
	uint64_t some = soak_below(&m->chance, 4) << 20, next = h.now;
	switch (soak_below(&m->chance, 8)) {
	case 0:
		return pagehint_reclaimer_hold(h.reclaimer, some, bytes);
	case 1:
		return pagehint_reclaimer_give_back(h.reclaimer, 2 * some, bytes);
	case 2:
		pagehint_reclaimer_set_target(h.reclaimer, soak_below(&m->chance, 3) == 0 ? UINT64_MAX : 2 * some);
		return 0;
	case 3:
	case 4:
		return pagehint_reclaimer_reclaim(h.reclaimer, some, bytes);
	default: {
		int r = pagehint_reclaimer_step(h.reclaimer, h.now, &next);
		h.now = next > h.now ? next : h.now + 1000000;
		return r;
	}
	}
}

static int host_turn(void *ctx, struct soak_member *m)
{
	uint64_t bytes = 0, mine = faults_mine();
	(void)ctx;
	int r = one_call(m, &bytes);
	if (r != 0 && r != -ENOSPC && r != -EAGAIN && faults_mine() == mine)
		(void)soak_bad(PART, "a call of the reclaimer gave %d, and no call had failed", r);
	return 1;
}

static void judge_host(void)
{
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	struct pagehint_zone_stats z = { .struct_size = sizeof(z) };
	(void)SOAK_MUST(PART, pagehint_reclaimer_stats(h.reclaimer, &s) == 0);
	(void)SOAK_MUST(PART, pagehint_zone_stats(h.ground.zone, &z) == 0);
	(void)SOAK_MUST(PART, s.held == h.inherited + s.taken - s.returned && s.lies == 0 && s.doubtful == 0);
	(void)SOAK_MUST(PART, z.isolated * CONTENT_PAGE == s.held);
}

static void walk(void *ctx)
{
	(void)ctx;
	guest_rests();
	ground_walk(&h.ground, 0, 0);
	taker_walk(&h.taker, h.ground.zone);
	judge_host();
	guest_goes_on('g');
}

static int open_reclaimer(void)
{
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	int r = ph_reclaimer_new_with(faults_sys(), h.ground.zone, h.taker.judged, NULL, &h.reclaimer);
	if (r == 0)
		r = pagehint_reclaimer_stats(h.reclaimer, &s);
	h.inherited = s.held;
	return r;
}

/* Another host takes over what this one holds, under the guest that goes on meanwhile. */
static void renew(void *ctx)
{
	(void)ctx;
	pagehint_reclaimer_free(h.reclaimer);
	(void)SOAK_MUST(PART, open_reclaimer() == 0);
}

static void close_host(void *ctx)
{
	int status = 1;
	uint64_t bytes;
	char word = 0;
	(void)ctx;
	guest_rests();
	guest_goes_on('e');
	(void)SOAK_MUST(PART, read(h.talk, &word, 1) == 1);
	(void)SOAK_MUST(PART, waitpid(h.guest, &status, 0) == h.guest && status == 0);
	(void)SOAK_MUST(PART, pagehint_reclaimer_give_back(h.reclaimer, UINT64_MAX, &bytes) == -ENOSPC);
	pagehint_reclaimer_settle(h.reclaimer);
	ground_walk(&h.ground, 0, 0);
	if (soak_violations(NULL) == 0) /* else it was ended early */
		(void)SOAK_MUST(PART, h.ground.content.gone != 0);
	pagehint_reclaimer_free(h.reclaimer);
	(void)SOAK_MUST(PART, pagehint_backend_free(h.taker.judged) == 0);
	(void)SOAK_MUST(PART, pagehint_map_free(h.map) == 0);
	pagehint_zone_detach(h.ground.zone);
	content_close(&h.ground.content);
	munmap(h.shared, sizeof(*h.shared));
	close(h.state);
	close(h.talk);
}

static uint64_t guest_operations(void *ctx)
{
	(void)ctx;
	return atomic_load(&h.shared->operations);
}

/* ---- opening ---- */

static int make_state(void)
{
	struct pagehint_zone *made;
	uint64_t bytes;
	h.ground.part = PART;
	h.ground.total = FRAMES;
	h.ground.opts = (struct pagehint_zone_opts) { .struct_size = sizeof(h.ground.opts),
						      .flags = PAGEHINT_ZONE_SHARED,
						      .granule_order = GRANULE,
						      .max_caches = 8 };
	h.state = memfd_create("soak-zone", MFD_CLOEXEC);
	if (h.state < 0 || pagehint_zone_size(&h.ground.opts, &bytes) < 0 || ftruncate(h.state, (off_t)bytes) < 0)
		return -EIO;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h.state, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	int r = pagehint_zone_init(at, bytes, &h.ground.opts, &made);
	if (r == 0)
		r = pagehint_zone_add(made, 0, FRAMES);
	munmap(at, bytes);
	return r;
}

static int fork_guest(void)
{
	int pair[2];
	h.shared = mmap(NULL, sizeof(*h.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (h.shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	h.guest = fork();
	if (h.guest == 0) {
		close(pair[0]);
		guest(pair[1]);
	}
	close(pair[1]);
	h.talk = pair[0];
	return h.guest < 0 ? -errno : 0;
}

static int open_host_side(void)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = FRAMES,
					     .fd = h.ground.content.fd,
					     .host_addr = (uintptr_t)h.ground.content.memory };
	struct pagehint_backend_opts how = { .struct_size = sizeof(how) };
	uint64_t id;
	how.hooks = taker_hooks(&h.taker, PART, &h.ground.content);
	int r = ph_map_new_with(NULL, faults_sys(), &h.map);
	if (r == 0)
		r = pagehint_map_add(h.map, &desc, &id);
	if (r == 0)
		r = pagehint_madvise_new(h.map, NULL, &how, &h.taker.judged);
	if (r == 0)
		r = pagehint_zone_attach(h.state, 0, &h.ground.opts, 2, &h.ground.zone);
	if (r == 0)
		r = open_reclaimer();
	return r;
}

int soak_host_open(struct soak_part *ret)
{
	memset(&h, 0, sizeof(h));
	int r = content_open(&h.ground.content, PART, 1, FRAMES, 0);
	if (r == 0)
		r = make_state();
	if (r == 0)
		r = fork_guest(); /* before there are threads */
	if (r == 0)
		r = open_host_side();
	if (r == 0 && soak_member_add("host", SOAK_WORKER, host_turn, NULL) == NULL)
		r = -ENOSPC;
	*ret = (struct soak_part) { .name = PART,
				    .walk = walk,
				    .renew = renew,
				    .close = close_host,
				    .elsewhere = guest_operations,
				    .gone = &h.ground.content.gone };
	return r;
}
