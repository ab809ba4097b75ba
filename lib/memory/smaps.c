#include "memory/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One line without its newline; what does not fit is dropped (only names are that long). 1, 0 at the end, -errno. */
static int read_line(struct ph_smaps *s, char *line, size_t room)
{
	size_t n = 0;
	for (;;) {
		if (s->at == s->filled) {
			int64_t r = s->sys->read(s->sys->ctx, s->fd, s->buffer, sizeof(s->buffer));
			if (r < 0)
				return (int)r;
			s->at = 0;
			s->filled = (size_t)r;
			if (r == 0) {
				line[n] = 0;
				return n != 0;
			}
		}
		char c = s->buffer[s->at++];
		if (c == '\n') {
			line[n] = 0;
			return 1;
		}
		if (n + 1 < room)
			line[n++] = c;
	}
}

/* Headers start with a lower-case hexadecimal address, attributes with a capital letter. */
static int is_header(const char *line)
{
	return (line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f');
}

static int starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* The kernel's own shmem files live on a mount without a path of its own, so their names stand at the root. */
static uint32_t name_kind(const char *name, uint32_t major)
{
	if (name[0] == 0 || starts_with(name, "[anon") || strcmp(name, "[heap]") == 0 || starts_with(name, "[stack"))
		return PH_NAME_ANON;
	if (major == 0 && (strcmp(name, "/dev/zero (deleted)") == 0 || starts_with(name, "/memfd:") ||
			   starts_with(name, "/SYSV") || starts_with(name, "[anon_shmem")))
		return PH_NAME_SHMEM;
	return name[0] == '/' ? PH_NAME_FILE : PH_NAME_OTHER;
}

static int parse_header(const char *line, struct ph_mapping *m)
{
	char permissions[5];
	int name = 0;
	memset(m, 0, sizeof(*m));
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 " %n", &m->start,
		   &m->end, permissions, &m->offset, &m->major, &m->minor, &m->inode, &name) < 7 ||
	    strlen(permissions) != 4)
		return -EIO;
	m->flags = permissions[3] == 's' ? PH_MAPPING_SHARED : 0;
	m->name = name_kind(name == 0 ? "" : line + name, m->major);
	return 0;
}

static uint32_t vm_flag(const char *word)
{
	static const struct {
		char word[4];
		uint32_t flag;
	} known[] = {
		{ "lo", PH_MAPPING_LOCKED },  { "ht", PH_MAPPING_HUGETLB }, { "um", PH_MAPPING_UFFD },
		{ "uw", PH_MAPPING_UFFD },    { "ui", PH_MAPPING_UFFD },    { "io", PH_MAPPING_IO },
		{ "pf", PH_MAPPING_IO },      { "mm", PH_MAPPING_IO },      { "hg", PH_MAPPING_ADVISED },
		{ "nh", PH_MAPPING_AVOIDED }, { "ms", PH_MAPPING_SHARED },
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (word[0] == known[i].word[0] && word[1] == known[i].word[1])
			return known[i].flag;
	return 0;
}

/* "VmFlags: rd wr mr mw me ac sd": words of two letters. */
static uint32_t vm_flags(const char *words)
{
	uint32_t flags = PH_MAPPING_COMPLETE;
	while (*words != 0) {
		if (*words == ' ') {
			words++;
			continue;
		}
		size_t n = strcspn(words, " ");
		if (n == 2)
			flags |= vm_flag(words);
		words += n;
	}
	return flags;
}

static void parse_attribute(const char *line, struct ph_mapping *m)
{
	uint64_t v;
	if (sscanf(line, "KernelPageSize: %" SCNu64, &v) == 1)
		m->page_bytes = v * 1024;
	else if (starts_with(line, "VmFlags:"))
		m->flags |= vm_flags(line + strlen("VmFlags:"));
	else if (sscanf(line, "THPeligible: %" SCNu64, &v) == 1)
		m->flags |= v != 0 ? PH_MAPPING_MAY_THP : 0;
	else if (sscanf(line, "AnonHugePages: %" SCNu64, &v) == 1 ||
		 sscanf(line, "ShmemPmdMapped: %" SCNu64, &v) == 1 || sscanf(line, "FilePmdMapped: %" SCNu64, &v) == 1)
		m->flags |= v != 0 ? PH_MAPPING_HAS_THP : 0;
}

int ph_smaps_open(struct ph_smaps *s, const struct ph_sys *sys)
{
	memset(s, 0, offsetof(struct ph_smaps, buffer));
	s->sys = sys;
	s->fd = sys->open(sys->ctx, "/proc/self/smaps", O_RDONLY);
	return s->fd < 0 ? s->fd : 0;
}

int ph_smaps_next(struct ph_smaps *s, struct ph_mapping *ret_mapping)
{
	struct ph_mapping m;
	int r = s->have_header ? 1 : read_line(s, s->header, sizeof(s->header));
	if (r <= 0)
		return r;
	s->have_header = 0;
	r = parse_header(s->header, &m);
	if (r < 0)
		return r;
	while ((r = read_line(s, s->line, sizeof(s->line))) > 0) {
		if (is_header(s->line)) {
			memcpy(s->header, s->line, sizeof(s->header));
			s->have_header = 1;
			break;
		}
		parse_attribute(s->line, &m);
	}
	if (r < 0)
		return r;
	/* the kernel writes VmFlags last: without them something was cut off, and nothing may be concluded */
	if (m.page_bytes == 0 || (m.flags & PH_MAPPING_COMPLETE) == 0)
		return -EIO;
	*ret_mapping = m;
	return 1;
}

void ph_smaps_close(struct ph_smaps *s)
{
	s->sys->close(s->sys->ctx, s->fd);
	s->fd = -1;
}
