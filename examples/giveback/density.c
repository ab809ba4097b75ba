#include "density.h"

#include <stdio.h>
#include <string.h>

#include <pagehint/zone.h>

#define SECTIONS 64u

static int bits_per_frame(uint32_t flags, double *ret_bits)
{
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .max_sections = SECTIONS, .flags = flags };
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_zone *zone = NULL;
	int rc = pagehint_zone_new(&opts, &zone);

	if (rc)
		return rc;
	rc = pagehint_zone_add(zone, 0, (uint64_t)SECTIONS * PAGEHINT_SECTION_FRAMES);
	rc = rc ? rc : pagehint_zone_stats(zone, &stats);
	pagehint_zone_destroy(zone);
	if (!rc)
		*ret_bits = (double)stats.present_bytes * 8 / (double)stats.total;
	return rc;
}

int density_measure(struct results *results, struct why *why)
{
	double untracked = 0;
	double tracked = 0;
	int rc = bits_per_frame(PAGEHINT_ZONE_UNTRACKED, &untracked);

	rc = rc ? rc : bits_per_frame(0, &tracked);
	if (rc) {
		snprintf(why->text, sizeof(why->text), "a zone of %u sections: %s", SECTIONS, strerror(-rc));
		return rc;
	}
	results_ratio(results, untracked, "bits", "zone.metadata_bits_per_frame.untracked");
	results_ratio(results, tracked, "bits", "zone.metadata_bits_per_frame.tracked");
	return 0;
}
