/* Loads an extension after other libraries have used up the room for static TLS:
 * late EXTENSION FILLER...
 *
 * run: by tests/python/test_package.py
 */
#include <cai/abi.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static cai_owner *(*make)(int *count);

static void *use(void *count) {
    cai_owner *owner = make(count);
    owner->ops->release(owner);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int count = 0, is_full = 0, i;
    for (i = 2; i < argc; ++i)
        is_full = dlopen(argv[i], RTLD_NOW) == NULL;
    if (!is_full) {
        puts("there is room for all");
        return 1;
    }
    void *extension = dlopen(argv[1], RTLD_NOW);
    if (extension == NULL) {
        puts(dlerror());
        return 1;
    }
    *(void **)&make = dlsym(extension, "extension_owner");
    use(&count);
    if (pthread_create(&thread, NULL, use, &count) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    printf("destroyed %d\n", count);
    return count == 2 ? 0 : 1;
}
