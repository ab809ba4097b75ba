/* judge: violations, counted by part, also those of another process. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "soak.h"

#define SHOWN 20u
#define KINDS 16u

static struct judge {
	_Atomic uint64_t all;
	struct {
		_Atomic uint64_t n;
		char part[24];
	} of[KINDS];
	pthread_mutex_t lock;
} * judge;

int soak_judge_open(void)
{
	pthread_mutexattr_t shared;
	judge = mmap(NULL, sizeof(*judge), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (judge == MAP_FAILED || pthread_mutexattr_init(&shared) != 0)
		return -1;
	int r = pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	if (r == 0)
		r = pthread_mutex_init(&judge->lock, &shared);
	pthread_mutexattr_destroy(&shared);
	return r == 0 ? 0 : -1;
}

static void count(const char *part)
{
	for (uint32_t i = 0; i < KINDS; i++) {
		if (judge->of[i].part[0] == 0)
			snprintf(judge->of[i].part, sizeof(judge->of[i].part), "%s", part);
		if (strncmp(judge->of[i].part, part, sizeof(judge->of[i].part) - 1) != 0)
			continue;
		atomic_fetch_add(&judge->of[i].n, 1);
		return;
	}
}

int soak_bad(const char *part, const char *format, ...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_mutex_lock(&judge->lock);
	count(part);
	if (atomic_fetch_add(&judge->all, 1) < SHOWN) {
		printf("VIOLATION %s: %s\n", part, text);
		fflush(stdout);
	}
	pthread_mutex_unlock(&judge->lock);
	return 0;
}

uint64_t soak_violations(const char *part)
{
	uint64_t n = 0;
	if (part == NULL)
		return atomic_load(&judge->all);
	pthread_mutex_lock(&judge->lock);
	for (uint32_t i = 0; i < KINDS; i++)
		if (strncmp(judge->of[i].part, part, sizeof(judge->of[i].part) - 1) == 0 && part[0] != 0)
			n = atomic_load(&judge->of[i].n);
	pthread_mutex_unlock(&judge->lock);
	return n;
}
