/*
 * explain: where a zone's frames are, and what keeps free ones from being reported.
 */
#include <stdio.h>

#include "alloc/harvest.h"

static void say(const struct pagehint_sink *sink, const char *what, uint64_t frames, uint64_t total)
{
	char text[160];
	snprintf(text, sizeof(text), "%s: %llu of %llu frames", what, (unsigned long long)frames,
		 (unsigned long long)total);
	sink->line(sink->ctx, text);
}

void pagehint_zone_explain(const struct pagehint_zone *zone, const struct pagehint_sink *sink)
{
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	struct pagehint_origin_free f = { .struct_size = sizeof(f) };
	if (sink == NULL || sink->line == NULL || pagehint_zone_stats(zone, &s) < 0)
		return;
	ph_harvest_free(zone, zone->granule_order, &f);
	say(sink, "zone: free", s.free, s.total);
	say(sink, "zone: out", s.out, s.total);
	if (s.cached != 0)
		say(sink, "zone: hidden in caches, whose granules cannot be reported", s.cached, s.total);
	if (s.isolated + s.in_flight != 0)
		say(sink, "zone: at the reporter", s.isolated + s.in_flight, s.total);
	if (f.below != 0)
		say(sink, "zone: free, but in pieces smaller than a granule", f.below, s.free);
	say(sink, "zone: free and reported or fresh", f.reported, s.free);
	uint64_t whole = s.free - (f.below < s.free ? f.below : s.free);
	if (whole > f.reported)
		say(sink, "zone: free, whole, and waiting to be reported", whole - f.reported, s.free);
}
