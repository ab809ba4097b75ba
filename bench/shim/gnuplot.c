#include "gnuplot.h"

#include <stdlib.h>
#include <sys/wait.h>

FILE *gnuplot_open(const char *path, unsigned width, unsigned height)
{
	if (system("command -v gnuplot >/dev/null 2>&1") != 0)
		return NULL;
	FILE *to = popen("gnuplot", "w");
	if (to != NULL)
		fprintf(to,
			"set terminal svg size %u,%u font 'sans,13' background '#ffffff'\nset output '%s'\n"
			"set grid lc '#dddddd'\n",
			width, height, path);
	return to;
}

void gnuplot_csv(FILE *to, const char *name, const char *csv)
{
	FILE *from = fopen(csv, "r");
	char line[256];
	fprintf(to, "$%s << END\n", name);
	while (from != NULL && fgets(line, sizeof(line), from) != NULL)
		if (line[0] != '#')
			fputs(line, to);
	if (from != NULL)
		fclose(from);
	fprintf(to, "END\n");
}

int gnuplot_close(FILE *to)
{
	int status = pclose(to);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}
