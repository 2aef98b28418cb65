/* Closes an extension that made an owner, and releases the owner afterwards.
 * run: by tests/python/test_package.py and test_cpp_ages.py */
#include <cai/abi.h>

#include <dlfcn.h>
#include <stdio.h>

typedef cai_owner *(*new_owner)(int *count);

/* For extensions whose owners do not call them. */
void count_up(void *count);
void count_up(void *count) { ++*(int *)count; }

int main(int argc, char **argv) {
    int count = 0;
    void *extension = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    new_owner make;
    if (extension == NULL) {
        puts(dlerror());
        return 1;
    }
    *(void **)&make = dlsym(extension, "extension_owner");
    cai_owner *owner = make(&count);
    dlclose(extension);
    owner->ops->release(owner);
    printf("destroyed %d\n", count);
    return count == 1 ? 0 : 1;
}
