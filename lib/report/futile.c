#include "report/futile.h"

#include <string.h>

/* What was kept has aged anew by the second look after; an answer may take one more. */
#define QUIET_LOOKS 3u

int ph_futile_note(struct ph_futile *futile, const struct ph_pace *pace, uint64_t now_ns, uint64_t from, uint64_t to,
		   uint32_t why)
{
	futile->why = why;
	futile->quiet = 0;
	if (futile->rounds != 0 && now_ns < futile->until_ns) {
		futile->from = from < futile->from ? from : futile->from;
		futile->to = to > futile->to ? to : futile->to;
		return 0;
	}
	futile->from = from;
	futile->to = to;
	if (futile->rounds < UINT32_MAX)
		futile->rounds++;
	futile->until_ns = ph_pace_later(now_ns, ph_pace_pause_ns(pace, futile->rounds));
	return 1;
}

void ph_futile_look(struct ph_futile *futile, uint64_t now_ns)
{
	if (futile->rounds != 0 && now_ns >= futile->until_ns && ++futile->quiet > QUIET_LOOKS)
		memset(futile, 0, sizeof(*futile));
}

int ph_futile_cut(const struct ph_futile *futile, uint64_t now_ns, struct ph_window *window)
{
	if (futile->rounds == 0 || now_ns >= futile->until_ns || window->from >= futile->to ||
	    window->to <= futile->from)
		return 0;
	if (window->from < futile->from) {
		window->to = futile->from;
		return 0;
	}
	if (window->to > futile->to)
		window->to = futile->to;
	return 1;
}
