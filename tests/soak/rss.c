#include "rss.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>

#define MANAGED 24u

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BLURRED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BLURRED 1
#endif
#endif
#ifndef BLURRED
#define BLURRED 0
#endif

static struct {
	uint64_t low, high;
} managed[MANAGED];
static uint32_t managed_n;

void rss_managed(const void *at, uint64_t bytes)
{
	if (managed_n == MANAGED)
		return;
	managed[managed_n].low = (uintptr_t)at;
	managed[managed_n++].high = (uintptr_t)at + bytes;
}

static int is_managed(uint64_t start)
{
	for (uint32_t i = 0; i < managed_n; i++)
		if (start >= managed[i].low && start < managed[i].high)
			return 1;
	return 0;
}

uint64_t rss_outside(void)
{
	char line[512];
	uint64_t sum = 0, start, end, kib;
	int counts = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	if (f == NULL)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			counts = !is_managed(start);
		else if (counts && sscanf(line, "Rss: %" SCNu64, &kib) == 1)
			sum += kib * 1024;
	}
	fclose(f);
	return sum;
}

uint64_t rss_descriptors(void)
{
	uint64_t n = 0;
	DIR *d = opendir("/proc/self/fd");
	if (d == NULL)
		return UINT64_MAX;
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

int rss_is_blurred(void)
{
	return BLURRED;
}
