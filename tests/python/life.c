/* Interpreters that begin, end and begin again while arrays of theirs are held.

       life LIBPYTHON local|global CASE

   Python is loaded at run time, so that one program serves every version. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cai/cai.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

typedef struct _object PyObject;
typedef struct {
    int use_main_obmalloc, allow_fork, allow_exec, allow_threads, allow_daemon_threads,
        check_multi_interp_extensions, gil;
} PyInterpreterConfig;
typedef struct {
    int type;
    const char *message, *function;
    int code;
} PyStatus;

static void *python;

#define CALL(result, name, ...) ((result (*)(__VA_ARGS__))look_up(name))

static void *look_up(const char *name) {
    void *found = dlsym(python, name);
    if (!found) fprintf(stderr, "no %s\n", name);
    CHECK(found);
    return found;
}

static void initialize(void) { CALL(void, "Py_InitializeEx", int)(0); }

static void finalize(void) { CHECK(CALL(int, "Py_FinalizeEx", void)() == 0); }

static void *save(void) { return CALL(void *, "PyEval_SaveThread", void)(); }

static void restore(void *state) { CALL(void, "PyEval_RestoreThread", void *)(state); }

static void run(const char *text) {
    CHECK(CALL(int, "PyRun_SimpleString", const char *)(text) == 0);
}

static void decref(PyObject *object) { CALL(void, "Py_DecRef", PyObject *)(object); }

static PyObject *global(const char *name) {
    PyObject *module = CALL(PyObject *, "PyImport_AddModule", const char *)("__main__");
    CHECK(module);
    return CALL(PyObject *, "PyObject_GetAttrString", PyObject *, const char *)(module, name);
}

static long number(const char *name) {
    PyObject *object = global(name);
    CHECK(object);
    long value = CALL(long, "PyLong_AsLong", PyObject *)(object);
    decref(object);
    return value;
}

static const char SETUP[] =
    "import sys\n"
    "gone = 0\n"
    "class Array:\n"
    "    def __init__(self):\n"
    "        self.ballast = [object() for _ in range(10)]\n"
    "        self.__cuda_array_interface__ = dict(shape=(2, 3), typestr='<f4',\n"
    "            data=(0x70000000, False), version=3)\n"
    "    def __del__(self):\n"
    "        global gone\n"
    "        gone += 1\n";

static cai_status take_object(PyObject *object, cai_array *out) {
    cai_error error;
    *out = (cai_array)CAI_ARRAY_INIT;
    cai_status status = cai_array_from_python(object, NULL, out, &error);
    if (status != CAI_OK && status != CAI_ERR_PYTHON_LOCK && status != CAI_ERR_NO_PYTHON)
        fprintf(stderr, "%d %s\n", status, error.message);
    return status;
}

static PyObject *make(void) {
    PyObject *type = global("Array");
    CHECK(type);
    PyObject *object =
        CALL(PyObject *, "PyObject_CallFunction", PyObject *, const char *, ...)(type, NULL);
    CHECK(object);
    decref(type);
    return object;
}

static cai_array take(void) {
    cai_array array;
    PyObject *object = make();
    CHECK(take_object(object, &array) == CAI_OK);
    CHECK(array.ndim == 2 && array.shape[1] == 3);
    decref(object);
    return array;
}

#define MANY 200
static cai_array arrays[MANY];
static atomic_int next_array;

static void *release_all(void *wait) {
    int index;
    while ((index = atomic_fetch_add(&next_array, 1)) < MANY) {
        cai_array_release(&arrays[index]);
        if (wait && index % 4 == 0) usleep((useconds_t)(size_t)wait);
    }
    return NULL;
}

static void take_many(void) {
    for (int index = 0; index < MANY; index++)
        arrays[index] = take();
    atomic_store(&next_array, 0);
}

/* Whatever was left by other threads goes at the next call, at the latest. */
static void collect(void) {
    cai_array array = take();
    cai_array_release(&array);
}

static void again(void) {
    for (int life = 0; life < 4; life++) {
        initialize();
        run(SETUP);
        cai_array first = take(), exported;
        PyObject *object = NULL;
        CHECK(cai_array_to_python(&first, NULL, &object, NULL) == CAI_OK && object);
        CHECK(take_object(object, &exported) == CAI_OK);
        decref(object);
        cai_array_release(&exported);
        cai_array late = take();
        if (life % 2) cai_array_release(&first);
        finalize();
        if (life % 2 == 0) cai_array_release(&first);
        cai_array *kept = &arrays[life];
        *kept = late;
    }
    initialize();
    run(SETUP);
    /* Arrays of interpreters that are gone, while another lives, known to the library or not. */
    cai_array_release(&arrays[0]);
    collect();
    cai_array_release(&arrays[1]);
    void *state = save();
    cai_array_release(&arrays[2]);
    restore(state);
    collect();
    CHECK(number("gone") == 2);
    finalize();
    cai_array_release(&arrays[3]);
}

static void threads(int when) {
    initialize();
    run(SETUP);
    take_many();
    pthread_t workers[4];
    for (int index = 0; index < 4; index++)
        if (when < 2)
            pthread_create(&workers[index], NULL, release_all, (void *)(size_t)(when ? 150 : 0));
    if (when == 0) {
        void *state = save();
        for (int index = 0; index < 4; index++)
            pthread_join(workers[index], NULL);
        restore(state);
        collect();
        CHECK(number("gone") == MANY + 1);
    }
    finalize();
    for (int index = 0; index < 4; index++) {
        if (when == 2) pthread_create(&workers[index], NULL, release_all, NULL);
        if (when > 0) pthread_join(workers[index], NULL);
    }
    if (when == 1) CHECK(atomic_load(&next_array) >= MANY);
}

static void before(void) { threads(0); }

static void during(void) { threads(1); }

static void after(void) { threads(2); }

/* --- sub-interpreters --- */

static int version(void) {
    int major = 0, minor = 0;
    sscanf(CALL(const char *, "Py_GetVersion", void)(), "%d.%d", &major, &minor);
    return major * 100 + minor;
}

static void *swap(void *state) { return CALL(void *, "PyThreadState_Swap", void *)(state); }

static void *begin_sub(int own_lock) {
    void *state = NULL;
    if (!own_lock) return CALL(void *, "Py_NewInterpreter", void)();
    PyInterpreterConfig config = {0, 0, 0, 1, 0, 1, 2};
    PyStatus status = CALL(PyStatus, "Py_NewInterpreterFromConfig", void **,
                           PyInterpreterConfig *)(&state, &config);
    CHECK(status.type == 0);
    return state;
}

static void *release_one(void *array) {
    cai_array_release(array);
    return NULL;
}

static void release_elsewhere(cai_array *array) {
    pthread_t thread;
    pthread_create(&thread, NULL, release_one, array);
    pthread_join(thread, NULL);
}

static void subs(int own_lock, int first) {
    initialize();
    run(SETUP);
    void *main_state = CALL(void *, "PyThreadState_Get", void)();
    cai_array of_main[4], of_sub[6];
    if (!first)
        for (int index = 0; index < 4; index++)
            of_main[index] = take();
    void *sub = begin_sub(own_lock);
    CHECK(sub);
    run(SETUP);
    for (int index = 0; index < 6; index++)
        of_sub[index] = take();
    if (first) {
        swap(main_state);
        for (int index = 0; index < 4; index++)
            of_main[index] = take();
        swap(sub);
    }
    cai_array_release(&of_sub[0]);
    CHECK(number("gone") == 1);
    release_elsewhere(&of_sub[1]);
    cai_array_release(&of_main[0]);
    collect();
    CHECK(number("gone") == 3);
    /* Without any lock. */
    void *saved = save();
    cai_array_release(&of_sub[2]);
    cai_array_release(&of_main[1]);
    restore(saved);
    collect();
    CHECK(number("gone") == 5);

    swap(main_state);
    collect();
    CHECK(number("gone") == 3);
    cai_array_release(&of_sub[3]);
    cai_array_release(&of_main[2]);
    CHECK(number("gone") == 4);

    swap(sub);
    collect();
    CHECK(number("gone") == 7);
    CALL(void, "Py_EndInterpreter", void *)(sub);
    swap(main_state);
    cai_array_release(&of_sub[4]);
    collect();
    /* Another one, perhaps at the address of the first. */
    sub = begin_sub(own_lock);
    run(SETUP);
    collect();
    CHECK(number("gone") == 1);
    CALL(void, "Py_EndInterpreter", void *)(sub);
    swap(main_state);
    finalize();
    cai_array_release(&of_sub[5]);
    cai_array_release(&of_main[3]);
}

static void sub(void) { subs(0, 0); }

static void sub_first(void) { subs(0, 1); }

static void sub_own(void) {
    if (version() >= 312) {
        subs(1, 0);
        subs(1, 1);
    }
}

/* --- the lock --- */

static void *take_without(void *object) {
    cai_array array;
    PyObject *made = NULL;
    CHECK(take_object(object, &array) == CAI_ERR_PYTHON_LOCK);
    CHECK(cai_array_to_python(&array, NULL, &made, NULL) == CAI_ERR_PYTHON_LOCK && !made);
    return NULL;
}

static void lock(void) {
    cai_array array;
    int nothing = 0;
    CHECK(take_object((PyObject *)&nothing, &array) == CAI_ERR_NO_PYTHON);
    initialize();
    run(SETUP);
    PyObject *object = make();
    for (int round = 0; round < 2; round++) {
        void *state = save();
        CHECK(take_object(object, &array) == CAI_ERR_PYTHON_LOCK);
        restore(state);
        pthread_t thread;
        pthread_create(&thread, NULL, take_without, object);
        pthread_join(thread, NULL);
        /* The second time, after there was a sub-interpreter. */
        void *main_state = CALL(void *, "PyThreadState_Get", void)();
        void *other = begin_sub(0);
        pthread_create(&thread, NULL, take_without, object);
        pthread_join(thread, NULL);
        CALL(void, "Py_EndInterpreter", void *)(other);
        swap(main_state);
        CHECK(take_object(object, &array) == CAI_OK);
        cai_array_release(&array);
    }
    decref(object);
    finalize();
    cai_status status = take_object(object, &array);
    CHECK(status == CAI_ERR_NO_PYTHON || status == CAI_ERR_PYTHON_LOCK);
}

static void *work(void *argument) {
    (void)argument;
    for (int round = 0; round < 100; round++) {
        int state = CALL(int, "PyGILState_Ensure", void)();
        cai_array one = take(), two = take();
        cai_array_release(&one);
        CALL(void, "PyGILState_Release", int)(state);
        cai_array_release(&two);
    }
    return NULL;
}

static void blocked(void) {
    initialize();
    run(SETUP);
    void *state = save();
    pthread_t workers[4];
    for (int index = 0; index < 4; index++)
        pthread_create(&workers[index], NULL, work, NULL);
    for (int index = 0; index < 4; index++)
        pthread_join(workers[index], NULL);
    restore(state);
    collect();
    CHECK(number("gone") == 4 * 200 + 1);
    finalize();
}

/* --- ends --- */

static void child(void) {
    initialize();
    run(SETUP);
    take_many();
    for (int way = 0; way < 4; way++) {
        CALL(void, "PyOS_BeforeFork", void)();
        pid_t pid = fork();
        if (pid == 0) {
            CALL(void, "PyOS_AfterFork_Child", void)();
            if (way == 0) {
                release_all(NULL);
                CHECK(number("gone") == MANY);
            } else if (way == 1) {
                void *state = save();
                release_all(NULL);
                restore(state);
                collect();
                CHECK(number("gone") == MANY + 1);
            } else if (way == 2) {
                finalize();
                release_all(NULL);
            }
            exit(0);
        }
        CALL(void, "PyOS_AfterFork_Parent", void)();
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    finalize();
    release_all(NULL);
}

static void capsule_ends(PyObject *capsule) {
    cai_array_release(
        CALL(void *, "PyCapsule_GetPointer", PyObject *, const char *)(capsule, NULL));
}

static void put_capsule(const char *module, const char *name, cai_array *array) {
    PyObject *capsule = CALL(PyObject *, "PyCapsule_New", void *, const char *,
                             void (*)(PyObject *))(array, NULL, capsule_ends);
    PyObject *to = CALL(PyObject *, "PyImport_AddModule", const char *)(module);
    CHECK(CALL(int, "PyObject_SetAttrString", PyObject *, const char *, PyObject *)(to, name,
                                                                                    capsule) == 0);
    decref(capsule);
}

static void at_the_very_end(void) { cai_array_release(&arrays[3]); }

static int late = -1;

__attribute__((destructor)) static void unload(void) {
    if (late >= 0) cai_array_release(&arrays[late]);
}

/* By objects that the interpreter takes down, by its last functions, by the C library's, and by a
 * destructor.
 */
static void teardown(void) {
    initialize();
    run(SETUP);
    CHECK(CALL(int, "Py_AtExit", void (*)(void))(at_the_very_end) == 0);
    take_many();
    put_capsule("__main__", "held", &arrays[0]);
    put_capsule("sys", "held", &arrays[1]);
    put_capsule("builtins", "held", &arrays[2]);
    put_capsule("libcai_held", "held", &arrays[5]);
    /* The object holds its array's capsule, and the array the object. */
    late = 4;
    finalize();
}

/* The process ends while the interpreter lives, with the lock held. */
static void no_end(void) {
    initialize();
    run(SETUP);
    take_many();
    late = 4;
}

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
    {"again", again},     {"before", before},       {"during", during},     {"after", after},
    {"sub", sub},         {"sub_first", sub_first}, {"sub_own", sub_own},   {"lock", lock},
    {"blocked", blocked}, {"child", child},         {"teardown", teardown}, {"no_end", no_end},
};

int main(int count, char **arguments) {
    cai_array array;
    int nothing = 0;
    CHECK(take_object((PyObject *)&nothing, &array) == CAI_ERR_NO_PYTHON);
    PyObject *made = NULL;
    CHECK(cai_array_to_python(&array, NULL, &made, NULL) == CAI_ERR_NO_PYTHON && !made);
    CHECK(count == 4);
    python =
        dlopen(arguments[1], RTLD_NOW | (strcmp(arguments[2], "local") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!python) fprintf(stderr, "%s\n", dlerror());
    CHECK(python);
    CHECK(take_object((PyObject *)&nothing, &array) == CAI_ERR_NO_PYTHON);
    for (size_t index = 0; index < sizeof CASES / sizeof *CASES; index++) {
        if (strcmp(CASES[index].name, arguments[3]) == 0) {
            CASES[index].run();
            printf("done\n");
            return 0;
        }
    }
    return 1;
}
