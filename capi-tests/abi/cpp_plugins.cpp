// Loads the shared objects that are its arguments, all of them visible to one another, and uses
// each: every owner must run the code of the object that made it.
// run: by tests/python/test_cpp_ages.py
#include "cpp_ages.h"

#include <cai/abi.hpp>

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

int main(int count, char **paths) {
    const age *plugins[8] = {};
    for (int i = 1; i < count; ++i) {
        void *object = dlopen(paths[i], RTLD_NOW | RTLD_GLOBAL);
        if (object == nullptr) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        plugins[i] = static_cast<const age *>(dlsym(object, "plugin"));
    }
    for (int i = 1; i < count; ++i) {
        Dl_info found;
        const void *code = plugins[i]->code();
        if (dladdr(code, &found) == 0 || std::strcmp(found.dli_fname, paths[i]) != 0) {
            std::fprintf(stderr, "%s uses an owner of %s\n", paths[i], found.dli_fname);
            return 1;
        }
        for (int line : {plugins[i]->use(), plugins[i]->default_stream()}) {
            if (line != 0) return 1;
        }
        for (int j = 1; j < count; ++j) {
            if (plugins[i]->give(plugins[j]->keep) != 0) return 1;
        }
        try {
            if (plugins[i]->refuse() != 0) return 1;
        } catch (const cai::error &error) {
            if (error.code() != CAI_ERR_BORROWED) return 1;
        }
    }
    return 0;
}
