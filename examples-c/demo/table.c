/* The demo's tables: see table.h. */
#include "table.h"

#include <stdio.h>
#include <string.h>

enum { MARGIN = 4, ROWS = 160, WIDEST_CELL = 26, LINE = 80 };

static const char *alignment;
static int columns, row_count; /* the first row has the titles */
static struct {
    const char *mark;
    char cells[TABLE_COLUMNS][TABLE_CELL];
} rows[ROWS];

static int starts_character(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

static int width(const char *text) {
    int n = 0;
    for (; *text != '\0'; text++) {
        n += starts_character(*text);
    }
    return n;
}

/* Shortens a cell and replaces control characters, because names come from files. */
static void tidy(char *cell) {
    int too_wide = width(cell) > WIDEST_CELL, n = 0;
    for (; *cell != '\0'; cell++) {
        n += starts_character(*cell);
        if (too_wide && n == WIDEST_CELL) {
            strcpy(cell, "…");
            return;
        }
        if ((unsigned char)*cell < ' ' || *cell == 127) {
            *cell = '?';
        }
    }
}

void table_begin(const char *const *titles, const char *align) {
    char (*cells)[TABLE_CELL];
    alignment = align;
    row_count = 0;
    cells = table_row(" ");
    for (columns = 0; columns < TABLE_COLUMNS && titles[columns] != NULL; columns++) {
        snprintf(cells[columns], TABLE_CELL, "%s", titles[columns]);
    }
}

char (*table_row(const char *mark)) [TABLE_CELL] {
    int row = row_count < ROWS ? row_count++ : ROWS - 1;
    memset(&rows[row], 0, sizeof(rows[row]));
    rows[row].mark = mark;
    return rows[row].cells;
}

static void print_blanks(int count) {
    printf("%*s", count > 0 ? count : 0, "");
}

static int last_filled(int row) {
    int column, last = 0;
    for (column = 0; column < columns; column++) {
        last = rows[row].cells[column][0] != '\0' ? column : last;
    }
    return last;
}

/* No blanks behind the last cell. */
static void print_cells(char (*cells)[TABLE_CELL], int last, const int *widths) {
    for (int column = 0; column <= last; column++) {
        int blanks = widths[column] - width(cells[column]);
        print_blanks(alignment[column] == '>' ? 2 + blanks : 2);
        printf("%s", cells[column]);
        print_blanks(alignment[column] == '>' || column == last ? 0 : blanks);
    }
    printf("\n");
}

/* The widths of all columns; returns how wide they are together. */
static int measure(int *widths) {
    int total = -2, column, row;
    for (column = 0; column < columns; column++) {
        widths[column] = 0;
        for (row = 0; row < row_count; row++) {
            int wide = width(rows[row].cells[column]);
            widths[column] = wide > widths[column] ? wide : widths[column];
        }
        total += widths[column] + 2;
    }
    return total;
}

void table_print(void) {
    int widths[TABLE_COLUMNS], total, column, row;
    for (row = 0; row < row_count; row++) {
        for (column = 0; column < columns; column++) {
            tidy(rows[row].cells[column]);
        }
    }
    total = measure(widths);
    for (row = 0; row < row_count; row++) {
        printf(" %s", rows[row].mark);
        print_cells(rows[row].cells, last_filled(row), widths);
        if (row == 0) {
            print_blanks(MARGIN);
            for (column = 0; column < total; column++) {
                printf("─");
            }
            printf("\n");
        }
    }
}

void print_wrapped(const char *text, int indent) {
    int at = 0;
    print_blanks(indent);
    while (*text != '\0') {
        int word = (int)strcspn(text, " ");
        if (at > 0 && indent + at + 1 + word > LINE) {
            printf("\n");
            print_blanks(indent);
            at = 0;
        }
        at += printf("%s%.*s", at > 0 ? " " : "", word, text);
        text += word;
        text += strspn(text, " ");
    }
    printf("\n");
}
