#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/balloon.h>
#include <pagehint/pagehint.h>

static const struct {
	const char *name;
	uint64_t bit;
} feature_names[] = {
	{ "must-tell-host", PAGEHINT_BALLOON_F_MUST_TELL_HOST },
	{ "stats", PAGEHINT_BALLOON_F_STATS_VQ },
	{ "deflate-on-oom", PAGEHINT_BALLOON_F_DEFLATE_ON_OOM },
	{ "hint", PAGEHINT_BALLOON_F_FREE_PAGE_HINT },
	{ "poison", PAGEHINT_BALLOON_F_PAGE_POISON },
	{ "reporting", PAGEHINT_BALLOON_F_PAGE_REPORTING },
};

static const char *const numbering_names[PAGEHINT_BALLOON_NUMBERING_COUNT] = { "spec", "negotiated", "qemu",
									       "offered" };

static const char usage[] =
	"usage: pagehint-balloon --socket PATH [OPTION..]\n"
	"\n"
	"  --socket PATH      where the frontend connects (vhost-user)\n"
	"  --control PATH     a socket that takes commands, one JSON object a line\n"
	"  --metrics WHERE    Prometheus metrics, on a port of 127.0.0.1 or a socket's path\n"
	"  --features LIST    of must-tell-host,stats,deflate-on-oom,hint,poison,reporting (default: all but poison)\n"
	"  --target BYTES     size that the balloon is to have (K, M, G or T may follow)\n"
	"  --order N          discard reports of at least 2^N pages of 4 KiB (default 0)\n"
	"  --rate BYTES       discard at most so much a second (default: any)\n"
	"  --hold-back MS     let so much time pass between two reports that are acted upon (default 0)\n"
	"  --numbering NAME   of the queues: spec, negotiated (default), qemu or offered\n"
	"  --stats-interval S ask the guest for statistics every S seconds (default: on command)\n"
	"  --user NAME        become this user when started as root (default nobody)\n"
	"  --no-seccomp       run without the filter of system calls\n"
	"  --help, --version\n";

int balloon_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	char *end = NULL;
	uint64_t shift = 0;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (errno != 0)
		return -EINVAL;
	if (*end != 0) {
		const char *units = "KMGT", *unit = strchr(units, *end);
		if (unit == NULL || end[1] != 0)
			return -EINVAL;
		shift = 10 * (uint64_t)(unit - units + 1);
	}
	if (n > UINT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = (uint64_t)n << shift;
	return 0;
}

static int parse_number(const char *text, uint32_t most, uint32_t *ret_n)
{
	uint64_t n;
	if (text[strspn(text, "0123456789")] != 0 || balloon_parse_bytes(text, &n) != 0 || n > most)
		return -EINVAL;
	*ret_n = (uint32_t)n;
	return 0;
}

static int parse_features(const char *text, uint64_t *ret_features)
{
	uint64_t features = 0;
	while (*text != 0) {
		size_t n = strcspn(text, ","), i = 0, count = sizeof(feature_names) / sizeof(feature_names[0]);
		while (i < count && (strncmp(feature_names[i].name, text, n) != 0 || feature_names[i].name[n] != 0))
			i++;
		if (i == count)
			return -EINVAL;
		features |= feature_names[i].bit;
		text += n + (text[n] == ',');
	}
	*ret_features = features;
	return 0;
}

static int parse_numbering(const char *text, uint32_t *ret_numbering)
{
	for (uint32_t i = 0; i < PAGEHINT_BALLOON_NUMBERING_COUNT; i++)
		if (strcmp(text, numbering_names[i]) == 0) {
			*ret_numbering = i;
			return 0;
		}
	return -EINVAL;
}

static int parse_interval(const char *text, uint32_t *ret_ms)
{
	uint32_t seconds;
	if (parse_number(text, BALLOON_STATS_S_MAX, &seconds) != 0)
		return -EINVAL;
	*ret_ms = seconds * 1000;
	return 0;
}

enum {
	SOCKET = 1,
	CONTROL,
	METRICS,
	FEATURES,
	TARGET,
	ORDER,
	RATE,
	HOLD_BACK,
	NUMBERING,
	STATS,
	USER,
	NO_SECCOMP,
	HELP,
	VERSION
};

static const struct option names[] = {
	{ "socket", required_argument, NULL, SOCKET },
	{ "control", required_argument, NULL, CONTROL },
	{ "metrics", required_argument, NULL, METRICS },
	{ "features", required_argument, NULL, FEATURES },
	{ "target", required_argument, NULL, TARGET },
	{ "order", required_argument, NULL, ORDER },
	{ "rate", required_argument, NULL, RATE },
	{ "hold-back", required_argument, NULL, HOLD_BACK },
	{ "numbering", required_argument, NULL, NUMBERING },
	{ "stats-interval", required_argument, NULL, STATS },
	{ "user", required_argument, NULL, USER },
	{ "no-seccomp", no_argument, NULL, NO_SECCOMP },
	{ "help", no_argument, NULL, HELP },
	{ "version", no_argument, NULL, VERSION },
	{ NULL, 0, NULL, 0 },
};

/* 0 or -EINVAL */
static int take(int name, const char *text, struct balloon_options *o)
{
	switch (name) {
	case SOCKET:
		o->socket = text;
		return *text != 0 ? 0 : -EINVAL;
	case CONTROL:
		o->control = text;
		return *text != 0 ? 0 : -EINVAL;
	case METRICS:
		o->metrics = text;
		return *text != 0 ? 0 : -EINVAL;
	case USER:
		o->user = text;
		return *text != 0 ? 0 : -EINVAL;
	case FEATURES:
		return parse_features(text, &o->features);
	case TARGET:
		return balloon_parse_bytes(text, &o->target_bytes);
	case ORDER:
		return parse_number(text, BALLOON_ORDER_MAX, &o->least_order);
	case RATE:
		return balloon_parse_bytes(text, &o->rate_bytes);
	case HOLD_BACK:
		return parse_number(text, BALLOON_HOLD_BACK_MS_MAX, &o->hold_back_ms);
	case NUMBERING:
		return parse_numbering(text, &o->numbering);
	case STATS:
		return parse_interval(text, &o->stats_ms);
	default: /* NO_SECCOMP */
		o->seccomp = 0;
		return 0;
	}
}

int balloon_options_parse(int argc, char **argv, struct balloon_options *ret_options, FILE *out, FILE *err)
{
	struct balloon_options o = {
		.user = "nobody",
		/* a User-Mode Linux whose driver turns poison down says nothing when its rings go */
		.features = PAGEHINT_BALLOON_F_ALL & ~PAGEHINT_BALLOON_F_PAGE_POISON,
		.numbering = PAGEHINT_BALLOON_NUMBERING_NEGOTIATED,
		.seccomp = 1,
	};
	int name, index = 0;
	optind = 0; /* from the start, also a second time */
	opterr = 0;
	while ((name = getopt_long(argc, argv, ":", names, &index)) != -1) {
		if (name == HELP) {
			fputs(usage, out);
			return BALLOON_HELP;
		}
		if (name == VERSION) {
			fprintf(out, "pagehint-balloon %s\n", pagehint_version());
			return BALLOON_HELP;
		}
		if (name == '?' || name == ':') {
			fprintf(err, "pagehint-balloon: %s: %s\n", argv[optind - 1],
				name == ':' ? "wants a value" : "no such option");
			return -EINVAL;
		}
		if (take(name, optarg, &o) != 0) {
			fprintf(err, "pagehint-balloon: --%s: cannot be \"%s\"\n", names[index].name, optarg);
			return -EINVAL;
		}
	}
	if (optind != argc) {
		fprintf(err, "pagehint-balloon: what is \"%s\"?\n", argv[optind]);
		return -EINVAL;
	}
	if (o.socket == NULL) {
		fputs("pagehint-balloon: --socket is missing\n", err);
		return -EINVAL;
	}
	*ret_options = o;
	return BALLOON_PARSED;
}
