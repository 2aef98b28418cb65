// Race programs that are one row of text each, in cuda-sim/tests/litmus/<theme>.txt:
//
//     # Record after the write, wait before the read: ordered.
//     event_between correct: p=mem a=nb b=nb e=ev; w a p; rec e a; wait b e; r b p
//
// A row has a name, the expected result (racy, racy2 for exactly two reports, correct, or remark
// for one whose report has remarks, which do not count), and statements. Lines that are indented
// continue the row. A statement is a verb with its arguments, a group of declarations, or
// `3x(...)`, which repeats statements, `thread(...)`, which runs them in another host thread, or
// `go(...)`, which does not wait for that thread: `join` does, and the end of the row.
// `fails 900 sync s` is a call that the driver refuses with this status.
// `name=maker:argument:argument` declares; verbs and makers are listed in litmus_verbs.h. A name
// that is declared again is another object. Numbers may be sums, products and remainders, of
// N = 1024 as well: `p+N`, `2*N`. A number of bytes that is left out is N. The streams L, P and 0
// are the legacy stream, the per-thread stream and NULL; H is the host in place of a stream for
// `take` and `give`.
// What is not understood ends the program with status 2.
//
// The line `needs 12.8` keeps the rows up to the next such line for headers from that version on.
#include "litmus.h"
#include "litmus_verbs.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>

enum { MAX_ARGUMENTS = 8, MAX_NAMES = 48, MAX_NAME = 64, MAX_STATEMENT = 512 };

// --- names and numbers ---

struct object {
    char name[MAX_NAME], kind;
    uint64_t value;
};

static struct object objects[MAX_NAMES] = {
    {"N", 'n', N},
    {"L", 's', HANDLE(CU_STREAM_LEGACY)},
    {"P", 's', HANDLE(CU_STREAM_PER_THREAD)},
    {"H", 's', HANDLE(CUDASIM_HOST)},
};
static size_t object_count = 4;
static char running[MAX_NAME * 2];
static _Thread_local char statement[MAX_STATEMENT];

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: %s: ", running, statement);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(2);
}

static struct object *find(const char *name) {
    for (size_t i = 0; i < object_count; ++i) {
        if (strcmp(objects[i].name, name) == 0) return &objects[i];
    }
    return NULL;
}

static void declare(const char *name, char kind, uint64_t value) {
    struct object *at = find(name);
    if (at == NULL) {
        if (object_count == MAX_NAMES) fail("more than %d names", MAX_NAMES);
        at = &objects[object_count++];
        snprintf(at->name, sizeof at->name, "%s", name);
    } else if (at < objects + 4) {
        fail("%s has a meaning of its own", name);
    }
    at->kind = kind;
    at->value = value;
}

// A number or a name, and the products of such. The kind of a sum is that of its first name.
static uint64_t atom(const char **text, char *kind) {
    char word[MAX_NAME];
    size_t n = 0;
    while (isalnum((unsigned char)(*text)[n]) || (*text)[n] == '_')
        ++n;
    if (n == 0 || n >= sizeof word) fail("expected a name or a number at \"%s\"", *text);
    memcpy(word, *text, n);
    word[n] = '\0';
    *text += n;
    if (isdigit((unsigned char)word[0])) {
        char *end_of_number;
        const uint64_t value = strtoull(word, &end_of_number, 0);
        if (*end_of_number != '\0') fail("%s is no number", word);
        return value;
    }
    const struct object *object = find(word);
    if (object == NULL) fail("nothing is called %s", word);
    if (object->kind != 'n') *kind = object->kind;
    return object->value;
}

static uint64_t product(const char **text, char *kind) {
    uint64_t value = atom(text, kind);
    while (**text != '\0' && strchr("*/%", **text) != NULL) {
        const char operation = *(*text)++;
        const uint64_t other = atom(text, kind);
        if (operation != '*' && other == 0) fail("division by 0");
        value = operation == '*' ? value * other : operation == '/' ? value / other : value % other;
    }
    return value;
}

static uint64_t sum(const char *text, char *kind) {
    uint64_t value = *text == '-' ? 0 : product(&text, kind);
    while (*text == '+' || *text == '-') {
        const char operation = *text++;
        const uint64_t other = product(&text, kind);
        value = operation == '+' ? value + other : value - other;
    }
    if (*text != '\0') fail("unexpected \"%s\"", text);
    return value;
}

// --- statements ---

static _Thread_local int expected; // status of the driver's call of a verb

#undef CHECK
#define CHECK(call)                                                   \
    do {                                                              \
        const int result = (int)(call);                               \
        if (result != expected) fail("%s: result %d", #call, result); \
        expected = 0;                                                 \
    } while (0)

#define DEFINE_MAKER(name, kind, takes, value)       \
    static uint64_t make_##name(const uint64_t *a) { \
        (void)a;                                     \
        return value;                                \
    }
#define DEFINE_VERB(name, takes, action)           \
    static uint64_t do_##name(const uint64_t *a) { \
        (void)a;                                   \
        action;                                    \
        return 0;                                  \
    }
#define MAKER_ENTRY(name, kind, takes, value) {#name, kind, takes, make_##name},
#define VERB_ENTRY(name, takes, action) {#name, 0, takes, do_##name},

MAKERS(DEFINE_MAKER)
VERBS(DEFINE_VERB)

static const struct entry {
    const char *name;
    char makes;
    const char *takes;
    uint64_t (*call)(const uint64_t *arguments);
} makers[] = {MAKERS(MAKER_ENTRY)}, verbs[] = {VERBS(VERB_ENTRY)};

static void argument(const struct entry *entry, size_t i, char *word, uint64_t *out) {
    const char wanted = entry->takes[i];
    char kind = 'n';
    *out = sum(word, &kind);
    const int fits = wanted == 'N' || wanted == 'D' ? kind == 'n'
                     : wanted == 'K'                ? kind == 'k'
                     : wanted == 'p'                ? kind == 'p' || kind == 'h'
                     : wanted == 's'                ? kind == 's' || strcmp(word, "0") == 0
                                                    : kind == wanted;
    if (!fits) fail("%s takes \"%s\", and %s is of kind %c", entry->name, entry->takes, word, kind);
}

// Calls the entry of this name with the words that follow, which `separator` divides.
static uint64_t call(const struct entry *entries, size_t count, char *text, const char *separator,
                     char *makes) {
    uint64_t arguments[MAX_ARGUMENTS] = {0};
    char *rest, *word = strtok_r(text, separator, &rest);
    const struct entry *entry = NULL;
    for (size_t i = 0; word != NULL && i < count; ++i) {
        if (strcmp(entries[i].name, word) == 0) entry = &entries[i];
    }
    if (entry == NULL) fail("unknown: %s", word == NULL ? "(nothing)" : word);
    const size_t takes = strlen(entry->takes);
    size_t given = 0;
    while ((word = strtok_r(NULL, separator, &rest)) != NULL) {
        if (given == takes)
            fail("%s takes \"%s\", found %s as well", entry->name, entry->takes, word);
        argument(entry, given, word, &arguments[given]);
        ++given;
    }
    for (; given < takes; ++given) {
        if (strchr("NDK", entry->takes[given]) == NULL)
            fail("%s takes \"%s\", found %zu", entry->name, entry->takes, given);
        arguments[given] = entry->takes[given] == 'N' ? N : 0;
    }
    *makes = entry->makes;
    uint64_t result;
    do {
        again = 0;
        result = entry->call(arguments);
    } while (again);
    return result;
}

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static int tracing;

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
enum { PER_THREAD = 1 };
#else
enum { PER_THREAD = 0 };
#endif

static void run_statement(void) {
    char text[MAX_STATEMENT], kind;
    if (tracing) fprintf(stderr, "%s: %s\n", running, statement);
    memcpy(text, statement, sizeof text);
    if (strchr(text, '=') == NULL) {
        int verb = 0;
        sscanf(text, "fails %d %n", &expected, &verb);
        call(verbs, COUNT(verbs), text + verb, " ", &kind);
        if (expected != 0) fail("no call to fail");
        return;
    }
    char *rest;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (value == NULL || value == word || !isalpha((unsigned char)*word))
            fail("%s is no declaration", word);
        *value++ = '\0';
        const uint64_t made = call(makers, COUNT(makers), value, ":", &kind);
        declare(word, kind, made);
    }
}

static void run_block(const char *at, const char *end_of_block);

static void *run_inner(void *block) {
    const char *const *ends = block;
    run_block(ends[0], ends[1]);
    return NULL;
}

static void start_thread(const char *block, const char *end_of_block) {
    static const char *ends[MAX_THREADS][2];
    if (thread_count == MAX_THREADS) fail("more than %d threads", MAX_THREADS);
    ends[thread_count][0] = block;
    ends[thread_count][1] = end_of_block;
    threads[thread_count] = start(run_inner, ends[thread_count]);
    ++thread_count;
}

// Runs the statements up to `end_of_block`; parentheses repeat them, or run them in a thread.
static void run_block(const char *at, const char *end_of_block) {
    while (at < end_of_block) {
        at += strspn(at, " ;");
        if (at >= end_of_block) return;
        char *after;
        const unsigned long times = strtoul(at, &after, 10);
        size_t n = strcspn(at, ";)");
        const int waits = strncmp(at, "thread(", 7) == 0,
                  threaded = waits || strncmp(at, "go(", 3) == 0;
        if (threaded || (after != at && strncmp(after, "x(", 2) == 0)) {
            const char *inner = strchr(at, '(') + 1, *close = strchr(inner, ')');
            snprintf(statement, sizeof statement, "%.*s", (int)n, at);
            if (times == 0 && !threaded) fail("repeated 0 times");
            if (close == NULL || close >= end_of_block) fail("no \")\"");
            if (threaded) start_thread(inner, close);
            if (waits) join();
            for (unsigned long i = 0; i < times; ++i)
                run_block(inner, close);
            at = close + 1;
            continue;
        }
        if (at + n > end_of_block) n = (size_t)(end_of_block - at);
        snprintf(statement, sizeof statement, "%.*s", (int)n, at);
        if (n >= sizeof statement) fail("a statement of %zu characters", n);
        run_statement();
        at += n;
        if (at < end_of_block && *at == ')') fail("\")\" without \"(\"");
    }
}

// --- rows ---

static const char *row;

static void run_row(void) {
    CHECK(pthread_barrier_init(&barrier, NULL, 2));
    CHECK(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE));
    CHECK(mtx_init(&c_mutex, mtx_plain) != thrd_success);
    run_block(row, row + strlen(row));
    join();
}

static int visit_row(const char *theme, char *text, litmus_visitor *visit) {
    static char result[16];
    char name[MAX_NAME];
    int body = 0;
    if (text[0] == '\0') return 0;
    if (sscanf(text, "%63[a-z_0-9] %15[a-z0-9]: %n", name, result, &body) != 2 || body == 0) {
        snprintf(running, sizeof running, "%s", theme);
        snprintf(statement, sizeof statement, "%.60s", text);
        fail("expected \"name racy: ...\" or \"name correct: ...\"");
    }
    snprintf(running, sizeof running, "%s/%s", theme, name);
    snprintf(statement, sizeof statement, "%s", result);
    const int racy =
        strncmp(result, "racy", 4) == 0 && result[4 + strspn(result + 4, "123456789")] == '\0';
    if (!racy && strcmp(result, "correct") != 0 && strcmp(result, "remark") != 0)
        fail("neither racy nor correct");
    row = text + body;
    if (row[strspn(row, " ;")] == '\0') fail("no statements");
    return visit(theme, &(struct race_program){name, run_row, result});
}

static int visit_file(const char *folder, const char *file, litmus_visitor *visit) {
    static char line[4096], text[8192];
    char path[4096 + 256], theme[MAX_NAME];
    int done = 0, kept = 1;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    snprintf(theme, sizeof theme, "%.*s", (int)strcspn(file, "."), file);
    FILE *rows = fopen(path, "r");
    CHECK(rows == NULL);
    text[0] = '\0';
    while (!done && fgets(line, sizeof line, rows) != NULL) {
        unsigned major, minor;
        CHECK(strchr(line, '\n') == NULL);
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0') continue;
        if (line[0] == ' ') {
            CHECK(strlen(text) + strlen(line) >= sizeof text);
            strcat(text, line);
            continue;
        }
        if (kept) done = visit_row(theme, text, visit);
        text[0] = '\0';
        if (sscanf(line, "needs %u.%u", &major, &minor) == 2) {
            kept = CUDA_VERSION >= major * 1000 + minor * 10;
        } else {
            strcpy(text, line);
        }
    }
    if (!done && kept) done = visit_row(theme, text, visit);
    fclose(rows);
    return done;
}

int litmus_visit_row(const char *text, litmus_visitor *visit) {
    static char copy[4096];
    snprintf(copy, sizeof copy, "%s", text);
    return visit_row("row", copy, visit);
}

int litmus_visit(litmus_visitor *visit, int trace) {
    static const char here[] = __FILE__;
    char folder[4096];
    struct dirent **files;
    int done = 0;
    tracing = trace;
    snprintf(folder, sizeof folder, "%.*s../litmus", (int)(sizeof here - sizeof "litmus.c"), here);
    const int count = scandir(folder, &files, NULL, alphasort);
    CHECK(count < 0);
    for (int i = 0; i < count; ++i) {
        const char *ending = strrchr(files[i]->d_name, '.');
        const int per_thread = strcmp(files[i]->d_name, "per_thread.txt") == 0;
        if (!done && ending != NULL && strcmp(ending, ".txt") == 0 && per_thread == PER_THREAD)
            done = visit_file(folder, files[i]->d_name, visit);
        free(files[i]);
    }
    free(files);
    return done;
}
