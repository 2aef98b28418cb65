#include "conformance.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST = 512, SKIPPED = 77, SECONDS = 20 };

struct rule {
    const char *theme, *name, *rule, *source;
    rule_function run;
};

static struct rule rules[MOST];
static int count;
static int failures;
CUcontext ctx;

void add_rule(const char *theme, const char *name, const char *rule, const char *source,
              rule_function run) {
    if (count == MOST) abort();
    rules[count++] = (struct rule){theme, name, rule, source, run};
}

void failed(const char *file, int line, const char *what, long long found, long long expected) {
    const char *slash = strrchr(file, '/');
    printf("failed %s:%d: %s: found %lld, expected %lld\n", slash ? slash + 1 : file, line, what,
           found, expected);
    ++failures;
}

void observed(const char *key, long long value) { printf("observed %s %lld\n", key, value); }

void skip(const char *why) {
    printf("skipped %s\n", why);
    fflush(stdout);
    _exit(SKIPPED);
}

CUstream stream(unsigned flags) {
    CUstream made = NULL;
    OK(cuStreamCreate(&made, flags));
    return made;
}

CUevent event(void) {
    CUevent made = NULL;
    OK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    return made;
}

CUdeviceptr device(size_t n) {
    CUdeviceptr made = 0;
    OK(cuMemAlloc(&made, n));
    return made;
}

CUgraph new_graph(void) {
    CUgraph made = NULL;
    OK(cuGraphCreate(&made, 0));
    return made;
}

CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec made = NULL;
    OK(cuGraphInstantiate(&made, graph, 0));
    return made;
}

CUgraphNode add_memset(CUgraph graph, CUdeviceptr p, unsigned value) {
    const CUDA_MEMSET_NODE_PARAMS params = {
        .dst = p, .value = value, .elementSize = 1, .width = N, .height = 1};
    CUgraphNode node = NULL;
    OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, ctx));
    return node;
}

int first_byte(CUdeviceptr p) {
    unsigned char byte = 0;
    OK(cuMemcpyDtoH(&byte, p, 1));
    return byte;
}

void launch(CUgraphExec exec, CUstream a) {
    OK(cuGraphLaunch(exec, a));
    OK(cuStreamSynchronize(a));
}

CUstreamCaptureStatus status(CUstream of) {
    CUstreamCaptureStatus found = (CUstreamCaptureStatus)9;
    OK(cuStreamIsCapturing(of, &found));
    return found;
}

static atomic_int gate;

static void CUDA_CB wait_at_gate(void *data) {
    (void)data;
    while (!atomic_load(&gate))
        usleep(100);
}

void close_gate(CUstream held) {
    atomic_store(&gate, 0);
    OK(cuLaunchHostFunc(held, wait_at_gate, NULL));
}

void open_gate(void) { atomic_store(&gate, 1); }

CUcontext another_context(void) {
    CUcontext made = NULL, popped;
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&made, NULL, 0, 0));
#else
    OK(cuCtxCreate(&made, 0, 0));
#endif
    OK(cuCtxPopCurrent(&popped));
    return made;
}

int devices(void) {
    int n = 0;
    OK(cuDeviceGetCount(&n));
    return n;
}

static int run_here(const struct rule *rule) {
    // Rules about the time before initialization do it themselves.
    if (strcmp(rule->theme, "init") != 0) {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&ctx, 0));
        OK(cuCtxSetCurrent(ctx));
    }
    rule->run();
    fflush(stdout);
    return failures > 0;
}

// Runs one rule in a process of its own; its output comes back as text.
static const char *run_apart(const char *self, const struct rule *rule, char *text,
                             size_t capacity) {
    static char result[32];
    char name[128];
    int fds[2];
    snprintf(name, sizeof name, "%s/%s", rule->theme, rule->name);
    if (pipe(fds) != 0) abort();
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fds[1], 1);
        close(fds[0]);
        close(fds[1]);
        alarm(SECONDS);
        execl(self, self, "run", name, (char *)NULL);
        _exit(126);
    }
    close(fds[1]);
    size_t length = 0;
    for (;;) {
        const ssize_t n = read(fds[0], text + length, capacity - 1 - length);
        if (n > 0) {
            length += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            break;
        }
    }
    text[length] = '\0';
    close(fds[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        snprintf(result, sizeof result, WTERMSIG(status) == SIGALRM ? "timeout" : "crash (%d)",
                 WTERMSIG(status));
        return result;
    }
    switch (WEXITSTATUS(status)) {
    case 0: return "ok";
    case SKIPPED: return "skip";
    default: return "FAIL";
    }
}

static void put_json(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text != '\0'; ++text) {
        if (*text == '"' || *text == '\\') fputc('\\', file);
        if (*text == '\n') {
            fputs("\\n", file);
        } else {
            fputc(*text, file);
        }
    }
    fputc('"', file);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (int i = 0; i < count; ++i) {
            printf("%s/%s: %s [%s]\n", rules[i].theme, rules[i].name, rules[i].rule,
                   rules[i].source);
        }
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "run") == 0) {
        for (int i = 0; i < count; ++i) {
            char name[128];
            snprintf(name, sizeof name, "%s/%s", rules[i].theme, rules[i].name);
            if (strcmp(name, argv[2]) == 0) return run_here(&rules[i]);
        }
        fprintf(stderr, "there is no rule %s\n", argv[2]);
        return 2;
    }
    FILE *json = argc == 3 && strcmp(argv[1], "--json") == 0 ? fopen(argv[2], "w") : NULL;
    int bad = 0, skipped = 0;
    static char text[1 << 16];
    for (int i = 0; i < count; ++i) {
        const char *result = run_apart("/proc/self/exe", &rules[i], text, sizeof text);
        printf("%-10s %s/%s\n%s", result, rules[i].theme, rules[i].name,
               strcmp(result, "ok") == 0 && strcmp(rules[i].theme, "timing") != 0 ? "" : text);
        const int noted = strcmp(rules[i].theme, "undefined") == 0;
        skipped += strcmp(result, "skip") == 0;
        bad += !noted && strcmp(result, "ok") != 0 && strcmp(result, "skip") != 0;
        if (json != NULL) {
            const char *fields[][2] = {{"theme", rules[i].theme}, {"name", rules[i].name},
                                       {"rule", rules[i].rule},   {"source", rules[i].source},
                                       {"result", result},        {"output", text}};
            for (size_t f = 0; f < sizeof fields / sizeof fields[0]; ++f) {
                fputs(f == 0 ? "{" : ", ", json);
                put_json(json, fields[f][0]);
                fputs(": ", json);
                put_json(json, fields[f][1]);
            }
            fputs("}\n", json);
        }
    }
    if (json != NULL) fclose(json);
    printf("%d rule%s, %d failed, %d skipped\n", count, count == 1 ? "" : "s", bad, skipped);
    return bad > 0;
}
