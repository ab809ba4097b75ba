/*
 * sys_peer: the calls of sys.h that deal with another process: memory it shares, sockets that carry descriptors, waiting
 * for many of them. Part of the one seam to the operating system: nobody but sys.c, which puts them into its table, calls
 * these; errno is read here as it is there.
 */
#ifndef PH_BASE_SYS_PEER_H
#define PH_BASE_SYS_PEER_H

#include <stddef.h>
#include <stdint.h>

struct epoll_event;

int ph_peer_map_shared(void *ctx, int fd, size_t length, uint64_t offset, void **ret_addr);
int ph_peer_memfd(void *ctx, const char *name, uint64_t length);
int64_t ph_peer_receive(void *ctx, int fd, void *buffer, size_t length, int *fds, uint32_t max_fds, uint32_t *ret_fds);
int64_t ph_peer_send(void *ctx, int fd, const void *buffer, size_t length, const int *fds, uint32_t n);
int ph_peer_nonblock(void *ctx, int fd);
int ph_peer_epoll_new(void *ctx);
int ph_peer_epoll_set(void *ctx, int epoll, int op, int fd, uint32_t events, uint64_t data);
int ph_peer_epoll_look(void *ctx, int epoll, struct epoll_event *events, int max);

#endif
