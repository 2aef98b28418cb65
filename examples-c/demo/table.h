/*
 * Prints the tables of `make demo`, with columns that are as wide as their widest cell.
 */
#ifndef DEMO_TABLE_H
#define DEMO_TABLE_H

enum { TABLE_COLUMNS = 8, TABLE_CELL = 128 };

/* Starts a table. `titles`: a name for each column, then NULL. `align`: '<' or '>' for each. */
void table_begin(const char *const *titles, const char *align);

/* Adds a row that begins with a mark. Returns its empty cells. */
char (*table_row(const char *mark))[TABLE_CELL];

void table_print(void);

/* Prints a text in lines that fit a terminal, indented by `indent` spaces. */
void print_wrapped(const char *text, int indent);

#endif
