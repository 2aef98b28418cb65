/* Ends the program where a call fails. */
#ifndef OK_H
#define OK_H

#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                                     \
    do {                                                                             \
        const int result_ = (int)(call);                                             \
        if (result_ != 0) {                                                          \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, result_); \
            exit(2);                                                                 \
        }                                                                            \
    } while (0)

#endif
