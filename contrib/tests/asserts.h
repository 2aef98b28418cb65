/* Assertions of the C programs of these tests. */
#ifndef INTEROP_ASSERTS_H
#define INTEROP_ASSERTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASSERT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define CU(call) ASSERT((call) == CUDA_SUCCESS)
#define OK(call)                                                              \
    do {                                                                      \
        cai_error why_;                                                       \
        cai_error *error = &why_;                                             \
        if ((call) != CAI_OK) {                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, why_.message); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)
#define REFUSED(status, path, call)                          \
    do {                                                     \
        cai_error why_;                                      \
        cai_error *error = &why_;                            \
        ASSERT((call) == (status) && why_.code == (status)); \
        ASSERT(strcmp(why_.field, path) == 0);               \
    } while (0)

#endif
