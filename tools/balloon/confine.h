/*
 * confine: gives away what the program does not need: identity, capabilities, system calls.
 *
 * The problem: the program parses what guests write, and may have been started as root. Why this shape: everything that needs a
 * privilege (sockets' paths, ports) happens before; then user and capabilities go; then a filter allows what the library says
 * that it calls (pagehint_syscalls) and the few that the program makes itself. Workers add a narrower filter.
 * Owns nothing.
 */
#ifndef BALLOON_CONFINE_H
#define BALLOON_CONFINE_H

enum confine_who { CONFINE_KEEPER, CONFINE_WORKER };

/*
 * As root: becomes `user` and loses every capability; "root" keeps the user. Otherwise loses capabilities that it has.
 * Return: 0; -ENOENT no such user; -EPERM, -errno.
 */
int confine_privileges(const char *user);

/* Any other system call is the end of the process from now on. Return: 0; -errno. */
int confine_calls(enum confine_who who);

#endif
