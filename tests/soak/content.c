#include "content.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rss.h"
#include "soak.h"

#define WORDS (CONTENT_PAGE / 8)
#define GUARD (UINT64_C(2) << 20)
#define PRESENT (UINT64_C(1) << 63)
#define NOWHERE UINT64_MAX

static uint64_t places(const struct content *c)
{
	return c->base + c->slots * CONTENT_SLOT;
}

uint64_t content_bytes(const struct content *c)
{
	return places(c) * CONTENT_PAGE;
}

uint64_t content_slot_frame(const struct content *c, uint64_t slot)
{
	(void)c;
	return (slot + 1) * PAGEHINT_SECTION_FRAMES;
}

static uint64_t place(const struct content *c, uint64_t frame)
{
	uint64_t section = frame / PAGEHINT_SECTION_FRAMES, in = frame % PAGEHINT_SECTION_FRAMES;
	if (section == 0 && in < c->base)
		return in;
	if (section != 0 && section <= c->slots && in < CONTENT_SLOT)
		return c->base + (section - 1) * CONTENT_SLOT + in;
	(void)soak_bad(c->part, "frame %" PRIu64 " is none", frame);
	return NOWHERE;
}

unsigned char *content_at(const struct content *c, uint64_t frame)
{
	return c->memory + place(c, frame) * CONTENT_PAGE;
}

static void *shared(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

int content_open(struct content *c, const char *part, int as_file, uint64_t base, uint64_t slots)
{
	memset(c, 0, sizeof(*c));
	c->part = part;
	c->fd = -1;
	c->base = base;
	c->slots = slots;
	uint64_t bytes = content_bytes(c);
	unsigned char *room =
		mmap(NULL, bytes + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return -errno;
	c->memory = room + GUARD - (uintptr_t)room % GUARD;
	if (as_file && ((c->fd = memfd_create(part, MFD_CLOEXEC)) < 0 || ftruncate(c->fd, (off_t)bytes) < 0))
		return -errno;
	if (mmap(c->memory, bytes, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_NORESERVE | (as_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS), c->fd,
		 0) == MAP_FAILED)
		return -errno;
	(void)madvise(c->memory, bytes, MADV_NOHUGEPAGE); /* fails where there are none */
	c->word = shared(places(c) * sizeof(*c->word));
	c->maybe = shared(places(c));
	c->owner = shared(places(c));
	rss_managed(c->memory, bytes);
	return c->word != NULL && c->maybe != NULL && c->owner != NULL ? 0 : -ENOMEM;
}

void content_close(struct content *c)
{
	uintptr_t at = (uintptr_t)c->memory;
	munmap((void *)(at - GUARD), content_bytes(c) + GUARD); /* what is left of the room is nothing's */
	munmap((void *)(uintptr_t)c->word, places(c) * sizeof(*c->word));
	munmap((void *)(uintptr_t)c->maybe, places(c));
	munmap((void *)(uintptr_t)c->owner, places(c));
	if (c->fd >= 0)
		close(c->fd);
}

/* ---- owners ---- */

static uint64_t word_at(const uint64_t *page, uint64_t k)
{
	return __atomic_load_n(&page[k], __ATOMIC_RELAXED);
}

static int is_right(const struct content *c, uint64_t i, const uint64_t *page)
{
	uint64_t seen = word_at(page, 0), wanted = atomic_load(&c->word[i]);
	for (uint64_t k = 1; k < WORDS; k++)
		if (word_at(page, k) != seen)
			return 0;
	return seen == wanted || (seen == 0 && atomic_load(&c->maybe[i]));
}

static void judge(const struct content *c, uint64_t i, const uint64_t *page, const char *when)
{
	if (!is_right(c, i, page))
		(void)soak_bad(c->part,
			       "%s: frame at place %" PRIu64 " holds %" PRIx64 " .. %" PRIx64 ", must hold %" PRIx64
			       "%s",
			       when, i, word_at(page, 0), word_at(page, WORDS - 1), atomic_load(&c->word[i]),
			       atomic_load(&c->maybe[i]) ? " or 0" : "");
}

static uint64_t *page_at(const struct content *c, uint64_t i)
{
	return (uint64_t *)(void *)(c->memory + i * CONTENT_PAGE);
}

void content_take(struct content *c, uint64_t frame, uint64_t frames, uint64_t word)
{
	uint64_t first = place(c, frame), last = place(c, frame + frames - 1);
	if (first == NOWHERE || last != first + frames - 1)
		return;
	for (uint64_t i = first; i <= last; i++) {
		if (atomic_exchange(&c->owner[i], 1) != 0)
			(void)soak_bad(c->part, "place %" PRIu64 " was given to two", i);
		judge(c, i, page_at(c, i), "taken");
		atomic_store(&c->word[i], word);
		atomic_store(&c->maybe[i], 0);
		for (uint64_t k = 0; k < WORDS; k++)
			__atomic_store_n(&page_at(c, i)[k], word, __ATOMIC_RELAXED);
	}
}

void content_look(struct content *c, uint64_t frame, uint64_t frames)
{
	uint64_t first = place(c, frame);
	for (uint64_t i = first; first != NOWHERE && i < first + frames; i++)
		judge(c, i, page_at(c, i), "held");
}

void content_drop(struct content *c, uint64_t frame, uint64_t frames)
{
	uint64_t first = place(c, frame);
	content_look(c, frame, frames);
	for (uint64_t i = first; first != NOWHERE && i < first + frames; i++)
		if (atomic_exchange(&c->owner[i], 0) != 1)
			(void)soak_bad(c->part, "place %" PRIu64 " was given back twice", i);
}

void content_is_zero(struct content *c, uint64_t frame, uint64_t frames)
{
	uint64_t first = place(c, frame);
	for (uint64_t i = first; first != NOWHERE && i < first + frames; i++) {
		atomic_store(&c->word[i], 0);
		atomic_store(&c->maybe[i], 0);
	}
}

/* ---- who discards ---- */

void content_discarded(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *o)
{
	struct content *c = ctx;
	uint64_t first = place(c, run->frame), gone = o->freed + o->absent + o->accepted;
	if (o->asked != run->frames * CONTENT_PAGE || gone + o->kept + o->lazy + o->failed != o->asked)
		(void)soak_bad(c->part, "of %" PRIu64 " bytes asked, %" PRIu64 " are accounted for", o->asked,
			       gone + o->kept + o->lazy + o->failed);
	for (uint64_t i = first; first != NOWHERE && i < first + run->frames; i++) {
		if (atomic_load(&c->owner[i]) != 0)
			(void)soak_bad(c->part, "place %" PRIu64 " was discarded while somebody had it", i);
		if (gone == o->asked) {
			atomic_fetch_add(&c->gone, 1);
			atomic_store(&c->word[i], 0);
			atomic_store(&c->maybe[i], 0);
		} else if (o->kept != o->asked) {
			atomic_store(&c->maybe[i], 1);
		}
	}
}

/* ---- everybody rests ---- */

/* A copy of a frame as it is, without bringing it back. 0 = it cannot be had so: it holds nothing. */
static int peek(const struct content *c, int pagemap, int lazy, uint64_t i, uint64_t *page)
{
	uint64_t entry = 0;
	if (c->fd >= 0 && !lazy)
		return pread(c->fd, page, CONTENT_PAGE, (off_t)(i * CONTENT_PAGE)) == (ssize_t)CONTENT_PAGE;
	if (pread(pagemap, &entry, 8, (off_t)((uintptr_t)page_at(c, i) / CONTENT_PAGE * 8)) != 8 || !(entry & PRESENT))
		return 0;
	memcpy(page, page_at(c, i), CONTENT_PAGE);
	return 1;
}

uint64_t content_walk(struct content *c, int lazy)
{
	uint64_t page[WORDS], owned = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		(void)soak_bad(c->part, "no pagemap");
	for (uint64_t i = 0; i < places(c); i++) {
		owned += atomic_load(&c->owner[i]);
		if (peek(c, pagemap, lazy, i, page))
			judge(c, i, page, "at rest");
		else if (!lazy && atomic_load(&c->word[i]) != 0 && !atomic_load(&c->maybe[i]))
			(void)soak_bad(c->part, "place %" PRIu64 " has lost %" PRIx64, i, atomic_load(&c->word[i]));
	}
	close(pagemap);
	return owned;
}
