/*
 * A living child has every page that the parent had at the fork: discarding frees nothing now. It must still leave nothing
 * of the content with the parent, and nothing that comes back when the child is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagehint/host.h>
#include <pagehint/map.h>

#define PAGE UINT64_C(4096)
#define HUGE_PAGE (UINT64_C(2) << 20)

static struct pagehint_map *map;
static struct pagehint_backend *backend;
static int to_child[2];
static pid_t child;

static void begin(unsigned char *memory, uint64_t bytes, int fd, uint32_t budget)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .frames = bytes / PAGE, .fd = fd };
	struct pagehint_madvise_opts opts = { .struct_size = sizeof(opts), .mapping_budget = budget };
	uint64_t id;
	desc.host_addr = (uintptr_t)memory;
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	assert_int_equal(pagehint_map_add(map, &desc, &id), 0);
	assert_int_equal(pagehint_madvise_new(map, &opts, NULL, &backend), 0);
	memset(memory, 0xaa, bytes);
	assert_int_equal(pipe(to_child), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) { /* lives until the parent lets go of the pipe */
		char c;
		close(to_child[1]);
		_exit(read(to_child[0], &c, 1) == 0 ? 0 : 1);
	}
	close(to_child[0]);
}

static void let_the_child_go(void)
{
	int status;
	close(to_child[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void end(void)
{
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_map_free(map), 0);
}

static struct pagehint_outcome discard(uint64_t frame, uint64_t frames, uint32_t flags)
{
	struct pagehint_run run = { frame, frames };
	struct pagehint_outcome sum;
	assert_int_equal(pagehint_backend_discard(backend, &run, 1, flags, NULL, &sum, NULL), 0);
	assert_int_equal(sum.asked, frames * PAGE);
	return sum;
}

static int reads(const unsigned char *memory, uint64_t frame, uint64_t frames, unsigned char value)
{
	for (uint64_t i = frame * PAGE; i < (frame + frames) * PAGE; i++)
		if (memory[i] != value)
			return 0;
	return 1;
}

static void test_what_cannot_be_freed_reads_zero(void **state)
{
	(void)state;
	unsigned char *area = mmap(NULL, 3 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(area, MAP_FAILED);
	unsigned char *memory = area + (HUGE_PAGE - (uintptr_t)area % HUGE_PAGE) % HUGE_PAGE;
	(void)madvise(memory, HUGE_PAGE, MADV_HUGEPAGE);
	begin(memory, HUGE_PAGE, -1, 0);
	struct pagehint_outcome o = discard(3, 1, PAGEHINT_DISCARD_ZERO);
	assert_int_equal(o.absent, 0);
	assert_true(reads(memory, 3, 1, 0) && reads(memory, 2, 1, 0xaa) && reads(memory, 4, 1, 0xaa));
	let_the_child_go();
	assert_true(reads(memory, 3, 1, 0));
	end();
	munmap(area, 3 * HUGE_PAGE);
}

static unsigned char *map_file(uint64_t bytes, int *ret_fd)
{
	char path[] = "/tmp/pagehint-fork-XXXXXX";
	*ret_fd = mkstemp(path);
	assert_true(*ret_fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(*ret_fd, (off_t)bytes), 0);
	unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, *ret_fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void test_a_private_file_does_not_come_back(void **state)
{
	(void)state;
	const uint32_t flags[] = { PAGEHINT_DISCARD_PROBE, PAGEHINT_DISCARD_PROBE | PAGEHINT_DISCARD_ZERO, 0 };
	for (unsigned i = 0; i < 3; i++) {
		int fd;
		unsigned char *memory = map_file(256 * PAGE, &fd);
		begin(memory, 256 * PAGE, fd, 0);
		struct pagehint_outcome o = discard(16, 64, flags[i]);
		assert_int_equal(o.kept + o.failed, 0);
		let_the_child_go();
		uint64_t resident = 1;
		struct pagehint_run run = { 16, 64 };
		assert_int_equal(pagehint_madvise_resident(backend, &run, &resident), 0);
		assert_int_equal(resident, 0);
		assert_true(reads(memory, 16, 64, 0) && reads(memory, 15, 1, 0xaa) && reads(memory, 80, 1, 0xaa));
		end();
		munmap(memory, 256 * PAGE);
		close(fd);
	}
}

static void test_zeroes_also_when_the_budget_is_spent(void **state)
{
	(void)state;
	int fd;
	unsigned char *memory = map_file(256 * PAGE, &fd);
	begin(memory, 256 * PAGE, fd, 1);
	assert_int_equal(discard(0, 1, 0).accepted, PAGE); /* the one hole */
	struct pagehint_outcome o = discard(16, 4, PAGEHINT_DISCARD_ZERO);
	assert_int_equal(o.kept, 4 * PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_ZEROED);
	assert_true(reads(memory, 16, 4, 0) && reads(memory, 20, 1, 0xaa));
	let_the_child_go();
	end();
	munmap(memory, 256 * PAGE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_cannot_be_freed_reads_zero),
		cmocka_unit_test(test_a_private_file_does_not_come_back),
		cmocka_unit_test(test_zeroes_also_when_the_budget_is_spent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
