#include "base/say.h"

#include <stdarg.h>
#include <stdio.h>

void ph_say(const struct pagehint_sink *sink, const char *format, ...)
{
	char text[256];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sink->line(sink->ctx, text);
}
