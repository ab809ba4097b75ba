/*
 * What is counted: loops of the calls that every allocation pays for, each in a function of its own so that callgrind can be
 * told to collect inside it alone. Everything has been used once before (pages, words, the dynamic linker's tables).
 *
 * usage: hot_paths pairs | bulk | bulk9 [untracked]; prints how many operations the counted function did
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pagehint/cache.h>
#include <pagehint/zone.h>

#define STRETCH 16u /* frames in hand at once: a part of a word, so that all come from the cache and go to it */
#define STRETCHES 500u
#define FRAMES (UINT64_C(1) << 16)
#define BLOCKS 1024u /* of order 9: two sections */

void count_pairs(struct pagehint_cache *cache, uint64_t *failed);
void count_bulk(struct pagehint_cache *cache, uint64_t *failed);
void count_bulk9(struct pagehint_cache *cache, uint64_t *failed);

__attribute__((noinline)) void count_pairs(struct pagehint_cache *cache, uint64_t *failed)
{
	uint64_t frames[STRETCH];
	for (unsigned i = 0; i < STRETCHES; i++) {
		for (unsigned k = 0; k < STRETCH; k++)
			*failed += pagehint_cache_alloc(cache, 0, &frames[k]) != 0;
		for (unsigned k = 0; k < STRETCH; k++)
			*failed += pagehint_cache_free(cache, frames[k], 0) != 0;
	}
}

__attribute__((noinline)) void count_bulk(struct pagehint_cache *cache, uint64_t *failed)
{
	uint64_t frame;
	for (uint64_t i = 0; i < FRAMES; i++)
		*failed += pagehint_cache_alloc(cache, 0, &frame) != 0;
}

__attribute__((noinline)) void count_bulk9(struct pagehint_cache *cache, uint64_t *failed)
{
	uint64_t frame;
	for (unsigned i = 0; i < BLOCKS; i++)
		*failed += pagehint_cache_alloc(cache, 9, &frame) != 0;
}

static int warm_up_blocks(struct pagehint_cache *cache)
{
	uint64_t frames[BLOCKS];
	int failed = 0;
	for (unsigned i = 0; i < BLOCKS; i++)
		failed |= pagehint_cache_alloc(cache, 9, &frames[i]);
	for (unsigned i = 0; i < BLOCKS && failed == 0; i++)
		failed |= pagehint_cache_free(cache, frames[i], 9);
	pagehint_cache_drain(cache);
	return failed;
}

/* Allocates all, frees all: the zone is as new, and warm. */
static int warm_up(struct pagehint_zone *zone, struct pagehint_cache *cache)
{
	uint64_t frame;
	for (uint64_t i = 0; i < FRAMES; i++)
		if (pagehint_cache_alloc(cache, 0, &frame) != 0)
			return -1;
	for (uint64_t i = 0; i < FRAMES; i++)
		if (pagehint_cache_free(cache, i, 0) != 0)
			return -1;
	pagehint_cache_drain(cache);
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	if (pagehint_zone_stats(zone, &stats) != 0 || stats.free != FRAMES)
		return -1;
	return pagehint_cache_alloc(cache, 0, &frame) == 0 && pagehint_cache_free(cache, frame, 0) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_sections = 2 };
	struct pagehint_zone *zone;
	struct pagehint_cache *cache;
	uint64_t failed = 0, ops = FRAMES;
	if (argc > 2 && strcmp(argv[2], "untracked") == 0)
		opts.flags = PAGEHINT_ZONE_UNTRACKED;
	int blocks = argc > 1 && strcmp(argv[1], "bulk9") == 0;
	if (pagehint_zone_new(&opts, &zone) != 0 ||
	    pagehint_zone_add(zone, 0, blocks ? (uint64_t)BLOCKS << 9 : FRAMES) != 0 ||
	    pagehint_cache_open(zone, &cache) != 0 || (blocks ? warm_up_blocks(cache) : warm_up(zone, cache)) != 0)
		return 1;
	if (blocks) {
		ops = BLOCKS;
		count_bulk9(cache, &failed);
	} else if (argc > 1 && strcmp(argv[1], "pairs") == 0) {
		ops = STRETCHES * STRETCH;
		count_pairs(cache, &failed);
	} else if (argc > 1 && strcmp(argv[1], "bulk") == 0) {
		count_bulk(cache, &failed);
	} else {
		return 2;
	}
	printf("%" PRIu64 "\n", ops);
	pagehint_cache_close(cache);
	pagehint_zone_destroy(zone);
	return failed == 0 ? 0 : 1;
}
