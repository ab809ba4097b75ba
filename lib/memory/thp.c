#include "memory/thp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/bits.h"

#define SETTINGS "/sys/kernel/mm/transparent_hugepage/"

/* The word in brackets of a settings file, "" when the file is not there. 0 or -errno. */
static int chosen(const struct ph_sys *sys, const char *path, char *word, size_t room)
{
	char text[128];
	word[0] = 0;
	int fd = sys->open(sys->ctx, path, O_RDONLY);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd < 0)
		return fd;
	int64_t n = sys->read(sys->ctx, fd, text, sizeof(text) - 1);
	sys->close(sys->ctx, fd);
	if (n < 0)
		return (int)n;
	text[n] = 0;
	const char *open = strchr(text, '[');
	size_t length = open == NULL ? 0 : strcspn(open + 1, "]");
	if (length >= room)
		length = 0;
	if (length != 0)
		memcpy(word, open + 1, length);
	word[length] = 0;
	return 0;
}

static int setting(const struct ph_sys *sys, int shared, char *word, size_t room)
{
	int r = chosen(sys, shared ? SETTINGS "hugepages-2048kB/shmem_enabled" : SETTINGS "hugepages-2048kB/enabled",
		       word, room);
	if (r < 0 || (word[0] != 0 && strcmp(word, "inherit") != 0))
		return r;
	return chosen(sys, shared ? SETTINGS "shmem_enabled" : SETTINGS "enabled", word, room);
}

int ph_thp_possible(const struct ph_sys *sys, const struct ph_mapping *m)
{
	int shared = (m->flags & PH_MAPPING_SHARED) != 0;
	char word[32];
	if ((m->flags & PH_MAPPING_HAS_THP) != 0)
		return 1;
	if ((m->flags & PH_MAPPING_AVOIDED) != 0 || ph_round_up(m->start, PH_THP_BYTES) + PH_THP_BYTES > m->end)
		return 0;
	/* a tmpfs mount has settings of its own, which only the kernel's own verdict shows */
	if (shared && (m->flags & PH_MAPPING_MAY_THP) != 0)
		return 1;
	int r = setting(sys, shared, word, sizeof(word));
	if (r < 0)
		return r;
	if (strcmp(word, "madvise") == 0 || strcmp(word, "advise") == 0)
		return (m->flags & PH_MAPPING_ADVISED) != 0;
	return strcmp(word, "always") == 0 || strcmp(word, "within_size") == 0 || strcmp(word, "force") == 0;
}
