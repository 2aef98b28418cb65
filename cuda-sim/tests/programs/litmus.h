// The rows of cuda-sim/tests/litmus as programs.
#ifndef LITMUS_H
#define LITMUS_H

#include "race_test.h"

// Returns 0 to go on.
typedef int litmus_visitor(const char *theme, const struct race_program *program);

// Visits the rows of all themes. With `trace`, statements that run are printed to stderr.
int litmus_visit(litmus_visitor *visit, int trace);
int litmus_visit_per_thread(litmus_visitor *visit, int trace); // of litmus_per_thread.c

// Visits the row that the text is.
int litmus_visit_row(const char *text, litmus_visitor *visit);

#endif
