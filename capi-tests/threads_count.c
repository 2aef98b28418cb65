/* 32 threads retain, share and release one owner for two seconds; nothing is lost.
 * run: plain asan valgrind */
#define _POSIX_C_SOURCE 200809L
#include "cai_test.h"

#include <pthread.h>
#include <time.h>

enum { THREADS = 32 };

static cai_array shared_array;
static unsigned long long rounds[THREADS];
static struct timespec end;

static bool over(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
}

static void *work(void *argument) {
    unsigned long long *count = argument;
    do {
        for (int i = 0; i < 256; i++) {
            cai_array mine = CAI_ARRAY_INIT, copy = CAI_ARRAY_INIT;
            ASSERT(cai_array_share(&shared_array, &mine, NULL) == CAI_OK);
            ASSERT(cai_array_retain(&mine, NULL) == CAI_OK);
            ASSERT(cai_array_share(&mine, &copy, NULL) == CAI_OK);
            cai_owner_release(mine.owner);
            cai_inline_release(&mine);
            ASSERT(cai_array_validate(&copy, CAI_CHECK_LAYOUT, NULL) == CAI_OK);
            cai_array_release(&copy);
            ++*count;
        }
    } while (!over());
    /* Each thread was started with a reference. */
    cai_owner_release(shared_array.owner);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int destroyed = 0, i;
    unsigned long long total = 0;
    cai_array description = valid_array();
    shared_array.struct_size = sizeof(shared_array);
    ASSERT_STATUS(CAI_OK,
                  cai_array_create(&description, &destroyed, count_destroy, &shared_array, NULL));
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 2;
    for (i = 0; i < THREADS; i++) {
        ASSERT_STATUS(CAI_OK, cai_array_retain(&shared_array, NULL));
        ASSERT(pthread_create(&threads[i], NULL, work, &rounds[i]) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        ASSERT(pthread_join(threads[i], NULL) == 0);
        ASSERT(rounds[i] >= 256);
        total += rounds[i];
    }
    ASSERT(destroyed == 0);
    cai_array_release(&shared_array);
    ASSERT(destroyed == 1);
    printf("%llu rounds\n", total);
    return 0;
}
