/*
 * sink.h: where explanations and check findings go: one call a line, text without a newline, valid during the call only.
 */
#ifndef PAGEHINT_SINK_H
#define PAGEHINT_SINK_H

/** struct pagehint_sink - a receiver of lines; the library never keeps it beyond the call that takes it */
struct pagehint_sink {
	void *ctx;
	void (*line)(void *ctx, const char *text);
};

#endif
