#include "listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 8
#define KIND (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK)

static int done(int fd, int failed)
{
	int error = errno;
	if (!failed && listen(fd, BACKLOG) == 0)
		return fd;
	error = failed ? error : errno;
	close(fd);
	return -error;
}

/* 1 when a socket lies there that nobody answers on */
static int is_left_over(const struct sockaddr_un *address)
{
	struct stat st;
	if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return 0;
	int fd = socket(AF_UNIX, KIND, 0);
	if (fd < 0)
		return 0;
	int refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
	close(fd);
	return refused;
}

int listen_path(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (is_left_over(&address))
		unlink(path);
	int fd = socket(AF_UNIX, KIND, 0);
	if (fd < 0)
		return -errno;
	mode_t before = umask(0077); /* whoever may open the directory may not therefore command the balloon */
	int failed = bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0;
	int error = errno;
	umask(before);
	errno = error;
	return done(fd, failed);
}

static int listen_port(unsigned long port)
{
	const int yes = 1;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, KIND, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	return done(fd, bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0);
}

int listen_anywhere(const char *where)
{
	if (where[strspn(where, "0123456789")] != 0)
		return listen_path(where);
	unsigned long port = strtoul(where, NULL, 10);
	return port == 0 || port > 65535 ? -EINVAL : listen_port(port);
}
