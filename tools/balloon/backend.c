/* The backend and the use of hints in the program as it is installed: the library's own, and none. */
#include "engine.h"

int (*const engine_backend)(void *ctx, struct pagehint_map *map, struct pagehint_gate *gate,
			    struct pagehint_backend **ret_backend) = NULL;
void (*const engine_hinted)(uint32_t id, const struct pagehint_run *runs, uint32_t n) = NULL;
