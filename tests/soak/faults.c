#include "faults.h"

#include <errno.h>
#include <pthread.h>

#include "soak.h"
#include "support/faulty_sys.h"

#define MOST_K 24u      /* a kind's k is 1 .. this */
#define PATIENCE 200u   /* calls of other kinds until another kind is drawn */
#define PRESSURE_K 500u /* one question in so many meets pressure */

static struct faulty_sys table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t chance, others;
static uint64_t left; /* 0 = to be drawn */
static enum faulty_call kind;
static _Atomic int armed;
static _Atomic uint64_t injected;
static _Thread_local uint64_t mine;

/* What each kind may give; none of them says that something was done. */
static int error_of(enum faulty_call call)
{
	static const int of_memory[] = { -ENOMEM, -EAGAIN, -EINVAL, -EPERM, -EFAULT };
	static const int of_files[] = { -EIO, -ENOMEM, -EACCES, -EMFILE };
	static const int of_uffd[] = { -EAGAIN, -ENOMEM, -EINTR, -EFAULT };
	switch (call) {
	case FAULTY_MADVISE:
	case FAULTY_PROCESS_MADVISE:
	case FAULTY_FALLOCATE:
	case FAULTY_MMAP_FIXED_ANON:
	case FAULTY_MINCORE:
		return of_memory[soak_below(&chance, 5)];
	case FAULTY_IOCTL:
	case FAULTY_READ:
		return of_uffd[soak_below(&chance, 3 + (call == FAULTY_IOCTL))];
	default:
		return of_files[soak_below(&chance, 4)];
	}
}

/* One of the kinds that are made at all. */
static void draw(void)
{
	do
		kind = (enum faulty_call)soak_below(&chance, FAULTY_CALLS);
	while (atomic_load(&table.calls[kind]) == 0);
	left = 1 + soak_below(&chance, MOST_K);
	others = 0;
}

static int strike(void *ctx, enum faulty_call call)
{
	int error = 0;
	(void)ctx;
	if (!atomic_load(&armed))
		return 0;
	pthread_mutex_lock(&lock);
	if (left == 0)
		draw();
	if (call != kind) {
		if (++others == PATIENCE)
			draw();
	} else if (--left == 0) {
		error = error_of(call);
	}
	pthread_mutex_unlock(&lock);
	if (error != 0) {
		atomic_fetch_add(&injected, 1);
		mine++;
	}
	return error;
}

static int poll_pri(void *ctx, int fd)
{
	int error = strike(ctx, FAULTY_POLL_PRI), pressed;
	if (error != 0 || fd != FAULTS_PSI_FD)
		return error != 0 ? error : ph_sys_real.poll_pri(NULL, fd);
	pthread_mutex_lock(&lock);
	pressed = soak_below(&chance, PRESSURE_K) == 0;
	pthread_mutex_unlock(&lock);
	return pressed;
}

const struct ph_sys *faults_sys(void)
{
	if (table.strike == NULL) {
		faulty_sys_init(&table, strike, NULL);
		table.sys.poll_pri = poll_pri;
	}
	return &table.sys;
}

void faults_seed(uint64_t seed)
{
	chance = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	left = 0;
}

void faults_arm(int on)
{
	atomic_store(&armed, on);
}

uint64_t faults_injected(void)
{
	return atomic_load(&injected);
}

uint64_t faults_mine(void)
{
	return mine;
}

int64_t faults_fds(void)
{
	return atomic_load(&table.fds);
}

int64_t faults_mapped(void)
{
	return atomic_load(&table.mapped);
}
