/* A plug-in that uses its runtime library while it is loaded. */
#include "inside.c"

static int worked;

__attribute__((constructor)) static void start(void) { worked = carried(1); }

int plugin_works(void) { return worked && carried(3); }
