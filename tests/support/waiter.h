/*
 * waiter: a thread that hands a word of a page to a pipe: poisoned memory makes that fail, where a plain access would be a
 * signal.
 */
#ifndef TESTS_SUPPORT_WAITER_H
#define TESTS_SUPPORT_WAITER_H

#include "support/served.h"

struct waiter {
	int pipe[2];
	const unsigned char *at;
	int error;
	uint64_t word;
	pthread_t id;
};

static inline void *wait_for_page(void *arg)
{
	struct waiter *w = arg;
	w->error = write(w->pipe[1], w->at, 8) == 8 ? 0 : -errno;
	return NULL;
}

static inline void waiter_start(struct waiter *w, const void *at)
{
	memset(w, 0, sizeof(*w));
	w->at = at;
	assert_int_equal(pipe(w->pipe), 0);
	assert_int_equal(pthread_create(&w->id, NULL, wait_for_page, w), 0);
}

/* 0 and the word; or the error. */
static inline int waiter_end(struct waiter *w)
{
	assert_int_equal(pthread_join(w->id, NULL), 0);
	if (w->error == 0)
		assert_int_equal(read(w->pipe[0], &w->word, 8), 8);
	close(w->pipe[0]);
	close(w->pipe[1]);
	return w->error;
}

static inline void assert_poisoned(int error)
{
	assert_true(error == -EFAULT || error == -EHWPOISON);
}

#endif
