#include "plot.h"

#include <stdio.h>

#include "../shim/gnuplot.h"

static void write_published(FILE *to, const char *published)
{
	gnuplot_csv(to, "published", published);
	fprintf(to, "set datafile separator ','\nset title 'Published in 2023: one userfaultfd, three machines'\n"
		    "plot $published using 1:2 with linespoints lw 2 title 'machine A', \\\n"
		    " $published using 1:3 with linespoints lw 2 title 'machine B', \\\n"
		    " $published using 1:4 with linespoints lw 2 title 'machine C'\n"
		    "set datafile separator whitespace\n");
}

static void write_ours(FILE *to, const struct plot_line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fprintf(to, "$l%zu << END\n", i);
		for (unsigned c = 0; c < 5; c++)
			if (lines[i].kpages[c] > 0)
				fprintf(to, "%u %.6g\n", 1u << c, lines[i].kpages[c]);
		fprintf(to, "END\n");
	}
	fprintf(to, "set title 'libpagehint, this machine'\nplot ");
	for (size_t i = 0; i < n; i++)
		fprintf(to, "%s$l%zu using 1:2 with linespoints lw 2 title '%s'", i == 0 ? "" : ", \\\n ", i,
			lines[i].title);
	fprintf(to, "\n");
}

int plot_totals(const char *path, const char *published, const struct plot_line *lines, size_t n)
{
	FILE *gnuplot = gnuplot_open(path, 1240, 600);
	if (gnuplot == NULL)
		return -1;
	fprintf(gnuplot, "set multiplot layout 1,2\nset logscale xy\nset xrange [0.9:18]\n"
			 "set xlabel 'threads'\nset ylabel 'total, K pages/s'\nset key bottom right\n");
	write_published(gnuplot, published);
	write_ours(gnuplot, lines, n);
	return gnuplot_close(gnuplot);
}
