/*
 * options: the command line of the demo.
 */
#ifndef GIVEBACK_OPTIONS_H
#define GIVEBACK_OPTIONS_H

#include <stdint.h>

struct options {
	const char *trace; /* NULL: the build beside the source */
	const char *json;
	const char *picture;
	uint32_t backings; /* bit BACKING_* */
	int is_quick;
	int reserves_hugetlb;
};

/* 0: go on; 1: the help was wanted and printed; -EINVAL: said on stderr what is wrong. */
int options_parse(int argc, char **argv, struct options *options);

#endif
