/*
 * listen: the sockets that pagehint-balloon offers.
 *
 * Owns: nothing; descriptors go to the caller. A path that nobody listens on any more (left by a program that died) is taken
 * over; one that is in use, or is no socket, is left alone.
 */
#ifndef BALLOON_LISTEN_H
#define BALLOON_LISTEN_H

/* Listens on a path. Return: a descriptor; -EADDRINUSE somebody does already, or a file of another kind is there; -errno. */
int listen_path(const char *path);

/* On a path, or, when it is a number, on that port of 127.0.0.1. Return: as above; -EINVAL no such port. */
int listen_anywhere(const char *where);

#endif
