#include <pagehint/pagehint.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *pagehint_version(void)
{
	return TEXT(PAGEHINT_VERSION_MAJOR) "." TEXT(PAGEHINT_VERSION_MINOR) "." TEXT(PAGEHINT_VERSION_PATCH);
}

uint64_t pagehint_features(void)
{
	return PAGEHINT_FEATURE_MADVISE | PAGEHINT_FEATURE_PAGER;
}
