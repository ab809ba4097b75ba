/*
 * soak: everything of the library at once, for as long as it is told to, with calls of the system failing in between.
 *
 * usage: soak [--seconds N | --laps N --operations M] [--seed S]
 *
 * --seconds   a walk every 3 seconds, until N have passed (default 600)
 * --laps      counted instead: N walks, one after every M operations of all threads together, and some of each
 * --seed      of chance; printed at the start, for a run that shall be as like as threads allow
 *
 * A walk: all threads rest, each part's invariants are walked, and the process must have as many descriptors and as much memory
 * outside of what it manages as at the first one. Exit 0: not one violation.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"
#include "rss.h"
#include "soak.h"

#define WALK_S 3u
#define PROGRESS_S 10u
#define LEAST 16u          /* operations of each thread in a counted lap */
#define GROWTH_PCT_MAX 2.0 /* of memory outside of what is managed, from the first walk to the last */
#define WARM 2u            /* walks before the first that counts: by then every room has been entered once */

static struct how {
	uint64_t seconds, laps, operations, seed;
} how = { .seconds = 600 };

static struct soak_part parts[SOAK_PARTS];
static uint32_t parts_n;
static struct {
	uint64_t start, told; /* seconds */
	uint64_t walks;
	uint64_t rss_first, rss_last;
	uint64_t fds_first;
	int64_t seam_fds, seam_mapped;
} run;

static uint64_t now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

static uint64_t operations(void)
{
	uint64_t sum = soak_members_operations();
	for (uint32_t i = 0; i < parts_n; i++)
		sum += parts[i].elsewhere == NULL ? 0 : parts[i].elsewhere(parts[i].ctx);
	return sum;
}

static int open_parts(void)
{
	int (*const open[])(struct soak_part *) = {
		soak_host_open, /* forks, so it is first: no threads, and nothing of the others */
		soak_anon_open,        soak_memfd_open,   soak_paged_anon_open,
		soak_paged_memfd_open, soak_balloon_open, soak_bitmap_open,
	};
	for (uint32_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		int r = open[i](&parts[parts_n]);
		if (r < 0) {
			printf("part %u cannot be opened: %s\n", i, strerror(-r));
			return r;
		}
		parts_n += r == 0;
	}
	return 0;
}

/* ---- between two walks ---- */

static void nap(void)
{
	const struct timespec t = { .tv_nsec = 10000000 };
	nanosleep(&t, NULL);
}

static void lap(uint64_t least_before)
{
	uint64_t begun = now_s(), first = operations();
	for (;; nap()) {
		if (soak_violations(NULL) != 0)
			return;
		if (how.laps == 0 && now_s() - begun >= WALK_S)
			return;
		if (how.laps != 0 && operations() - first >= how.operations &&
		    soak_members_least() >= least_before + LEAST)
			return;
	}
}

static void progress(void)
{
	if (how.laps == 0 && now_s() - run.told < PROGRESS_S)
		return;
	run.told = now_s();
	printf("%5" PRIu64 " s: %" PRIu64 " operations, %" PRIu64 " walks, %" PRIu64 " calls failed, %" PRIu64
	       " violations, %.2f MiB of its own\n",
	       now_s() - run.start, operations(), run.walks, faults_injected(), soak_violations(NULL),
	       (double)run.rss_last / 1048576);
	fflush(stdout);
}

/* The process must not grow. Descriptors are counted after all is put anew, when every part has as many as at first. */
static void judge_process(void)
{
	uint64_t fds = rss_descriptors();
	run.rss_last = rss_outside();
	(void)SOAK_MUST("process", fds != UINT64_MAX && run.rss_last != UINT64_MAX);
	if (run.walks <= WARM) {
		run.rss_first = run.rss_last;
		run.fds_first = fds;
		run.seam_fds = faults_fds();
	}
	if (fds != run.fds_first || faults_fds() != run.seam_fds)
		(void)soak_bad("process",
			       "%" PRIu64 " descriptors, not %" PRIu64 " (the library: %" PRId64 ", not %" PRId64 ")",
			       fds, run.fds_first, faults_fds(), run.seam_fds);
}

static int walk(void)
{
	if (soak_members_rest() < 0)
		return -1;
	faults_arm(0);
	run.walks++;
	for (uint32_t i = 0; i < parts_n; i++)
		parts[i].walk(parts[i].ctx);
	for (uint32_t i = 0; i < parts_n && soak_violations(NULL) == 0; i++)
		if (parts[i].renew != NULL)
			parts[i].renew(parts[i].ctx);
	judge_process();
	progress();
	faults_arm(1);
	soak_members_go_on();
	return 0;
}

/* Returns -1 when threads are stuck: nothing can be taken apart then. */
static int soak(void)
{
	faults_arm(1);
	for (;;) {
		lap(soak_members_least());
		if (walk() < 0)
			return -1;
		int over = how.laps != 0 ? run.walks >= how.laps : now_s() - run.start >= how.seconds;
		if ((over && run.walks > WARM) || soak_violations(NULL) != 0)
			return 0;
	}
}

/* ---- the end ---- */

static void close_parts(void)
{
	soak_members_end();
	faults_arm(0);
	for (uint32_t i = parts_n; i-- > 0;)
		parts[i].close(parts[i].ctx);
	if (soak_violations(NULL) == 0 && (faults_fds() != 0 || faults_mapped() != 0))
		(void)soak_bad("process", "the library has %" PRId64 " descriptors and %" PRId64 " bytes still",
			       faults_fds(), faults_mapped());
}

/* The counted last line: each part, and the process as one. */
static int results(uint64_t did)
{
	uint32_t failed = 0;
	double growth = ((double)run.rss_last - (double)run.rss_first) * 100 / (double)run.rss_first;
	if (growth > GROWTH_PCT_MAX && !rss_is_blurred())
		(void)soak_bad("process", "its own memory grew by %.2f %%: from %" PRIu64 " to %" PRIu64 " KiB", growth,
			       run.rss_first / 1024, run.rss_last / 1024);
	if (rss_is_blurred())
		printf("growth is shown, not judged: a sanitizer's memory is in it\n");
	for (uint32_t i = 0; i < parts_n; i++)
		failed += soak_violations(parts[i].name) != 0;
	uint32_t others = soak_violations(NULL) != 0 && failed == 0;
	others |= soak_violations("process") != 0 || soak_violations("rest") != 0;
	printf("RESULT soak.operations %" PRIu64 "\n", did);
	for (uint32_t i = 0; i < parts_n; i++)
		if (parts[i].gone != NULL)
			printf("RESULT soak.discarded_frames.%s %" PRIu64 "\n", parts[i].name,
			       atomic_load(parts[i].gone));
	printf("RESULT soak.faults_injected %" PRIu64 "\n", faults_injected());
	printf("RESULT soak.violations %" PRIu64 "\n", soak_violations(NULL));
	printf("RESULT soak.rss_growth_pct %.2f\n", growth);
	printf("%u passed, %u failed, 0 skipped\n", parts_n - failed + 1 - others, failed + others);
	return soak_violations(NULL) != 0;
}

static int read_arguments(int argc, char **argv)
{
	static const struct {
		const char *name;
		uint64_t *value;
	} known[] = { { "--seconds", &how.seconds },
		      { "--laps", &how.laps },
		      { "--operations", &how.operations },
		      { "--seed", &how.seed } };
	how.seed = (uint64_t)time(NULL);
	for (int i = 1; i < argc; i += 2) {
		uint32_t k = 0;
		char *end = NULL;
		while (k < 4 && strcmp(argv[i], known[k].name) != 0)
			k++;
		if (k == 4 || i + 1 == argc)
			return -1;
		*known[k].value = strtoull(argv[i + 1], &end, 10);
		if (end == argv[i + 1] || *end != 0)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (read_arguments(argc, argv) < 0) {
		fprintf(stderr, "usage: %s [--seconds N | --laps N --operations M] [--seed S]\n", argv[0]);
		return 2;
	}
	printf("seed %" PRIu64 "\n", how.seed);
	fflush(stdout);
	faults_seed(how.seed);
	if (soak_judge_open() < 0 || open_parts() < 0)
		return 1;
	soak_members_seed(how.seed);
	run.start = run.told = now_s();
	if (soak_members_start() < 0)
		return 1;
	if (soak() < 0) {
		(void)results(operations());
		_exit(1);
	}
	uint64_t did = operations();
	close_parts();
	return results(did);
}
