/* Loads two plug-ins, each with its own copy of the library, and passes arrays both ways.
 * run: by tests/programs/special.rs */
#include "cai_test.h"

#include <dlfcn.h>

typedef struct {
    void (*make)(cai_array *, int *);
    void (*keep)(const cai_array *);
    void (*let_go)(void);
    const void *(*code)(void);
} plugin;

static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    ASSERT(found != NULL);
    memcpy(function, &found, sizeof(found));
}

static plugin load(const char *path) {
    plugin p;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    ASSERT(library != NULL);
    find(library, "plugin_make", &p.make);
    find(library, "plugin_keep", &p.keep);
    find(library, "plugin_let_go", &p.let_go);
    find(library, "plugin_code", &p.code);
    return p;
}

static void pass(const plugin *from, const plugin *to, bool maker_lets_go_last) {
    int destroyed = 0;
    cai_array array = CAI_ARRAY_INIT;
    from->make(&array, &destroyed);
    to->keep(&array);
    if (maker_lets_go_last) {
        to->let_go();
        ASSERT(destroyed == 0);
        cai_inline_release(&array);
    } else {
        cai_inline_release(&array);
        ASSERT(destroyed == 0);
        to->let_go();
    }
    ASSERT(destroyed == 1);
}

int main(int argc, char **argv) {
    ASSERT(argc == 3);
    plugin a = load(argv[1]);
    plugin b = load(argv[2]);
    ASSERT(a.code() != b.code()); /* two copies indeed */
    pass(&a, &b, true);
    pass(&a, &b, false);
    pass(&b, &a, true);
    pass(&b, &a, false);
    return 0;
}
