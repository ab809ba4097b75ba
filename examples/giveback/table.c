#include <inttypes.h>

#include "report.h"

static const char *const whys[PAGEHINT_WHY_COUNT] = {
	"",
	"inhibited",
	"pinned",
	"alignment",
	"page cache",
	"mapping budget",
	"cannot",
	"no region",
	"syscall",
	"backend",
	"refused",
	"lazily freed",
	"only zeroed",
	"not tried",
	"userfaultfd",
	"forked",
	"peer gone",
	"re-entry",
};

static const char legend[] =
	"host = what left the host, asked outside the library; wrong = pages that then read neither zero nor new;\n"
	"GiB/s of the library: whole steps, the reporter's own work included; inside: in its backend alone, which "
	"probes\n"
	"residency around its calls. The plain column is the bare calls: do not compare it with these two;\n"
	"demo.reporter_vs_raw is the comparison, on the same runs side by side.\n\n";

static uint64_t mib(uint64_t bytes)
{
	return (bytes + (1u << 19)) >> 20;
}

static void print_kept(const struct pagehint_backend_stats *stats, FILE *to)
{
	uint32_t most = 0;

	for (uint32_t why = 1; why < PAGEHINT_WHY_COUNT; why++) {
		if (stats->kept_by[why] > stats->kept_by[most])
			most = why;
	}
	fprintf(to, " %5" PRIu64 " %-15s", mib(stats->kept), whys[most]);
}

static double speed(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (1u << 30) / ((double)ns / 1e9) : 0;
}

static void print_run(const struct run *run, FILE *to)
{
	const struct replay_result *replay = &run->replay;
	const struct pagehint_backend_stats *stats = &replay->backend;
	const struct pagehint_madvise_stats *calls = &replay->calls;
	uint64_t freed = stats->freed + stats->accepted;
	int64_t host = replay->host_freed_bytes;

	fprintf(to, "%-8s %6" PRIu64 " %6" PRIu64 " %6" PRIu64, backing_name(run->kind), mib(stats->asked), mib(freed),
		mib(stats->absent));
	print_kept(stats, to);
	fprintf(to, " %6" PRIu64 " %7" PRIu64, mib(host > 0 ? (uint64_t)host : 0),
		calls->madvise + calls->process_madvise + calls->punch + calls->remap);
	fprintf(to, " %6.2f %6.2f |", speed(freed, replay->step_ns), speed(freed, replay->inside_ns));
	fprintf(to, " %6" PRIu64 " %7" PRIu64 " %6.2f %7" PRIu64 "\n", mib(run->naive.host_freed_bytes),
		run->naive.calls, speed(run->naive.host_freed_bytes, run->naive.ns), run->naive.wrong_pages);
}

void report_table(const struct run *runs, uint32_t n, FILE *to)
{
	fprintf(to, "\n%-8s %-70s | %s\n", "", "libpagehint (MiB, while the trace ran and under pressure)",
		"plain MADV_DONTNEED, same runs");
	fprintf(to, "%-8s %6s %6s %6s %5s %-15s %6s %7s %6s %6s |", "memory", "asked", "freed", "absent", "kept",
		"(why)", "host", "calls", "GiB/s", "inside");
	fprintf(to, " %6s %7s %6s %7s\n", "host", "calls", "GiB/s", "wrong");
	for (uint32_t i = 0; i < n; i++) {
		if (runs[i].is_done)
			print_run(&runs[i], to);
	}
	fputs(legend, to);
}
