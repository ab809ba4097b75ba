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
	static const struct {
		const char *name;
		uint32_t flags;
	} zones[] = {
		{ "untracked", PAGEHINT_ZONE_UNTRACKED },
		{ "tracked", 0 },
		{ "ladder", PAGEHINT_ZONE_LADDER },
		{ "strict", PAGEHINT_ZONE_STRICT },
	};

	for (uint32_t i = 0; i < sizeof(zones) / sizeof(zones[0]); i++) {
		double bits = 0;
		int rc = bits_per_frame(zones[i].flags, &bits);

		if (rc) {
			snprintf(why->text, sizeof(why->text), "a %s zone of %u sections: %s", zones[i].name, SECTIONS,
				 strerror(-rc));
			return rc;
		}
		results_ratio(results, bits, "bits", "zone.metadata_bits_per_frame.%s", zones[i].name);
	}
	return 0;
}
