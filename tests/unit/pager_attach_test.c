/* Which memory is taken for the states of a pager that is gone: what one has written, with whatever its pages were, and no other. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/map.h>

#include "pager/pager.h"

#define PAGES UINT64_C(40)
#define HEAD_WORDS 8u

static uint64_t states[HEAD_WORDS + 8];

/* A userfaultfd that says yes to everything; no page is touched here. */
static int open_one(void *ctx, int flags)
{
	(void)ctx;
	(void)flags;
	return 100;
}

static int close_one(void *ctx, int fd)
{
	(void)ctx;
	(void)fd;
	return 0;
}

static int advise(void *ctx, void *addr, size_t length, int advice)
{
	(void)ctx;
	(void)addr;
	(void)length;
	(void)advice;
	return 0;
}

static int64_t say_yes(void *ctx, int fd, unsigned long request, void *arg)
{
	(void)ctx;
	(void)fd;
	if (request == UFFDIO_API)
		((struct uffdio_api *)arg)->features = ~UINT64_C(0);
	if (request == UFFDIO_REGISTER)
		((struct uffdio_register *)arg)->ioctls = 1 << _UFFDIO_COPY | 1 << _UFFDIO_ZEROPAGE;
	return 0;
}

/* Adds a region whose states lie in `states`, and hands over again. */
static int add(uint32_t flags)
{
	struct ph_sys sys = ph_sys_real;
	struct pagehint_pager *pager;
	const struct pagehint_pager_region region = {
		.struct_size = sizeof(region),
		.frames = PAGES,
		.host_addr = UINT64_C(0x600000000000),
		.state = states,
		.state_bytes = sizeof(states),
		.flags = flags,
		.backing = PAGEHINT_BACKING_ANON,
	};
	sys.userfaultfd = open_one;
	sys.close = close_one;
	sys.madvise = advise;
	sys.ioctl = say_yes;
	assert_int_equal(ph_pager_new_with(NULL, &sys, &pager), 0);
	int r = pagehint_pager_add(pager, &region);
	if (r == 0)
		assert_int_equal(pagehint_pager_abandon(pager, 1), 0);
	assert_int_equal(pagehint_pager_free(pager), 0);
	return r;
}

static int set_up(void **state)
{
	(void)state;
	memset(states, 0, sizeof(states));
	return add(0);
}

static void test_every_value_at_every_page(void **state)
{
	const uint32_t never = 1u << 8 | 1u << 11 | 1u << 12 | 1u << 15;
	(void)state;
	for (uint64_t page = 0; page < PAGES; page++)
		for (uint64_t value = 0; value < 16; value++) {
			uint64_t *word = &states[HEAD_WORDS + page / 16], before = *word;
			*word = (before & ~(UINT64_C(15) << page % 16 * 4)) | value << page % 16 * 4;
			uint64_t put = *word;
			int r = add(PAGEHINT_PAGER_ATTACH);
			assert_int_equal(r, (never >> value & 1) != 0 ? -EINVAL : 0);
			if (r != 0)
				assert_int_equal(*word, put); /* it is as it was */
			*word = before;
		}
}

static void test_a_header_with_any_bit_changed(void **state)
{
	(void)state;
	for (uint32_t bit = 0; bit < 3 * 64; bit++) {
		states[bit / 64] ^= UINT64_C(1) << bit % 64;
		assert_int_equal(add(PAGEHINT_PAGER_ATTACH), -EINVAL);
		states[bit / 64] ^= UINT64_C(1) << bit % 64;
	}
	assert_int_equal(add(PAGEHINT_PAGER_ATTACH), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_value_at_every_page, set_up),
		cmocka_unit_test_setup(test_a_header_with_any_bit_changed, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
