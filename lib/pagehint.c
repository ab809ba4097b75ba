#include <pagehint/pagehint.h>

const char *pagehint_version(void)
{
	return "0.1.0";
}
