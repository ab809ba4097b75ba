/*
 * A hypervisor that reads the guest's allocator: two processes, and a zone whose state lies in memory that both have mapped. The
 * guest allocates and frees; the host takes what is free straight out of the state, with no request and no queue between them.
 *
 * usage: shared-zone     Exit 0: every figure that the host was told by itself agrees with what the zone promised.
 *
 * What it shows, in this order: soft reclaim (what is free leaves the host, and may be allocated again at once), a hard limit (what
 * the host holds the guest cannot have), and the way back. What the guest keeps stays as it was, and what comes back is zero.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/reclaimer.h>
#include <pagehint/shared.h>
#include <pagehint/zone.h>

#define MIB ((uint64_t)1 << 20)
#define BYTES (256 * MIB)
#define BLOCK_ORDER 9u /* 2 MiB: a granule, the least that the host takes */
#define BLOCKS (unsigned)(BYTES / (2 * MIB))
#define KEPT (BLOCKS / 4)

/* what the two share: the state of the zone, the memory that its frames are, and a socket to take turns */
struct shared {
	struct pagehint_zone_opts opts;
	uint64_t state_bytes;
	int state, memory, talk;
};

static void must(const char *what, int ok)
{
	if (ok)
		return;
	fprintf(stderr, "shared-zone: %s\n", what);
	exit(1);
}

/* ---- the guest ---- */

struct guest {
	struct pagehint_zone *zone;
	unsigned char *ram;
	uint64_t blocks[BLOCKS];
	unsigned n;
};

#define PAGES (1u << BLOCK_ORDER)

/* Every page of a block has its number, or zero. */
static int reads(const struct guest *g, unsigned i, uint64_t number)
{
	for (unsigned page = 0; page < PAGES; page++)
		if (memcmp(g->ram + ((g->blocks[i] + page) << 12), &number, sizeof(number)) != 0)
			return 0;
	return 1;
}

static void use(const struct guest *g, unsigned i, uint64_t number)
{
	for (unsigned page = 0; page < PAGES; page++)
		memcpy(g->ram + ((g->blocks[i] + page) << 12), &number, sizeof(number));
}

/* All that can be had. Each new block must read as zero: it was never used, or the host has discarded it. */
static void allocate_all(struct guest *g)
{
	int r = 0;
	while (g->n < BLOCKS && (r = pagehint_zone_alloc(g->zone, BLOCK_ORDER, &g->blocks[g->n])) == 0) {
		must("a block that came back is not zero", reads(g, g->n, 0));
		use(g, g->n, g->n + 1);
		g->n++;
	}
	must("an allocation failed otherwise than for want of memory", r == 0 || r == -ENOSPC);
}

static void free_but(struct guest *g, unsigned kept)
{
	while (g->n > kept)
		must("a block is not taken back", pagehint_zone_free(g->zone, g->blocks[--g->n], BLOCK_ORDER) == 0);
}

static int guest_main(const struct shared *s)
{
	static struct guest g;
	void *state = mmap(NULL, s->state_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->state, 0);
	g.ram = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s->memory, 0);
	must("no memory in the guest", state != MAP_FAILED && g.ram != MAP_FAILED);
	must("no zone", pagehint_zone_init(state, s->state_bytes, &s->opts, &g.zone) == 0 &&
				pagehint_zone_add(g.zone, 0, BYTES >> 12) == 0);
	uint32_t n = BLOCKS;
	char word;
	while (send(s->talk, &n, sizeof(n), 0) == sizeof(n) && recv(s->talk, &word, 1, 0) == 1) {
		if (word == 'a')
			allocate_all(&g);
		else
			free_but(&g, KEPT);
		for (unsigned i = 0; i < g.n; i++)
			must("what the guest keeps has changed", reads(&g, i, i + 1));
		n = g.n;
	}
	return 0;
}

/* ---- the host ---- */

struct host {
	const struct shared *s;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_zone *zone;
	struct pagehint_reclaimer *reclaimer;
};

/* 'a': the guest shall allocate all it can; 'f': free all but KEPT blocks. Returns how many blocks it has then. */
static unsigned tell(const struct host *h, char word)
{
	uint32_t n = 0;
	must("the guest is gone", (word == 0 || send(h->s->talk, &word, 1, MSG_NOSIGNAL) == 1) &&
					  recv(h->s->talk, &n, sizeof(n), 0) == sizeof(n));
	return n;
}

/* Asked of the kernel, not of the library. */
static uint64_t resident(const struct host *h)
{
	struct stat st;
	must("fstat", fstat(h->s->memory, &st) == 0);
	return (uint64_t)st.st_blocks * 512;
}

static void say(const struct host *h, const char *what)
{
	printf("%-58s the host has %3llu MiB\n", what, (unsigned long long)(resident(h) / MIB));
	fflush(stdout);
}

static void open_host(struct host *h)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region),
					       .frames = BYTES >> 12,
					       .fd = h->s->memory };
	void *ram = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, h->s->memory, 0);
	uint64_t id;
	region.host_addr = (uintptr_t)ram;
	must("no memory in the host", ram != MAP_FAILED && pagehint_map_new(NULL, &h->map) == 0 &&
					      pagehint_map_add(h->map, &region, &id) == 0 &&
					      pagehint_madvise_new(h->map, NULL, NULL, &h->backend) == 0);
	/* the options are the host's own: nothing is read from the state that could lead it astray */
	must("no zone to attach to", pagehint_zone_attach(h->s->state, 0, &h->s->opts, 0, &h->zone) == 0);
	must("no reclaimer", pagehint_reclaimer_new(h->zone, h->backend, NULL, &h->reclaimer) == 0);
}

static void close_host(struct host *h)
{
	pagehint_reclaimer_free(h->reclaimer);
	pagehint_zone_detach(h->zone);
	must("the backend is busy", pagehint_backend_free(h->backend) == 0 && pagehint_map_free(h->map) == 0);
}

static void soft(struct host *h)
{
	uint64_t got;
	must("the guest has it all", tell(h, 'a') == BLOCKS);
	say(h, "the guest has allocated everything, and used it:");
	must("the guest keeps a quarter", tell(h, 'f') == KEPT);
	say(h, "it has freed three quarters; nobody was told:");
	/* -ENOSPC: less than was asked for, and there is no more */
	must("soft reclaim", pagehint_reclaimer_reclaim(h->reclaimer, UINT64_MAX, &got) == -ENOSPC);
	say(h, "soft reclaim: what was free is discarded, and free still:");
	must("what was free has left", got == (BLOCKS - KEPT) * 2 * MIB && resident(h) == KEPT * 2 * MIB);
}

static void hard(struct host *h)
{
	struct pagehint_reclaimer_stats stats = { .struct_size = sizeof(stats) };
	uint64_t now = 0, next, got;
	pagehint_reclaimer_set_target(h->reclaimer, BYTES / 2);
	do { /* in an event loop: at each deadline that the call before asked for */
		must("a step", pagehint_reclaimer_step(h->reclaimer, now, &next) == 0 &&
				       pagehint_reclaimer_stats(h->reclaimer, &stats) == 0);
		now = next;
	} while (stats.held != stats.target);
	must("the guest gets what the limit leaves", tell(h, 'a') == BLOCKS / 2);
	say(h, "a limit of a half: the guest wanted all, and got that:");
	must("the guest frees", tell(h, 'f') == KEPT);
	pagehint_reclaimer_set_target(h->reclaimer, UINT64_MAX);
	must("the way back",
	     pagehint_reclaimer_give_back(h->reclaimer, UINT64_MAX, &got) == -ENOSPC && got == BYTES / 2);
	must("soft reclaim", pagehint_reclaimer_reclaim(h->reclaimer, UINT64_MAX, &got) == -ENOSPC);
	must("the guest has it all again", tell(h, 'a') == BLOCKS);
	say(h, "no limit any more: the guest has all of it again:");
}

int main(void)
{
	struct shared s = { .opts = {
				    .struct_size = sizeof(s.opts), .max_sections = 1, .flags = PAGEHINT_ZONE_SHARED } };
	struct host h = { .s = &s };
	int ends[2], status;
	s.state = memfd_create("zone", MFD_CLOEXEC);
	s.memory = memfd_create("guest", MFD_CLOEXEC);
	must("no shared memory", s.state >= 0 && s.memory >= 0 && pagehint_zone_size(&s.opts, &s.state_bytes) == 0 &&
					 ftruncate(s.state, (off_t)s.state_bytes) == 0 &&
					 ftruncate(s.memory, (off_t)BYTES) == 0 &&
					 socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	pid_t child = fork();
	must("fork", child >= 0);
	s.talk = ends[child == 0];
	close(ends[child != 0]);
	if (child == 0)
		return guest_main(&s);
	(void)tell(&h, 0); /* its zone is there */
	open_host(&h);
	soft(&h);
	hard(&h);
	close_host(&h);
	close(s.talk); /* the guest ends */
	must("the guest found something wrong",
	     waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("shared-zone: all as promised\n");
	return 0;
}
