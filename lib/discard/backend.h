/*
 * backend: the handle around an ops table; the inside of pagehint/backend.h.
 *
 * Owns: a copy of the ops table and hooks, scratch for merged runs and outcomes, the counters. Borrows: gate, ctx until
 * destroy. Called from: the reporter, the virtio device, an embedder; one call at a time.
 */
#ifndef PH_DISCARD_BACKEND_H
#define PH_DISCARD_BACKEND_H

#include <pagehint/backend.h>

#include "base/sys.h"

/* pagehint_backend_new with another operating system beneath (clock for the log limit, fork check). */
int ph_backend_new_with(const struct pagehint_backend_ops *ops, void *ctx, const struct pagehint_backend_opts *opts,
			const struct ph_sys *sys, struct pagehint_backend **ret_backend);

/* The ctx of a backend whose ops.name is this very string (pointer compared), else NULL: how host/ knows its own. */
void *ph_backend_ctx(const struct pagehint_backend *backend, const char *name);

/* log frame_shift the handle was made with */
uint32_t ph_backend_frame_shift(const struct pagehint_backend *backend);

/* Hands a line to the embedder's log hook, within the rate limit. For implementations that sit behind this handle. */
void ph_backend_log(struct pagehint_backend *backend, uint32_t level, const char *text);

#endif
