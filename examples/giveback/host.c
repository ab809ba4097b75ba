#include "host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backing.h"
#include "hugepool.h"

static int sum_anonymous(const struct backing *backing, uint64_t *ret_bytes)
{
	unsigned long long from = (uintptr_t)backing->base;
	unsigned long long to = from + backing->bytes;
	unsigned long long start = 0;
	unsigned long long end = 0;
	unsigned long long kib;
	uint64_t bytes = 0;
	int is_inside = 0;
	char line[512];
	FILE *smaps = fopen("/proc/self/smaps", "re");

	if (!smaps)
		return -errno;
	while (fgets(line, sizeof(line), smaps)) {
		/* a mapping's line begins with its addresses in lower-case hex, a figure's with a capital */
		if (line[0] < 'A' || line[0] > 'Z') {
			if (sscanf(line, "%llx-%llx", &start, &end) == 2)
				is_inside = start >= from && end <= to;
			if (start >= to)
				break;
		} else if (is_inside && sscanf(line, "Anonymous: %llu kB", &kib) == 1) {
			bytes += kib << 10;
		}
	}
	fclose(smaps);
	*ret_bytes = bytes;
	return 0;
}

int host_bytes(const struct backing *backing, uint64_t *ret_bytes)
{
	struct stat st;
	uint64_t used;
	int rc;

	if (backing->kind == BACKING_MEMFD) {
		if (fstat(backing->fd, &st))
			return -errno;
		*ret_bytes = (uint64_t)st.st_blocks * 512;
		return 0;
	}
	if (backing->kind != BACKING_HUGETLB)
		return sum_anonymous(backing, ret_bytes);
	rc = hugepool_used(&used);
	if (!rc)
		*ret_bytes = used < backing->huge_used_before ? 0 : (used - backing->huge_used_before) * GRANULE_BYTES;
	return rc;
}
