#include "sysfs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int sysfs_open(struct sysfs *s, const char *dir)
{
	char path[288];
	memset(s, 0, sizeof(*s));
	if (snprintf(s->dir, sizeof(s->dir), "%s", dir) >= (int)sizeof(s->dir))
		return -ENAMETOOLONG;
	snprintf(path, sizeof(path), "%s/config", s->dir);
	s->config_fd = open(path, O_RDWR | O_CLOEXEC);
	return s->config_fd < 0 ? -errno : 0;
}

void sysfs_close(struct sysfs *s)
{
	for (uint32_t bar = 0; bar < 6; bar++)
		if (s->bars[bar].base != NULL)
			munmap((void *)(uintptr_t)s->bars[bar].base, (size_t)s->bars[bar].bytes);
	close(s->config_fd);
}

static void map_bar(struct sysfs *s, uint32_t bar)
{
	char path[288];
	struct stat st;
	snprintf(path, sizeof(path), "%s/resource%u", s->dir, bar);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
		void *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (base != MAP_FAILED) {
			s->bars[bar].base = base;
			s->bars[bar].bytes = (uint64_t)st.st_size;
		}
	}
	if (fd >= 0)
		close(fd);
}

/* Where a register is; NULL: nowhere. */
static volatile void *at(struct sysfs *s, uint32_t bar, uint64_t offset, uint64_t bytes)
{
	if (bar < 6 && s->bars[bar].base == NULL)
		map_bar(s, bar);
	if (bar >= 6 || s->bars[bar].base == NULL || offset > s->bars[bar].bytes || bytes > s->bars[bar].bytes - offset)
		return NULL;
	return s->bars[bar].base + offset;
}

static uint8_t read8(void *ctx, uint32_t bar, uint64_t offset)
{
	volatile uint8_t *reg = at(ctx, bar, offset, 1);
	return reg == NULL ? UINT8_MAX : *reg;
}

static uint16_t read16(void *ctx, uint32_t bar, uint64_t offset)
{
	volatile uint16_t *reg = at(ctx, bar, offset, 2);
	return reg == NULL ? UINT16_MAX : le16toh(*reg);
}

static uint32_t read32(void *ctx, uint32_t bar, uint64_t offset)
{
	volatile uint32_t *reg = at(ctx, bar, offset, 4);
	return reg == NULL ? UINT32_MAX : le32toh(*reg);
}

static void write8(void *ctx, uint32_t bar, uint64_t offset, uint8_t value)
{
	volatile uint8_t *reg = at(ctx, bar, offset, 1);
	if (reg != NULL)
		*reg = value;
}

static void write16(void *ctx, uint32_t bar, uint64_t offset, uint16_t value)
{
	volatile uint16_t *reg = at(ctx, bar, offset, 2);
	if (reg != NULL)
		*reg = htole16(value);
}

static void write32(void *ctx, uint32_t bar, uint64_t offset, uint32_t value)
{
	volatile uint32_t *reg = at(ctx, bar, offset, 4);
	if (reg != NULL)
		*reg = htole32(value);
}

static uint32_t pci_read32(void *ctx, uint32_t offset)
{
	const struct sysfs *s = ctx;
	uint32_t value;
	return pread(s->config_fd, &value, 4, offset) == 4 ? le32toh(value) : UINT32_MAX;
}

static void pci_write32(void *ctx, uint32_t offset, uint32_t value)
{
	const struct sysfs *s = ctx;
	uint32_t wire = htole32(value);
	if (pwrite(s->config_fd, &wire, 4, offset) != 4)
		perror("config");
}

const struct pagehint_virtio_access sysfs_access = {
	.struct_size = sizeof(sysfs_access),
	.read8 = read8,
	.read16 = read16,
	.read32 = read32,
	.write8 = write8,
	.write16 = write16,
	.write32 = write32,
	.pci_read32 = pci_read32,
	.pci_write32 = pci_write32,
};
