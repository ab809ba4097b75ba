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

static void write_frame(FILE *to, const char *path, const struct run *run)
{
	double ended = (double)run->replay.ended.now_ns / 1e9;

	fprintf(to, "set terminal svg size 1000,560 font 'sans,14' background '#ffffff'\nset output '");
	for (; *path; path++)
		fputs(*path == '\'' ? "''" : (char[]) { *path, 0 }, to);
	fprintf(to, "'\nset title 'What the host holds while a trace of page allocations is replayed over %s memory'\n",
		backing_name(run->kind));
	fprintf(to,
		"set xlabel 'trace time [s]'\nset ylabel 'memory [MiB]'\nset yrange [0:*]\nset autoscale xfix\n"
		"set offsets 0, %.3f, 0, 0\nset grid lc '#dddddd'\nset key top left\n"
		"set style fill solid 0.25 noborder\n",
		ended / 20);
	fprintf(to,
		"set arrow from %.3f, graph 0 to %.3f, graph 1 nohead dt 3 lc '#555555'\n"
		"set label 'the host wants memory' at %.3f, graph 0.5 center rotate by 90 offset 1.2, 0\n",
		ended, ended, ended);
}

static void write_script(FILE *to, const char *path, const struct run *run)
{
	const struct replay_result *replay = &run->replay;

	write_frame(to, path, run);
	fprintf(to, "$data << END\n");
	for (size_t i = 0; i < replay->n_samples; i++)
		write_sample(&replay->samples[i], to);
	write_sample(&replay->ended, to);
	write_sample(&replay->pressed, to);
	fprintf(to, "END\nplot $data using 1:2 with filledcurves y1=0 lc '#4477aa' title 'live', \\\n"
		    "  $data using 1:3 with lines lw 2 lc '#cc3311' title 'host, nothing returned', \\\n"
		    "  $data using 1:4 with lines lw 2 lc '#228833' title 'host, with libpagehint', \\\n"
		    "  $data using 1:5 with lines lw 1 dt 2 lc '#000000' title 'host, perfect knowledge'\n");
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
