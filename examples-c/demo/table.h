/*
 * Aligned columns for the demo. Rows are collected first, so that every column is as wide as it
 * must be.
 */
#ifndef DEMO_TABLE_H
#define DEMO_TABLE_H

enum { TABLE_COLUMNS = 8, TABLE_CELL = 128 };

/* Starts a table. `titles`: a name for each column, then NULL. `align`: a '<' or '>' for each. */
void table_begin(const char *const *titles, const char *align);

/* Adds a row, with a mark in front, and gives its cells, which are empty, to be written to. */
char (*table_row(const char *mark))[TABLE_CELL];

void table_print(void);

/* Prints a text behind `indent` blanks, in lines that fit a terminal. */
void print_wrapped(const char *text, int indent);

#endif
