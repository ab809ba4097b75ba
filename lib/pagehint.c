#include <pagehint/pagehint.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *pagehint_version(void)
{
	return TEXT(PAGEHINT_VERSION_MAJOR) "." TEXT(PAGEHINT_VERSION_MINOR) "." TEXT(PAGEHINT_VERSION_PATCH);
}

uint64_t pagehint_features(void)
{
	uint64_t built = PAGEHINT_FEATURE_MADVISE | PAGEHINT_FEATURE_PAGER;
#if !defined(PH_NO_XEN) && (defined(__x86_64__) || defined(__aarch64__)) && UINTPTR_MAX == UINT64_MAX
	built |= PAGEHINT_FEATURE_XEN;
#endif
#ifdef PH_WITH_XENCALL
	built |= PAGEHINT_FEATURE_XENCALL;
#endif
	return built;
}
