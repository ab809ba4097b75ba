#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "report.h"

#define MIB 1048576.0

static void write_sample(const struct replay_sample *sample, FILE *to)
{
	fprintf(to, "%.3f %.2f %.2f %.2f %.2f\n", (double)sample->now_ns / 1e9, (double)sample->live / MIB,
		(double)sample->never / MIB, (double)sample->host / MIB, (double)sample->oracle / MIB);
}

static void write_script(FILE *to, const char *path, const struct run *run)
{
	const struct replay_result *replay = &run->replay;

	fprintf(to, "set terminal svg size 1000,560 font 'sans,14' background '#ffffff'\nset output '");
	for (; *path; path++)
		fprintf(to, *path == '\'' ? "''" : "%c", *path);
	fprintf(to, "'\nset title 'A kernel build replayed over %s memory: what the host holds'\n",
		backing_name(run->kind));
	fprintf(to, "set xlabel 'trace time [s]'\nset ylabel 'memory [MiB]'\nset yrange [0:*]\nset grid lc '#dddddd'\n"
		    "set key top left\nset style fill solid 0.25 noborder\n");
	fprintf(to, "$data << END\n");
	for (size_t i = 0; i < replay->n_samples; i++)
		write_sample(&replay->samples[i], to);
	write_sample(&replay->ended, to);
	write_sample(&replay->pressed, to);
	fprintf(to, "END\nplot $data using 1:2 with filledcurves y1=0 lc '#4477aa' title 'live', \\\n"
		    "  $data using 1:3 with lines lw 2 lc '#cc3311' title 'host, nothing returned', \\\n"
		    "  $data using 1:5 with lines lw 1 dt 2 lc '#555555' title 'host, perfect knowledge', \\\n"
		    "  $data using 1:4 with lines lw 2 lc '#228833' title 'host, with libpagehint'\n");
	if (replay->n_samples == 0)
		fprintf(to, "# nothing was sampled\n");
}

int report_picture(const char *path, const struct run *run)
{
	FILE *gnuplot;
	int status;

	if (system("command -v gnuplot >/dev/null 2>&1") != 0)
		return -ENOENT;
	gnuplot = popen("gnuplot", "we");
	if (!gnuplot)
		return -errno;
	write_script(gnuplot, path, run);
	status = pclose(gnuplot);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}
