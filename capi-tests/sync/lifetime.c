/* Owners that go when a stream gets there, in unkind surroundings: callbacks that call back, that
 * exit; two copies of the library; forks.
 * run: sim lazy threads; devices 2 */
#include "sync_test.h"

#include <sys/wait.h>

static CUstream stream;
static atomic_int destroyed;

static void release_another(void *unused) {
    cai_owner *owner;
    (void)unused;
    CU(cuCtxSetCurrent(context[0]));
    ASSERT_STATUS(CAI_OK, cai_owner_create(&destroyed, count_destroyed, &owner, NULL));
    ASSERT_STATUS(CAI_OK, cai_owner_release_after(owner, as_value(stream), NULL));
}

CASE(callback_that_releases_another) {
    cai_owner *owner;
    stream = new_stream();
    OK(cai_owner_create(NULL, release_another, &owner, error));
    OK(cai_owner_release_after(owner, as_value(stream), error));
    ASSERT(comes_true(is_one, &destroyed));
}

static void leave(void *unused) {
    (void)unused;
    exit(0);
}

CASE(callback_that_exits) {
    /* On the library's own thread, while the handlers run that stop it. */
    cai_owner *owner;
    stream = new_stream();
    OK(cai_owner_create(NULL, leave, &owner, error));
    OK(cai_owner_release_after(owner, as_value(stream), error));
    sleep(60);
    ASSERT(!"the callback has not run");
}

typedef cai_status (*new_owner)(void *, void (*)(void *), cai_owner **, cai_error *);
typedef cai_status (*release_after)(cai_owner *, cai_stream, cai_error *);

CASE(two_copies_of_the_library) {
    /* Each has a thread of its own, and lets the other's owners go. */
    void *copies[2];
    Dl_info library;
    stream = new_stream();
    ASSERT(dladdr((void *)(uintptr_t)cai_version, &library) != 0);
    for (int i = 0; i < 2; ++i) {
        char path[] = "/tmp/libcai-XXXXXX", command[512];
        const int fd = mkstemp(path);
        ASSERT(fd >= 0);
        snprintf(command, sizeof command, "cp '%s' %s", library.dli_fname, path);
        ASSERT(system(command) == 0);
        copies[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        ASSERT(copies[i] != NULL);
        unlink(path);
        close(fd);
    }
    ASSERT(copies[0] != copies[1]);
    for (int i = 0; i < 4; ++i) {
        new_owner make;
        release_after let_go;
        cai_owner *owner;
        *(void **)&make = dlsym(copies[i % 2], "cai_owner_create");
        *(void **)&let_go = dlsym(copies[i / 2], "cai_owner_release_after");
        atomic_store(&destroyed, 0);
        ASSERT_STATUS(CAI_OK, make(&destroyed, count_destroyed, &owner, NULL));
        ASSERT_STATUS(CAI_OK, let_go(owner, as_value(stream), NULL));
        ASSERT(comes_true(is_one, &destroyed));
    }
    dlclose(copies[0]);
    dlclose(copies[1]);
}

CASE(forks_all_the_time) {
    stream = new_stream();
    for (int i = 0; i < 100; ++i) {
        cai_owner *owner;
        int status = -1;
        OK(cai_owner_create(NULL, NULL, &owner, error));
        OK(cai_owner_release_after(owner, as_value(stream), error));
        pid_t child = fork();
        if (child == 0) {
            if (cai_owner_create(NULL, NULL, &owner, NULL) != CAI_OK) _exit(1);
            if (cai_owner_release_after(owner, as_value(stream), NULL) != CAI_ERR_FORKED) _exit(2);
            if (cai_owner_release_after(owner, CAI_STREAM_NONE, NULL) != CAI_OK) _exit(3);
            exit(0);
        }
        ASSERT(waitpid(child, &status, 0) == child && status == 0);
    }
}

int main(int count, char **words) { return run_cases(count, words); }
