// Arrays whose owner has functions of its own: no library reports when it ends. [cai_owner_ops]
#include "exchange.h"

static struct array foreign(void) {
    struct array a = make_array(alloc(N), make_nonblocking());
    a.flags = CUDASIM_CAI_FOREIGN_OWNER;
    CHECK(cuStreamGetId(stream_of(&a), (unsigned long long *)&a.stream_id));
    return a;
}

// What the last release of such an owner does.
static void end(const struct array *a) {
    CHECK(cuStreamSynchronize(stream_of(a)));
    CHECK(cuStreamDestroy(stream_of(a)));
    CHECK(cuMemFree(a->at));
}

static void last_release_destroys_the_stream(void) {
    struct array a = foreign();
    exports(&a);
    reads_properly(&a, make_nonblocking());
    end(&a);
}

static void address_of_the_owner_comes_back(void) {
    for (int i = 0; i < 3; ++i) {
        struct array a = foreign();
        exports(&a);
        reads_properly(&a, make_nonblocking());
        end(&a);
    }
}

// The end of the memory is the end of the array: its bytes are another's.
static void memory_comes_back(void) {
    struct array a = foreign();
    CUstream s = make_nonblocking();
    exports(&a);
    begins(&a, s, CUDASIM_READ);
    end(&a);
    writes(s, alloc(N), N);
}

static void r6_used_after_its_stream(void) {
    struct array a = foreign();
    exports(&a);
    CHECK(cuStreamDestroy(stream_of(&a)));
    // The library compares the id and refuses.
    notify_refused(CUDASIM_CAI_BEGIN, &a, (uint64_t)(uintptr_t)make_nonblocking(), 1, NULL);
}

static void r6_ended_after_its_stream(void) {
    struct array a = foreign();
    CUstream s = make_nonblocking();
    exports(&a);
    begins(&a, s, CUDASIM_READ);
    CHECK(cuStreamDestroy(stream_of(&a)));
    notify_refused(CUDASIM_CAI_END, &a, (uint64_t)(uintptr_t)s, 1, NULL);
}

static void exported_again_with_another_stream(void) {
    struct array a = foreign();
    exports(&a);
    CHECK(cuStreamDestroy(stream_of(&a)));
    a.stream = (uint64_t)(uintptr_t)make_nonblocking();
    CHECK(cuStreamGetId(stream_of(&a), (unsigned long long *)&a.stream_id));
    exports(&a);
    reads_properly(&a, make_nonblocking());
}

const struct race_program programs_rules_owners[] = {
    CORRECT(last_release_destroys_the_stream),
    CORRECT(address_of_the_owner_comes_back),
    CORRECT(memory_comes_back),
    RACY(r6_used_after_its_stream),
    RACY(r6_ended_after_its_stream),
    CORRECT(exported_again_with_another_stream),
    END_OF_PROGRAMS,
};
