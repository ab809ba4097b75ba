/*
 * trace-text: reads the two text forms of a trace, line by line, and refuses what it does not understand.
 *
 * Nothing is guessed: a line that is cut off, misses a field or holds anything else stops the reading with its number. A
 * last line without its newline counts as cut off, since what is missing cannot be known.
 */
#include <errno.h>
#include <string.h>

#include "trace-live.h"
#include "trace.h"

#define PFN_MAX (UINT64_C(1) << 52)

struct reader {
	const char *name;
	const char *at;  /* within the line */
	const char *end; /* of the line, its newline not included */
	size_t line;
	struct trace *trace;
	struct trace_error *error;
	struct trace_live live;
	uint64_t first_us;
	uint64_t last_us;
	int has_time;
};

#define REFUSE(reader, ...) refuse_at((reader), trace_refuse((reader)->error, __VA_ARGS__))

/* Puts the place in front of a message. */
static int refuse_at(struct reader *reader, int rc)
{
	struct trace_error message = *reader->error;

	trace_refuse(reader->error, "%s:%zu: %.300s", reader->name, reader->line, message.text);
	return rc;
}

static void skip_blanks(struct reader *reader)
{
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t'))
		reader->at++;
}

static int digit(char c, unsigned base)
{
	int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

	return value < (int)base ? value : -1;
}

/* A number that ends where the digits end. */
static int read_number(struct reader *reader, unsigned base, const char *what, uint64_t max, uint64_t *ret_value)
{
	const char *start = reader->at;
	uint64_t value = 0;

	while (reader->at < reader->end && digit(*reader->at, base) >= 0) {
		uint64_t d = (uint64_t)digit(*reader->at++, base);

		if (value > (UINT64_MAX - d) / base)
			return REFUSE(reader, "%s is too large", what);
		value = value * base + d;
	}
	if (reader->at == start)
		return reader->at == reader->end ? REFUSE(reader, "the line ends where %s should stand", what)
						 : REFUSE(reader, "%s is not a number", what);
	if (value > max)
		return REFUSE(reader, "%s is %llu, more than %llu", what, (unsigned long long)value,
			      (unsigned long long)max);
	*ret_value = value;
	return 0;
}

static int expect(struct reader *reader, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(reader->end - reader->at) < length)
		return REFUSE(reader, "the line ends where '%s' should stand", word);
	if (memcmp(reader->at, word, length) != 0)
		return REFUSE(reader, "expected '%s'", word);
	reader->at += length;
	return 0;
}

/* A word without blanks; *ret_length is at least 1. */
static int read_word(struct reader *reader, const char *what, size_t *ret_length)
{
	const char *start = reader->at;

	while (reader->at < reader->end && *reader->at != ' ' && *reader->at != '\t')
		reader->at++;
	if (reader->at == start)
		return REFUSE(reader, "the line ends where %s should stand", what);
	*ret_length = (size_t)(reader->at - start);
	return 0;
}

static int line_done(struct reader *reader)
{
	skip_blanks(reader);
	return reader->at == reader->end ? 0 : REFUSE(reader, "unexpected text after the last field");
}

/* Times count from the first event and never fall. */
static int take_time(struct reader *reader, uint64_t us, uint64_t *ret_us)
{
	if (!reader->has_time)
		reader->first_us = us;
	else if (us < reader->last_us)
		return REFUSE(reader, "time goes backwards");
	reader->has_time = 1;
	reader->last_us = us;
	*ret_us = us - reader->first_us;
	return 0;
}

static int take_event(struct reader *reader, int is_alloc, uint64_t us, uint64_t pfn, uint32_t order,
		      uint32_t migratetype)
{
	uint64_t since = 0;
	int rc = take_time(reader, us, &since);

	if (rc)
		return rc;
	if (reader->trace->allocs >= TRACE_NO_ID - 1)
		return REFUSE(reader, "more allocations than this program can number");
	if (is_alloc)
		rc = trace_live_alloc(&reader->live, reader->trace, since, pfn, order, migratetype);
	else
		rc = trace_live_free(&reader->live, reader->trace, since, pfn, order);
	if (rc)
		refuse_at(reader, trace_refuse(reader->error, "out of memory"));
	return rc;
}

/* "4442.690862": six digits, or nine with perf's --ns */
static int read_perf_time(struct reader *reader, uint64_t *ret_us)
{
	uint64_t seconds = 0;
	uint64_t fraction = 0;
	const char *start;
	int rc = read_number(reader, 10, "the time", UINT64_C(1) << 40, &seconds);

	if (!rc)
		rc = expect(reader, ".");
	start = reader->at;
	if (!rc)
		rc = read_number(reader, 10, "the fraction of the time", 999999999, &fraction);
	if (rc)
		return rc;
	if (reader->at - start == 9)
		fraction /= 1000;
	else if (reader->at - start != 6)
		return REFUSE(reader, "the time has neither 6 nor 9 digits after its point");
	*ret_us = seconds * 1000000 + fraction;
	return expect(reader, ":");
}

/* page=... pfn=0x... order=N */
static int read_perf_page(struct reader *reader, uint64_t *ret_pfn, uint32_t *ret_order)
{
	uint64_t order = 0;
	size_t length;
	unsigned base = 10;
	int rc = expect(reader, "page=");

	if (!rc)
		rc = read_word(reader, "the page", &length);
	skip_blanks(reader);
	if (!rc)
		rc = expect(reader, "pfn=");
	if (rc)
		return rc;
	if (reader->end - reader->at >= 2 && reader->at[0] == '0' && reader->at[1] == 'x') {
		reader->at += 2;
		base = 16;
	}
	rc = read_number(reader, base, "pfn", UINT64_MAX, ret_pfn);
	skip_blanks(reader);
	if (!rc)
		rc = expect(reader, "order=");
	if (!rc)
		rc = read_number(reader, 10, "order", TRACE_ORDER_MAX, &order);
	*ret_order = (uint32_t)order;
	return rc;
}

static int read_perf_fields(struct reader *reader, int is_alloc, uint64_t us)
{
	uint64_t pfn = 0;
	uint64_t migratetype = 0;
	uint32_t order = 0;
	size_t length;
	int rc = read_perf_page(reader, &pfn, &order);

	if (!rc && is_alloc) {
		skip_blanks(reader);
		rc = expect(reader, "migratetype=");
		if (!rc)
			rc = read_number(reader, 10, "migratetype", TRACE_MIGRATETYPE_MAX, &migratetype);
		skip_blanks(reader);
		if (!rc)
			rc = expect(reader, "gfp_flags=");
		if (!rc)
			rc = read_word(reader, "gfp_flags", &length);
	}
	if (!rc)
		rc = line_done(reader);
	if (rc)
		return rc;
	if (is_alloc && (pfn == UINT64_MAX || pfn == UINT32_MAX)) { /* the kernel had no page: pfn is -1 */
		reader->trace->skipped++;
		return 0;
	}
	if (pfn > PFN_MAX)
		return REFUSE(reader, "pfn 0x%llx is no frame number", (unsigned long long)pfn);
	return take_event(reader, is_alloc, us, pfn, order, (uint32_t)migratetype);
}

/* Events of other names are counted and passed over: who records kmem:* need not filter. */
static int read_perf_line(struct reader *reader)
{
	static const char alloc[] = "kmem:mm_page_alloc:";
	static const char freed[] = "kmem:mm_page_free:";
	const char *event;
	size_t length = 0;
	uint64_t us = 0;
	int rc;

	skip_blanks(reader);
	if (reader->at == reader->end || *reader->at == '#')
		return 0;
	rc = read_perf_time(reader, &us);
	skip_blanks(reader);
	event = reader->at;
	if (!rc)
		rc = read_word(reader, "the event", &length);
	if (rc)
		return rc;
	skip_blanks(reader);
	if (length == sizeof(alloc) - 1 && memcmp(event, alloc, length) == 0)
		return read_perf_fields(reader, 1, us);
	if (length == sizeof(freed) - 1 && memcmp(event, freed, length) == 0)
		return read_perf_fields(reader, 0, us);
	if (length < 4 || event[length - 1] != ':' || !memchr(event, ':', length - 2))
		return REFUSE(reader, "'%.*s' is no event name (group:event:)", (int)(length < 60 ? length : 60),
			      event);
	reader->trace->skipped++;
	return 0;
}

/* us,op,pfn,order,migratetype; the last is empty for frees */
static int read_csv_line(struct reader *reader)
{
	uint64_t us = 0;
	uint64_t pfn = 0;
	uint64_t order = 0;
	uint64_t migratetype = 0;
	int is_alloc = 0;
	int rc = read_number(reader, 10, "us", UINT64_C(1) << 60, &us);

	if (!rc)
		rc = expect(reader, ",");
	if (!rc) {
		is_alloc = reader->at < reader->end && *reader->at == 'a';
		rc = expect(reader, is_alloc ? "a," : "f,");
	}
	if (!rc)
		rc = read_number(reader, 16, "pfn", PFN_MAX, &pfn);
	if (!rc)
		rc = expect(reader, ",");
	if (!rc)
		rc = read_number(reader, 10, "order", TRACE_ORDER_MAX, &order);
	if (!rc)
		rc = expect(reader, ",");
	if (!rc && is_alloc)
		rc = read_number(reader, 10, "migratetype", TRACE_MIGRATETYPE_MAX, &migratetype);
	if (!rc)
		rc = line_done(reader);
	return rc ? rc : take_event(reader, is_alloc, us, pfn, (uint32_t)order, (uint32_t)migratetype);
}

static int read_lines(struct reader *reader, const char *text, size_t bytes)
{
	static const char header[] = "us,op,pfn,order,migratetype";
	const char *end = text + bytes;
	int is_csv = bytes >= 3 && memcmp(text, "us,", 3) == 0;

	for (const char *at = text; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		int rc;

		reader->line++;
		reader->at = at;
		reader->end = newline ? newline : end;
		if (!newline)
			return REFUSE(reader, "the last line has no newline: the file is cut off");
		if (memchr(at, 0, (size_t)(newline - at)))
			return REFUSE(reader, "the line holds a zero byte: this is no text");
		if (newline > at && newline[-1] == '\r')
			reader->end--;
		if (is_csv && reader->line == 1)
			rc = expect(reader, header) || line_done(reader) ? -EINVAL : 0;
		else
			rc = is_csv ? read_csv_line(reader) : read_perf_line(reader);
		if (rc)
			return rc;
		at = newline + 1;
	}
	if (reader->trace->n == 0)
		return REFUSE(reader, "no page allocation or free in the whole file");
	return 0;
}

int trace_parse_text(const char *name, const char *text, size_t bytes, struct trace *trace, struct trace_error *error)
{
	struct reader reader = { .name = name, .trace = trace, .error = error };
	int rc;

	*trace = (struct trace) { 0 };
	rc = read_lines(&reader, text, bytes);
	trace_live_destroy(&reader.live);
	if (rc)
		trace_free(trace);
	return rc;
}
