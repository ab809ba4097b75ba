/* The real operating system behind the seam, where tests put others in its place: what it gives, and what errors become. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sys.h"

static const struct ph_sys *const sys = &ph_sys_real;

static void test_the_clock_goes_forward(void **state)
{
	(void)state;
	int64_t before = sys->clock_ns(sys->ctx), after = sys->clock_ns(sys->ctx);
	assert_true(before > 0);
	assert_true(after >= before);
}

/* Urgent news is 1, none is 0, and a source that is gone is an error, not silence. */
static void test_urgent_news(void **state)
{
	(void)state;
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(sys->poll_pri(sys->ctx, pair[0]), 0);
	assert_int_equal(write(pair[1], "x", 1), 1);
	assert_int_equal(sys->poll_pri(sys->ctx, pair[0]), 0); /* plain data is none */
	if (send(pair[1], "!", 1, MSG_OOB) == 1)
		assert_int_equal(sys->poll_pri(sys->ctx, pair[0]), 1);
	else
		assert_int_equal(errno, EOPNOTSUPP); /* a kernel before 5.15 */
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(sys->poll_pri(sys->ctx, pair[0]), -EIO);
	assert_int_equal(pipe(pair), 0);
	close(pair[0]);
	assert_int_equal(sys->poll_pri(sys->ctx, pair[1]), -EIO);
	close(pair[1]);
}

static void test_data_that_waits(void **state)
{
	(void)state;
	int pair[2];
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(sys->poll_in(sys->ctx, pair[0]), 0);
	assert_int_equal(write(pair[1], "x", 1), 1);
	assert_int_equal(sys->poll_in(sys->ctx, pair[0]), 1);
	close(pair[0]);
	close(pair[1]);
}

/* What is written there is in the file. */
static void test_a_mapped_file(void **state)
{
	(void)state;
	char read_back[3] = "";
	void *at = NULL;
	int fd = memfd_create("mapped", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(sys->map_file(sys->ctx, fd, 4096, &at), 0);
	memcpy(at, "ab", 3);
	assert_int_equal(pread(fd, read_back, 3, 0), 3);
	assert_string_equal(read_back, "ab");
	sys->unmap_memory(sys->ctx, at, 4096);
	at = NULL;
	assert_int_equal(sys->map_file(sys->ctx, fd, 0, &at), -EINVAL);
	close(fd);
	assert_int_equal(sys->map_file(sys->ctx, fd, 4096, &at), -EBADF);
	assert_null(at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_clock_goes_forward),
		cmocka_unit_test(test_urgent_news),
		cmocka_unit_test(test_data_that_waits),
		cmocka_unit_test(test_a_mapped_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
