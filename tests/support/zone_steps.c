#include "support/zone_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/zone.h>

static const char *const verbs[VERBS] = {
	"",           "take", "take-zero",  "batch",    "runs",       "contig",     "reserve",
	"cache-take", "give", "cache-give", "give-old", "give-twice", "give-front", "give-rest",
	"drain",      "park", "unpark",     "add",      "remove",     "harvest",    "scrub",
	"reported",   "kept", "reclaim",    "hold",     "restore",    "install",
};

static uint64_t number(char *text)
{
	char *offset = NULL;
	uint64_t n = text == NULL ? 0 : strtoull(text, &offset, 10);
	return offset != NULL && *offset == ':' ? n * PAGEHINT_SECTION_FRAMES + strtoull(offset + 1, NULL, 10) : n;
}

void play_read_steps(const char *text, struct play_step *steps)
{
	char copy[256], *rest = NULL, *inner = NULL;
	memset(steps, 0, PLAY_STEPS * sizeof(*steps));
	if (text == NULL)
		return;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *s = strtok_r(copy, ";", &rest); s != NULL; s = strtok_r(NULL, ";", &rest), steps++) {
		char *verb = strtok_r(s, " ", &inner);
		while (steps->what < VERBS && strcmp(verbs[steps->what], verb) != 0)
			steps->what++;
		if (steps->what == VERBS)
			abort();
		steps->n = number(strtok_r(NULL, " ", &inner));
		steps->m = number(strtok_r(NULL, " ", &inner));
	}
}
