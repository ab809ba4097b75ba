/*
 * report: everything that pagehint-balloon counts, as one list, shown as JSON and as Prometheus metrics.
 *
 * Why this shape: one walk over the counters calls back for each, so both forms have the same numbers under the same names.
 * Owns nothing.
 */
#ifndef BALLOON_REPORT_H
#define BALLOON_REPORT_H

#include "engine.h"

struct json_object;

/* Adds the groups "vhost", "device", "dropped", "guest", "progress", "hint", "backend" and "program" to an object. */
void report_json(struct engine *engine, struct json_object *to);

/* An HTTP answer with the metrics, from malloc; NULL: no memory. */
char *report_metrics(struct engine *engine);

#endif
