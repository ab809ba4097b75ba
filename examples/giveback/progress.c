#include "progress.h"

#include <stdio.h>
#include <unistd.h>

void progress(const char *what, uint64_t done, uint64_t all)
{
	static const char bar[] = "########################################";
	int width = (int)(sizeof(bar) - 1);

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%-8s [%-*.*s] %3u%%", what, width, all ? (int)(done * (unsigned)width / all) : 0, bar,
		all ? (unsigned)(done * 100 / all) : 0);
	fflush(stderr);
}

void progress_begin(const char *what)
{
	if (!isatty(STDERR_FILENO))
		fprintf(stderr, "%s: begins\n", what);
}

void progress_end(const char *what, const char *how)
{
	if (!isatty(STDERR_FILENO))
		fprintf(stderr, "%s: %s\n", what, how);
}

void progress_done(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
}
