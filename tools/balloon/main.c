/* pagehint-balloon: a virtio-balloon device in a process of its own, for frontends that speak vhost-user. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "confine.h"
#include "keeper.h"
#include "listen.h"
#include "options.h"
#include "state.h"

static int complain(const char *what, int r)
{
	fprintf(stderr, "pagehint-balloon: %s: %s\n", what, strerror(-r));
	return 1;
}

/* Opens what was asked for. Return: 0; 1 and it is said why not. */
static int open_sockets(const struct balloon_options *o, struct keeper_sockets *sockets)
{
	*sockets = (struct keeper_sockets) { -1, -1, -1 };
	sockets->frontend = listen_path(o->socket);
	if (sockets->frontend < 0)
		return complain(o->socket, sockets->frontend);
	if (o->control != NULL && (sockets->control = listen_path(o->control)) < 0)
		return complain(o->control, sockets->control);
	if (o->metrics != NULL && (sockets->metrics = listen_anywhere(o->metrics)) < 0)
		return complain(o->metrics, sockets->metrics);
	return 0;
}

/* json-c takes its seed from the system when it makes its first object: before there is a filter. */
static void warm_up(void)
{
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "seed", json_object_new_boolean(1));
	json_object_put(object);
}

/* Without a privilege that may be impossible; the next start takes over what is left. */
static void unlink_sockets(const struct balloon_options *o)
{
	unlink(o->socket);
	if (o->control != NULL)
		unlink(o->control);
	if (o->metrics != NULL && strchr(o->metrics, '/') != NULL)
		unlink(o->metrics);
}

int main(int argc, char **argv)
{
	struct balloon_options options;
	struct keeper_sockets sockets;
	int r = balloon_options_parse(argc, argv, &options, stdout, stderr);
	if (r != BALLOON_PARSED)
		return r == BALLOON_HELP ? 0 : 2;
	if (open_sockets(&options, &sockets) != 0)
		return 1;
	struct balloon_state *state = state_new(&options);
	if (state == NULL)
		return complain("state", -ENOMEM);
	warm_up();
	r = confine_privileges(options.user);
	if (r != 0)
		return complain(options.user, r);
	r = keeper_run(&options, state, &sockets);
	unlink_sockets(&options);
	return r;
}
