// `programs list` lists all; `programs run theme/name` runs one and compares its result: exit
// status 0 as expected, 1 not, 2 an error of the driver or of the program. `programs trace
// theme/name` prints the statements of a row as they run, and `programs row "name racy: ..."` runs
// the row that it is given. Programs are rows (litmus.c).
#include "litmus.h"

static int run_program(const struct race_program *chosen) {
    static char report[64 << 10];
    CHECK(cuInit(0));
    use(primary(0));
    chosen->run();
    const size_t found = cudasim_take_report(report, sizeof report);
    printf("%s%zu races found, %s expected\n", report, found, chosen->expected);
    const int racy = strncmp(chosen->expected, "racy", 4) == 0,
              remark = strcmp(chosen->expected, "remark") == 0;
    // A program with the name "r3_..." must be reported with the rule R3.
    char rule[8] = "";
    const int named = sscanf(chosen->name, "r%2[0-9]", rule) == 1;
    if (named) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, " R%s", rule);
        const char *at = strstr(report, wanted);
        if (at == NULL || strchr(": ", at[strlen(wanted)]) == NULL) {
            printf("the report does not name \"%s\"\n", wanted + 1);
            return 1;
        }
    } else if ((remark || racy) != (report[0] != '\0')) {
        return 1;
    }
    const char *number = chosen->expected + strcspn(chosen->expected, "123456789");
    if (*number != '\0') return found == strtoul(number, NULL, 10) ? 0 : 1;
    return (found > 0) == racy ? 0 : 1;
}

static const char *wanted; // the name of the one to run; all are listed if it is NULL
static int status = 2;

static int visit(const char *theme, const struct race_program *program) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", theme, program->name);
    if (wanted == NULL) {
        printf("%.*s %s\n", (int)strcspn(program->expected, "123456789"), program->expected, name);
        return 0;
    }
    if (strcmp(name, wanted) != 0 && strcmp(theme, "row") != 0) return 0;
    status = run_program(program);
    return 1;
}

static int visit_all(int trace) {
    return litmus_visit(visit, trace) || litmus_visit_per_thread(visit, trace);
}

int main(int argc, char **argv) {
    const int listing = argc == 2 && strcmp(argv[1], "list") == 0;
    const int tracing = argc == 3 && strcmp(argv[1], "trace") == 0;
    if (listing) {
        visit_all(0);
        return 0;
    }
    if (tracing || (argc == 3 && strcmp(argv[1], "run") == 0)) {
        wanted = argv[2];
        if (visit_all(tracing)) return status;
        fprintf(stderr, "no program is called %s\n", wanted);
        return 2;
    }
    if (argc == 3 && strcmp(argv[1], "row") == 0) {
        wanted = "";
        litmus_visit_row(argv[2], visit);
        return status;
    }
    fprintf(stderr, "usage: %s list | run theme/name | trace theme/name | row text\n", argv[0]);
    return 2;
}
