/*
 * The device over the real madvise backend: what a guest reports and inflates leaves the host, by the host's own count (blocks
 * of the file behind its memory), and not a page more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <pagehint/host.h>

#include "fakes/guest.h"

#define F GUEST_FREE
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })

static uint64_t held_pages(const struct guest *g)
{
	struct stat st;
	assert_int_equal(fstat(g->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512 / 4096;
}

/* Where shared memory comes in huge pages, less than 2 MiB frees nothing, and these counts mean nothing. */
static int is_applicable(struct guest *g, uint64_t host_page)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	assert_int_equal(pagehint_map_lookup(g->map, F, &info), 0);
	if (info.least_bytes == host_page)
		return 1;
	print_message("not applicable: shared memory comes in huge pages here\n");
	guest_close(g);
	return 0;
}

/* The backend that writes down gives way to the one that frees. */
static struct guest *open_real(uint32_t host_page_shift)
{
	struct guest_how how = { .host_page_shift = host_page_shift };
	struct guest *g = guest_open(&how);
	struct pagehint_backend *fake = g->backend;
	assert_int_equal(pagehint_device_free(g->device), 0);
	assert_int_equal(pagehint_backend_free(fake), 0);
	assert_int_equal(pagehint_madvise_new(g->map, NULL, NULL, &g->backend), 0);
	assert_int_equal(pagehint_device_new(g->map, g->backend, g->gate, &g->how.opts, &g->device), 0);
	for (uint64_t p = 0; p < GUEST_RINGS; p++) /* rings and lists are there before anything is counted */
		*(volatile unsigned char *)guest_at(g, GUEST_PAGE + p) = 0;
	guest_boot(g, 0);
	return g;
}

static void reports_leave_the_host(void **state)
{
	(void)state;
	struct guest *g = open_real(0);
	if (!is_applicable(g, 4096))
		return;
	uint64_t before = held_pages(g);
	struct pagehint_run pages[] = { RUN(F, 512), RUN(F + 1024, 16), RUN(GUEST_HIGH_PAGE, 64), RUN(F + 512, 1) };
	for (uint32_t i = 0; i < 4; i++)
		guest_give(g, pages[i].frame, pages[i].frames);
	guest_report(g, pages, 4);
	assert_int_equal(before - held_pages(g), 512 + 16 + 64 + 1);
	struct pagehint_device_stats stats = guest_stats(g);
	assert_int_equal(stats.accepted + stats.freed, (512 + 16 + 64 + 1) * 4096);
	assert_int_equal(stats.runs, 3);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(guest_is_wiped(g, pages[i].frame));
	guest_check(g);
	guest_close(g);
}

static void inflated_pages_leave_the_host_when_their_host_page_is_whole(void **state)
{
	(void)state;
	struct guest *g = open_real(16);
	if (!is_applicable(g, 65536))
		return;
	uint64_t before = held_pages(g);
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t pfn = (uint32_t)F + 64 + i;
		assert_int_equal(held_pages(g), before);
		guest_give(g, pfn, 1);
		guest_inflate(g, &pfn, 1);
	}
	assert_int_equal(before - held_pages(g), 16);
	guest_check(g);
	guest_close(g);
}

static void a_pinned_region_keeps_every_page(void **state)
{
	(void)state;
	struct guest *g = open_real(0);
	if (!is_applicable(g, 4096))
		return;
	uint64_t before = held_pages(g);
	assert_int_equal(pagehint_map_pin(g->map, g->low, NULL), 0);
	guest_report(g, &RUN(F, 8), 1);
	guest_report(g, &RUN(GUEST_ROM_PAGE, 8), 1);
	assert_int_equal(held_pages(g), before);
	guest_check(g);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_leave_the_host),
		cmocka_unit_test(inflated_pages_leave_the_host_when_their_host_page_is_whole),
		cmocka_unit_test(a_pinned_region_keeps_every_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
