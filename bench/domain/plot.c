/*
 * plot: the published curve on the left, ours on the right, same axes.
 */
#include "figures.h"

#include <stdio.h>

#include "../shim/gnuplot.h"

/* one line of the right picture: median, least and most of each size */
static int write_line(FILE *to, const struct figure *f, size_t n, uint32_t order, enum way way)
{
	int any = 0;
	for (size_t i = 0; i < n; i++) {
		if (f[i].order != order || f[i].way != way)
			continue;
		if (!any)
			fprintf(to, "$o%uw%u << END\n", order, (unsigned)way);
		any = 1;
		fprintf(to, "%u %.9g %.9g %.9g\n", f[i].gib, figures_median(f[i].create, f[i].n),
			figures_min(f[i].create, f[i].n), figures_max(f[i].create, f[i].n));
	}
	if (any)
		fprintf(to, "END\n");
	return any;
}

static void write_ours(FILE *to, const struct figure *f, size_t n)
{
	static const struct {
		uint32_t order;
		enum way way;
		const char *title;
	} lines[] = {
		{ 9, WAY_BLOCK, "2 MiB, decided for each frame" }, { 9, WAY_ALLOC, "2 MiB, for each allocation" },
		{ 9, WAY_BATCH, "2 MiB, for each batch" },         { 0, WAY_ALLOC, "4 KiB, for each allocation" },
		{ 0, WAY_BATCH, "4 KiB, for each batch" },         { 0, WAY_POPULATE, "4 KiB, batch taken at once" },
	};
	size_t count = sizeof(lines) / sizeof(*lines);
	int have[sizeof(lines) / sizeof(*lines)], any = 0;
	for (size_t i = 0; i < count; i++)
		have[i] = write_line(to, f, n, lines[i].order, lines[i].way);
	for (size_t i = 0; i < count; i++) {
		if (!have[i])
			continue;
		fprintf(to, "%s $o%uw%u using 1:2:3:4 with yerrorlines lw 2 title '%s'", any ? ", \\\n " : "plot",
			lines[i].order, (unsigned)lines[i].way, lines[i].title);
		any = 1;
	}
	fputc('\n', to);
}

static void write_published(FILE *to, const char *published)
{
	gnuplot_csv(to, "published", published);
	fprintf(to, "set datafile separator ','\n"
		    "set title 'Published in 2012: creation on a host of 160 CPUs'\nset ylabel 'wall time [s]'\n"
		    "plot $published using 1:2 with linespoints lw 2 title 'large extents, old', \\\n"
		    " $published using 1:3 with linespoints lw 2 title 'large extents, new', \\\n"
		    " $published using 1:4 with linespoints lw 2 dt 2 title '4 KiB, old', \\\n"
		    " $published using 1:5 with linespoints lw 2 dt 2 title '4 KiB, new'\n"
		    "set datafile separator whitespace\n");
}

int figures_plot(const char *path, const char *published, const struct figure *f, size_t n)
{
	FILE *gnuplot = gnuplot_open(path, 1240, 600);
	if (gnuplot == NULL)
		return -1;
	fprintf(gnuplot, "set multiplot layout 1,2\nset logscale xy\nset xrange [0.8:2000]\n"
			 "set xlabel 'domain [GiB]'\nset key top left\n");
	write_published(gnuplot, published);
	fprintf(gnuplot, "set title 'libpagehint: software model of 160 CPUs, no memory behind'\n"
			 "set ylabel 'CPU time of allocation and filter [s]'\n");
	write_ours(gnuplot, f, n);
	return gnuplot_close(gnuplot);
}
