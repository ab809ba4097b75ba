#include "shim.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

namespace
{

constexpr unsigned LEAST_ROUNDS = 7;
constexpr unsigned QUICK_ROUNDS = 3;

struct Series {
	const bench_case *what;
	std::vector<double> ns; /* per operation, one entry a round */
	bool failed = false;
	std::string why;

	double min() const
	{
		return *std::min_element(ns.begin(), ns.end());
	}
	double max() const
	{
		return *std::max_element(ns.begin(), ns.end());
	}
};

struct Figure {
	std::string key;
	double value;
	std::string unit;
};

struct Options {
	unsigned rounds = 9;
	unsigned seed = 1;
	std::string json;
	std::string only;
	bool quick = false;
};

std::string bench_name;
std::vector<Figure> figures;

double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	size_t half = v.size() / 2;
	return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

/* google-benchmark's reporter: takes the one run of a case in a round, prints nothing. */
class Taker : public benchmark::BenchmarkReporter
{
      public:
	explicit Taker(Series &series) : series(series)
	{
	}
	bool ReportContext(const Context &) override
	{
		return true;
	}
	void ReportRuns(const std::vector<Run> &runs) override
	{
		for (const Run &run : runs) {
			if (run.error_occurred) {
				series.failed = true;
				series.why = run.error_message;
				continue;
			}
			double seconds = run.real_accumulated_time / static_cast<double>(run.iterations);
			series.ns.push_back(seconds * 1e9 / static_cast<double>(series.what->n));
		}
	}

      private:
	Series &series;
};

void round_of(benchmark::State &state, const bench_case *c)
{
	using clock = std::chrono::steady_clock;
	void *ctx = c->open ? c->open(c->arg) : c->setup();
	if (ctx == nullptr) {
		state.SkipWithError("setup failed");
		return;
	}
	for (auto _ : state) {
		if (c->prepare)
			c->prepare(ctx, c->n);
		if (c->timed) {
			state.SetIterationTime(c->timed(ctx, c->n) * 1e-9);
			continue;
		}
		auto start = clock::now();
		c->batch(ctx, c->n);
		state.SetIterationTime(std::chrono::duration<double>(clock::now() - start).count());
	}
	if (c->check(ctx) != 0)
		state.SkipWithError("check failed: the work was not done");
	c->teardown(ctx);
}

int index_of(const bench_case *cases, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(cases[i].name, name) == 0)
			return static_cast<int>(i);
	return -1;
}

bool table_is_right(const bench_case *cases, size_t n)
{
	bool compared = false;
	for (size_t i = 0; i < n; i++) {
		const bench_case &c = cases[i];
		if (!(c.setup || c.open) || !(c.batch || c.timed) || !c.check || !c.teardown || c.n == 0) {
			fprintf(stderr, "%s: setup, batch, check, teardown and n are required\n", c.name);
			return false;
		}
		if (!c.baseline)
			continue;
		int base = index_of(cases, n, c.baseline);
		if (base < 0 || cases[base].baseline) {
			fprintf(stderr, "%s: baseline %s is not a baseline of this table\n", c.name, c.baseline);
			return false;
		}
		compared = true;
	}
	if (!compared)
		fprintf(stderr, "no case has a baseline: there is nothing to compare\n");
	return compared;
}

/* Those that begin with `only`, and the baselines of those. */
std::vector<bench_case> chosen(const bench_case *cases, size_t n, const std::string &only)
{
	std::vector<bool> wanted(n);
	for (size_t i = 0; i < n; i++) {
		if (strncmp(cases[i].name, only.c_str(), only.size()) != 0)
			continue;
		wanted[i] = true;
		if (cases[i].baseline)
			wanted[static_cast<size_t>(index_of(cases, n, cases[i].baseline))] = true;
	}
	std::vector<bench_case> out;
	for (size_t i = 0; i < n; i++)
		if (wanted[i])
			out.push_back(cases[i]);
	return out;
}

bool parse_number(const char *text, unsigned least, unsigned &out)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);
	if (*text == 0 || *end != 0 || v < least || v > 1000000)
		return false;
	out = static_cast<unsigned>(v);
	return true;
}

bool parse(int argc, char **argv, Options &options)
{
	for (int i = 1; i < argc; i += 2) {
		if (strcmp(argv[i], "--quick") == 0) {
			options.quick = true;
			i--;
			continue;
		}
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		bool known = true;
		if (strcmp(argv[i], "--rounds") == 0)
			known = parse_number(value, LEAST_ROUNDS, options.rounds);
		else if (strcmp(argv[i], "--seed") == 0)
			known = parse_number(value, 0, options.seed);
		else if (strcmp(argv[i], "--json") == 0 && *value)
			options.json = value;
		else if (strcmp(argv[i], "--only") == 0 && *value)
			options.only = value;
		else
			known = false;
		if (!known) {
			fprintf(stderr,
				"usage: %s [--rounds N (%u or more)] [--seed N] [--json FILE] [--quick] [--only "
				"NAME]\n",
				argv[0], LEAST_ROUNDS);
			return false;
		}
	}
	if (options.quick)
		options.rounds = QUICK_ROUNDS;
	return true;
}

/* All rounds; the order inside each is drawn anew. Stops at the first failure. */
bool run_rounds(std::vector<Series> &all, const Options &options)
{
	std::mt19937 random(options.seed);
	std::vector<size_t> order(all.size());
	for (size_t i = 0; i < order.size(); i++)
		order[i] = i;
	for (unsigned round = 0; round < options.rounds; round++) {
		for (size_t i = order.size(); i > 1; i--)
			std::swap(order[i - 1], order[random() % i]);
		if (isatty(2))
			fprintf(stderr, "\r%s: round %u of %u", bench_name.c_str(), round + 1, options.rounds);
		for (size_t i : order) {
			Taker taker(all[i]);
			benchmark::RunSpecifiedBenchmarks(&taker, "^" + std::to_string(i) + "/.*");
			if (all[i].failed || all[i].ns.size() != round + 1) {
				fprintf(stderr, "%s.%s: %s\n", bench_name.c_str(), all[i].what->name,
					all[i].failed ? all[i].why.c_str() : "it gave no figure");
				return false;
			}
		}
	}
	if (isatty(2))
		fprintf(stderr, "\n");
	return true;
}

std::vector<bench_result> sum_up(const std::vector<Series> &all, const bench_case *cases)
{
	std::vector<bench_result> results;
	for (const Series &s : all) {
		bench_result r = { s.what->name, s.min(), median(s.ns), s.max(), 0, 0 };
		if (s.what->baseline) {
			const Series &base = all[static_cast<size_t>(index_of(cases, all.size(), s.what->baseline))];
			std::vector<double> ratios;
			for (size_t i = 0; i < s.ns.size(); i++)
				ratios.push_back(s.ns[i] / base.ns[i]);
			r.min_ratio = s.min() / base.min();
			r.median_ratio = median(ratios);
		}
		results.push_back(r);
	}
	return results;
}

void print_table(const std::vector<Series> &all, const std::vector<bench_result> &results, const Options &options)
{
	printf("\n%s: %u interleaved rounds, order drawn with seed %u; ns per operation; spread = (max - min) / "
	       "median\n",
	       bench_name.c_str(), options.rounds, options.seed);
	if (options.quick)
		printf("quick: too few rounds for a figure to be believed\n");
	printf("%-28s %12s %12s %8s %8s   %-24s %7s %7s\n", "case", "min", "median", "spread", "GiB/s", "baseline",
	       "min/min", "median");
	for (size_t i = 0; i < results.size(); i++) {
		const bench_result &r = results[i];
		const bench_case *c = all[i].what;
		printf("%-28s %12.2f %12.2f %7.1f%%", r.name, r.min, r.median, (r.max - r.min) / r.median * 100);
		if (c->bytes)
			printf(" %8.2f", static_cast<double>(c->bytes) / (r.median * static_cast<double>(c->n)) * 1e9 /
						 (1u << 30));
		else
			printf(" %8s", "");
		if (c->baseline)
			printf("   %-24s %7.3f %7.3f", c->baseline, r.min_ratio, r.median_ratio);
		printf("\n");
	}
	printf("\n");
}

void publish(const std::vector<Series> &all, const std::vector<bench_result> &results)
{
	for (size_t i = 0; i < results.size(); i++) {
		const bench_result &r = results[i];
		std::string key = std::string(r.name) + ".";
		bench_publish((bench_name + "." + key + "min").c_str(), r.min, "ns");
		bench_publish((bench_name + "." + key + "median").c_str(), r.median, "ns");
		bench_publish((bench_name + "." + key + "spread").c_str(), (r.max - r.min) / r.median * 100, "%");
		if (all[i].what->baseline) {
			bench_publish((bench_name + "." + key + "min_ratio").c_str(), r.min_ratio, "x");
			bench_publish((bench_name + "." + key + "median_ratio").c_str(), r.median_ratio, "x");
		}
	}
}

bool write_json(const std::vector<Series> &all, const Options &options)
{
	if (options.json.empty())
		return true;
	FILE *f = fopen(options.json.c_str(), "w");
	if (!f) {
		perror(options.json.c_str());
		return false;
	}
	fprintf(f, "{\n  \"bench\": \"%s\", \"rounds\": %u, \"seed\": %u,\n  \"cases\": [", bench_name.c_str(),
		options.rounds, options.seed);
	for (size_t i = 0; i < all.size(); i++) {
		const bench_case *c = all[i].what;
		fprintf(f,
			"%s\n    {\"name\": \"%s\", \"baseline\": \"%s\", \"n\": %" PRIu64 ", \"bytes\": %" PRIu64
			", \"ns\": [",
			i ? "," : "", c->name, c->baseline ? c->baseline : "", c->n, c->bytes);
		for (size_t k = 0; k < all[i].ns.size(); k++)
			fprintf(f, "%s%.6g", k ? ", " : "", all[i].ns[k]);
		fprintf(f, "]}");
	}
	fprintf(f, "\n  ],\n  \"results\": {");
	for (size_t i = 0; i < figures.size(); i++)
		fprintf(f, "%s\n    \"%s\": {\"value\": %.6g, \"unit\": \"%s\"}", i ? "," : "", figures[i].key.c_str(),
			figures[i].value, figures[i].unit.c_str());
	fprintf(f, "\n  }\n}\n");
	bool good = ferror(f) == 0;
	return fclose(f) == 0 && good;
}

} // namespace

void bench_publish(const char *key, double value, const char *unit)
{
	std::string full = strchr(key, '.') ? key : bench_name + "." + key;
	printf("RESULT %s %.6g %s\n", full.c_str(), value, unit);
	figures.push_back({ full, value, unit });
}

int bench_main(int argc, char **argv, const char *bench, const struct bench_case *cases, size_t n,
	       bench_summary summary)
{
	Options options;
	bench_name = bench;
	if (!parse(argc, argv, options) || !table_is_right(cases, n))
		return 2;
	std::vector<bench_case> kept = chosen(cases, n, options.only);
	if (kept.empty()) {
		fprintf(stderr, "%s: no case begins with %s\n", bench, options.only.c_str());
		return 2;
	}
	cases = kept.data();
	n = kept.size();
	std::vector<Series> all;
	for (size_t i = 0; i < n; i++) {
		all.push_back({ &cases[i], {}, false, "" });
		const bench_case *c = &cases[i];
		std::string name = std::to_string(i) + "/" + c->name;
		benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State &state) { round_of(state, c); })
			->Iterations(c->batches ? c->batches : 1)
			->UseManualTime();
	}
	if (!run_rounds(all, options))
		return 1;
	std::vector<bench_result> results = sum_up(all, cases);
	print_table(all, results, options);
	publish(all, results);
	if (summary)
		summary(results.data(), results.size());
	return write_json(all, options) ? 0 : 1;
}
