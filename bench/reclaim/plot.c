#include "plot.h"

#include <stdio.h>
#include <string.h>

#include "../shim/gnuplot.h"

static const char *const ways[][2] = {
	{ "inflate4k", "balloon 4K" },          { "report.apart", "reports of 2M, apart" },
	{ "report.adjacent", "reports of 2M" }, { "shrink.pieces", "shared zone, apart" },
	{ "shrink.whole", "shared zone" },
};

double result_of(const struct bench_result *results, size_t n, const char *name, int ratio)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(results[i].name, name) == 0)
			return ratio ? results[i].median_ratio : results[i].median;
	return 0;
}

static void write_ours(FILE *to, const struct bench_result *results, size_t n)
{
	double inflate = result_of(results, n, "inflate4k", 0);
	fprintf(to, "$ours << END\n");
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		double own = result_of(results, n, ways[i][0], 0);
		if (own > 0)
			fprintf(to, "%s|%.6g\n", ways[i][1], inflate / own);
	}
	fprintf(to, "END\n");
}

void plot_times(const char *path, const char *published, const struct bench_result *results, size_t n)
{
	FILE *gnuplot = gnuplot_open(path, 1240, 600);
	int drawn = -1;
	if (gnuplot != NULL) {
		gnuplot_csv(gnuplot, "published", published);
		write_ours(gnuplot, results, n);
		fprintf(gnuplot, "set datafile separator '|'\nset multiplot layout 1,2\nset logscale y\n"
				 "set yrange [0.5:5000]\nset style fill solid 0.7\nset boxwidth 0.6\n"
				 "set xtics rotate by -25\nset key off\n"
				 "set ylabel 'times as fast as inflation in 4 KiB pages'\n"
				 "set title 'Published: wall time, with what the host frees'\n"
				 "plot $published using 0:2:xtic(1) with boxes lc '#4878a8', \\\n"
				 " $published using 0:2:(sprintf('%%.3g', $2)) with labels offset 0,0.8\n"
				 "set title 'libpagehint: CPU time of the host, without the discards'\n"
				 "plot $ours using 0:2:xtic(1) with boxes lc '#48a868', \\\n"
				 " $ours using 0:2:(sprintf('%%.3g', $2)) with labels offset 0,0.8\n");
		drawn = gnuplot_close(gnuplot);
	}
	printf(drawn == 0 ? "plot: %s\n" : "plot: none of %s (no gnuplot, or no such directory)\n", path);
}
