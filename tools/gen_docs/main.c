/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen-docs [--check] FILE...
 *
 * Writes the generated parts of documents anew, between a line that contains "BEGIN GENERATED name"
 * and one that contains "END GENERATED".  With --check, nothing is written: it fails if anything
 * would change.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen_docs/blocks.h"

static const char begin_mark[] = "BEGIN GENERATED ", end_mark[] = "END GENERATED";

static int complain(const char *file, const char *why)
{
        fprintf(stderr, "gen-docs: %s: %s\n", file, why);
        return -1;
}

/* All of a stream, to be freed. */
static char *read_all(FILE *from)
{
        char *text = NULL, buffer[4096];
        size_t size, n;
        FILE *to = open_memstream(&text, &size);

        while (to && (n = fread(buffer, 1, sizeof(buffer), from)) > 0)
                fwrite(buffer, 1, n, to);
        if (!to || fclose(to) != 0 || ferror(from))
                return NULL;
        return text;
}

static char *load(const char *file)
{
        FILE *from = fopen(file, "r");
        char *text = NULL;

        if (from) {
                text = read_all(from);
                fclose(from);
        }
        if (!text)
                complain(file, strerror(errno));
        return text;
}

/* The block that a line begins, or NULL. */
static const struct gen_block *find_block(const char *line, size_t n)
{
        const char *mark = memmem(line, n, begin_mark, strlen(begin_mark));
        const struct gen_block *block;

        if (!mark)
                return NULL;
        mark += strlen(begin_mark);
        for (size_t i = 0; (block = gen_block_at(i)); i++) {
                size_t length = strlen(block->name);

                if (strncmp(mark, block->name, length) == 0 && strchr(" \n", mark[length]))
                        return block;
        }
        return NULL;
}

static bool has_mark(const char *line, size_t n, const char *mark)
{
        return memmem(line, n, mark, strlen(mark)) != NULL;
}

/* Copy a document, its generated parts made anew.  The number of parts, or -1. */
static int copy(const char *file, const char *text, FILE *to)
{
        bool inside = false;
        int parts = 0;

        for (const char *line = text, *next; *line; line = next) {
                const char *newline = strchr(line, '\n');
                const struct gen_block *block;
                size_t n;

                next = newline ? newline + 1 : line + strlen(line);
                n = (size_t)(next - line);
                if (has_mark(line, n, end_mark))
                        inside = false;
                if (!inside)
                        fwrite(line, 1, n, to);
                if (!has_mark(line, n, begin_mark))
                        continue;
                block = find_block(line, n);
                if (!block || inside)
                        return complain(file, "a part that is not known, or within another");
                block->write(to);
                inside = true;
                parts++;
        }
        return inside ? complain(file, "a part without an end") : parts;
}

/* The document as it should be, to be freed. */
static char *generate(const char *file, const char *text)
{
        char *made = NULL;
        size_t size;
        FILE *to = open_memstream(&made, &size);
        int parts = to ? copy(file, text, to) : complain(file, strerror(errno));

        if (to)
                fclose(to);
        if (parts == 0)
                complain(file, "no part of it is generated");
        if (parts > 0)
                return made;
        free(made);
        return NULL;
}

static int store(const char *file, const char *text)
{
        FILE *to = fopen(file, "w");
        bool failed = !to || fputs(text, to) < 0;

        if (to && fclose(to) != 0)
                failed = true;
        return failed ? complain(file, strerror(errno)) : 0;
}

/* Say where two texts part. */
static int report_difference(const char *file, const char *have, const char *want)
{
        unsigned int line = 1;

        for (; *have == *want; have++, want++)
                line += *have == '\n';
        fprintf(stderr, "%s:%u: not what the tables of the programs say: run 'ninja docs'\n", file,
                line);
        return -1;
}

static int handle(const char *file, bool check)
{
        char *have = load(file), *want = have ? generate(file, have) : NULL;
        int r = -1;

        if (want && strcmp(have, want) == 0)
                r = 0;
        else if (want)
                r = check ? report_difference(file, have, want) : store(file, want);
        free(have);
        free(want);
        return r;
}

int main(int argc, char **argv)
{
        bool check = argc > 1 && strcmp(argv[1], "--check") == 0;
        int first = check ? 2 : 1, failed = 0;

        if (argc <= first) {
                fputs("usage: gen-docs [--check] FILE...\n", stderr);
                return 2;
        }
        for (int i = first; i < argc; i++)
                failed |= handle(argv[i], check) < 0;
        return failed;
}
