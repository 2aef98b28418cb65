/* A program that carries a runtime library, and loads plug-ins with one: some again and again, some
 * on several threads. Prints what works. */
#include "inside.c"
#include <dlfcn.h>
#include <pthread.h>

/* A library that the program is linked to, and whose constructor runs before the program's. */
int plugin_works(void);

static int started;

__attribute__((constructor)) static void start(void) { started = carried(1); }

static int load(const char *path, int flags) {
    void *plugin = dlopen(path, flags);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 0;
    }
    int (*works)(void) = (int (*)(void))dlsym(plugin, "plugin_works");
    const int result = works != NULL && works();
    dlclose(plugin);
    return result;
}

static void *thread(void *path) {
    for (int round = 0; round < 50; round++) {
        if (!load(path, RTLD_NOW | RTLD_LOCAL) || !carried(1)) return path;
    }
    return NULL;
}

int main(int count, char **paths) {
    int plugins = 1;
    for (int round = 0; round < 100 && count > 1; round++) {
        for (int i = 1; i < count; i++)
            plugins = plugins && load(paths[i], round % 2 ? RTLD_LAZY : RTLD_NOW);
    }
    pthread_t threads[8];
    for (int i = 0; i < 8 && count > 1; i++)
        pthread_create(&threads[i], NULL, thread, paths[1 + i % (count - 1)]);
    int on_threads = 1;
    for (int i = 0; i < 8 && count > 1; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        on_threads = on_threads && failed == NULL;
    }
    printf("start %d main %d library %d plugins %d threads %d\n", started, carried(2),
           plugin_works(), plugins, on_threads);
    return 0;
}
