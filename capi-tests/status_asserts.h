/*
 * Assertions about calls that return a status or a code of the driver. A call of the library has
 * `error` as its last argument.
 */
#ifndef STATUS_ASSERTS_H
#define STATUS_ASSERTS_H

#include "cai_test.h"

#define CU(call)                                                     \
    do {                                                             \
        CUresult result_ = (call);                                   \
        if (result_ != CUDA_SUCCESS) FAIL("%s: %d", #call, result_); \
    } while (0)

/* A call that must succeed. sync_test.h replaces it. */
#define OK(call)                                        \
    do {                                                \
        cai_error why_;                                 \
        cai_error *error = &why_;                       \
        if ((call) != CAI_OK) FAIL("%s", why_.message); \
    } while (0)

/* A call that must be refused, with the field that is to blame. */
#define REFUSED(status, path, call)    \
    do {                               \
        cai_error why_;                \
        cai_error *error = &why_;      \
        memset(&why_, 0, sizeof why_); \
        ASSERT_STATUS(status, call);   \
        ASSERT(why_.code == (status)); \
        ASSERT_TEXT(path, why_.field); \
    } while (0)

#endif
