/*
 * api.h: the attributes every public header of libpagehint uses. Nothing else lives here.
 *
 * Rules that hold for every header beside this one:
 *  - Fallible functions return 0 or -errno; counts and objects come back through ret_* parameters, which stand last and
 *    are untouched on failure unless the function says otherwise (progress of a call on the outside is always reported).
 *  - Structs start with struct_size. Inputs: a shorter struct is defaulted, a longer one is accepted when its tail is zero,
 *    otherwise -E2BIG. Outputs: as many bytes as the caller has are written. Members are only ever appended.
 *  - No type here has bitfields, enum or bool members, or implicit padding.
 */
#ifndef PAGEHINT_API_H
#define PAGEHINT_API_H

#ifdef __cplusplus
#define PAGEHINT_BEGIN extern "C" {
#define PAGEHINT_END }
#else
#define PAGEHINT_BEGIN
#define PAGEHINT_END
#endif

#define PAGEHINT_API __attribute__((visibility("default")))
#define PAGEHINT_MUST_CHECK __attribute__((warn_unused_result))

#endif
