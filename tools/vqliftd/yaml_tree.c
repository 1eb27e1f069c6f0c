/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/yaml_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

enum { DEPTH_MAX = 8, KEY_MAX_BYTES = 128 };

/*
 * The parser gives a stream of events.  Every read_X() below finds the first event of its X in
 * `event` and leaves there the first event after it; after an error the event means nothing.
 */
struct reader {
        yaml_parser_t parser;
        yaml_event_t event;
        struct vql_report *report;
        json_t *places;
};

/* A value that is about to be read: what it is called and where it begins. */
struct node {
        char path[VQL_REPORT_PATH];
        struct vql_place place;
        unsigned int depth;
};

static int read_node(struct reader *r, const struct node *node, json_t **ret_value);

static struct vql_place place_of(yaml_mark_t mark)
{
        return (struct vql_place){ (unsigned int)mark.line + 1, (unsigned int)mark.column + 1 };
}

static void report_syntax(struct reader *r)
{
        const yaml_parser_t *p = &r->parser;
        const char *problem = p->problem ? p->problem : "this is not YAML";

        /* A byte that is not UTF-8 is found before there are lines. */
        if (p->error == YAML_READER_ERROR)
                vql_report_add_at(r->report, (struct vql_place){ 0 }, "",
                                  "byte %zu: %s, expected YAML in UTF-8", p->problem_offset,
                                  problem);
        else
                vql_report_add_at(r->report, place_of(p->problem_mark), "", "column %zu: %s%s%s",
                                  p->problem_mark.column + 1, p->context ? p->context : "",
                                  p->context ? ": " : "", problem);
}

static int advance(struct reader *r)
{
        yaml_event_delete(&r->event);
        if (yaml_parser_parse(&r->parser, &r->event))
                return 0;
        if (r->parser.error == YAML_MEMORY_ERROR)
                return -ENOMEM;
        report_syntax(r);
        return -EINVAL;
}

static struct vql_place find_place(const json_t *places, const char *path)
{
        int line = 0, column = 0;

        json_unpack(json_object_get(places, path), "[ii]", &line, &column);
        return (struct vql_place){ (unsigned int)line, (unsigned int)column };
}

static int remember_place(struct reader *r, const struct node *node)
{
        json_t *place = json_pack("[ii]", (int)node->place.line, (int)node->place.column);

        return json_object_set_new(r->places, node->path, place) < 0 ? -ENOMEM : 0;
}

/* Anchors and tags change what other text means; a configuration is better off without. */
static void refuse_properties(struct reader *r, const struct node *node)
{
        const yaml_event_t *e = &r->event;
        const yaml_char_t *anchor = NULL, *tag = NULL;

        if (e->type == YAML_SCALAR_EVENT) {
                anchor = e->data.scalar.anchor;
                tag = e->data.scalar.tag;
        } else if (e->type == YAML_SEQUENCE_START_EVENT) {
                anchor = e->data.sequence_start.anchor;
                tag = e->data.sequence_start.tag;
        } else if (e->type == YAML_MAPPING_START_EVENT) {
                anchor = e->data.mapping_start.anchor;
                tag = e->data.mapping_start.tag;
        }
        if (anchor)
                vql_report_add_at(r->report, node->place, node->path,
                                  "anchor &%.32s, expected a plain value", anchor);
        if (tag)
                vql_report_add_at(r->report, node->place, node->path,
                                  "tag %.32s, expected a value without one", tag);
}

static bool is_integer(const char *s)
{
        if (*s == '-')
                s++;
        if (!*s || strspn(s, "0123456789") != strlen(s))
                return false;
        return s[0] != '0' || s[1] == '\0';
}

static json_t *plain_scalar(const char *s)
{
        json_int_t n;

        if (!*s || strcmp(s, "~") == 0 || strcmp(s, "null") == 0)
                return json_null();
        if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
                return json_boolean(*s == 't');
        if (is_integer(s)) {
                errno = 0;
                n = strtoll(s, NULL, 10);
                if (!errno)
                        return json_integer(n);
        }
        return json_string(s);
}

static int read_scalar(struct reader *r, const struct node *node, json_t **ret_value)
{
        const char *text = (const char *)r->event.data.scalar.value;
        size_t n = r->event.data.scalar.length;
        json_t *value;
        int e;

        if (memchr(text, '\0', n)) {
                vql_report_add_at(r->report, node->place, node->path,
                                  "text with a NUL character, expected text without");
                value = json_null();
        } else if (r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
                value = plain_scalar(text);
        } else {
                value = json_stringn(text, n);
        }
        e = value ? advance(r) : -ENOMEM;
        if (e < 0)
                json_decref(value);
        else
                *ret_value = value;
        return e;
}

static int read_alias(struct reader *r, const struct node *node, json_t **ret_value)
{
        int e;

        vql_report_add_at(r->report, node->place, node->path,
                          "alias *%.32s, expected the value itself", r->event.data.alias.anchor);
        e = advance(r);
        if (e == 0)
                *ret_value = json_null();
        return e;
}

static int read_entries(struct reader *r, const struct node *node, json_t *list)
{
        struct node entry = { .depth = node->depth + 1 };
        json_t *value;
        int e = advance(r);

        while (e == 0 && r->event.type != YAML_SEQUENCE_END_EVENT) {
                vql_path_index(entry.path, node->path, json_array_size(list));
                entry.place = place_of(r->event.start_mark);
                e = read_node(r, &entry, &value);
                if (e == 0 && json_array_append_new(list, value) < 0)
                        e = -ENOMEM;
        }
        return e == 0 ? advance(r) : e;
}

static int read_key(struct reader *r, struct node *member, char ret_key[KEY_MAX_BYTES + 1])
{
        const char *text = (const char *)r->event.data.scalar.value;
        size_t n = r->event.data.scalar.length;

        member->place = place_of(r->event.start_mark);
        if (r->event.type != YAML_SCALAR_EVENT || memchr(text, '\0', n) || n > KEY_MAX_BYTES) {
                vql_report_add_at(r->report, member->place, member->path,
                                  "a key that is not text of at most %d bytes", KEY_MAX_BYTES);
                return -EINVAL;
        }
        refuse_properties(r, member);
        memcpy(ret_key, text, n + 1);
        return advance(r);
}

/* Read the value of a key that was there before, under a path of its own so that the places of
 * the first value stay right. */
static int skip_duplicate(struct reader *r, struct node *member)
{
        char path[VQL_REPORT_PATH];
        json_t *value;
        int e;

        vql_report_add_at(r->report, member->place, member->path,
                          "key given twice, first on line %u",
                          find_place(r->places, member->path).line);
        memcpy(path, member->path, sizeof(path));
        vql_path_key(member->path, path, "(again)");
        e = read_node(r, member, &value);
        if (e == 0)
                json_decref(value);
        return e;
}

static int read_member(struct reader *r, const struct node *node, json_t *map)
{
        struct node member = *node;
        char key[KEY_MAX_BYTES + 1];
        json_t *value;
        int e;

        member.depth++;
        e = read_key(r, &member, key);
        if (e < 0)
                return e;
        vql_path_key(member.path, node->path, key);
        if (json_object_get(map, key))
                return skip_duplicate(r, &member);
        e = read_node(r, &member, &value);
        if (e == 0 && json_object_set_new(map, key, value) < 0)
                e = -ENOMEM;
        return e;
}

static int read_members(struct reader *r, const struct node *node, json_t *map)
{
        int e = advance(r);

        while (e == 0 && r->event.type != YAML_MAPPING_END_EVENT)
                e = read_member(r, node, map);
        return e == 0 ? advance(r) : e;
}

static int read_collection(struct reader *r, const struct node *node, json_t **ret_value)
{
        bool is_list = r->event.type == YAML_SEQUENCE_START_EVENT;
        json_t *value = is_list ? json_array() : json_object();
        int e;

        if (!value)
                return -ENOMEM;
        if (node->depth >= DEPTH_MAX) {
                vql_report_add_at(r->report, node->place, node->path,
                                  "more than %d levels, expected fewer", DEPTH_MAX);
                e = -EINVAL;
        } else {
                e = is_list ? read_entries(r, node, value) : read_members(r, node, value);
        }
        if (e < 0)
                json_decref(value);
        else
                *ret_value = value;
        return e;
}

static int read_node(struct reader *r, const struct node *node, json_t **ret_value)
{
        int e = remember_place(r, node);

        if (e < 0)
                return e;
        refuse_properties(r, node);
        if (r->event.type == YAML_SCALAR_EVENT)
                return read_scalar(r, node, ret_value);
        if (r->event.type == YAML_ALIAS_EVENT)
                return read_alias(r, node, ret_value);
        return read_collection(r, node, ret_value);
}

static int expect_end(struct reader *r)
{
        int e = advance(r);

        if (e == 0 && r->event.type != YAML_STREAM_END_EVENT) {
                vql_report_add_at(r->report, place_of(r->event.start_mark), "",
                                  "a second document, expected one");
                e = -EINVAL;
        }
        return e;
}

static int read_document(struct reader *r, json_t **ret_tree)
{
        struct node root = { .depth = 0 };
        json_t *tree = NULL;
        int e = advance(r);

        root.place = place_of(r->event.start_mark);
        if (e == 0)
                e = read_node(r, &root, &tree);
        if (e == 0)
                e = expect_end(r);
        if (e < 0)
                json_decref(tree);
        else
                *ret_tree = tree;
        return e;
}

static int read_stream(struct reader *r, json_t **ret_tree)
{
        json_t *tree = NULL;
        int e;

        e = advance(r);
        if (e == 0)
                e = advance(r);
        if (e == 0 && r->event.type != YAML_STREAM_END_EVENT)
                e = read_document(r, &tree);
        if (e < 0)
                return e;
        if (!tree || json_is_null(tree))
                tree = json_object();
        if (!tree)
                return -ENOMEM;
        *ret_tree = tree;
        return 0;
}

int vql_yaml_parse(const char *text, size_t n, struct vql_report *report, struct vql_yaml *ret_y)
{
        struct reader r = { .report = report };
        json_t *tree;
        int e = -ENOMEM;

        r.places = json_object();
        if (!r.places)
                return -ENOMEM;
        if (yaml_parser_initialize(&r.parser)) {
                yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
                e = read_stream(&r, &tree);
                yaml_event_delete(&r.event);
                yaml_parser_delete(&r.parser);
        }
        if (e < 0)
                json_decref(r.places);
        else
                *ret_y = (struct vql_yaml){ .tree = tree, .places = r.places };
        return e;
}

void vql_yaml_fini(struct vql_yaml *y)
{
        json_decref(y->tree);
        json_decref(y->places);
        *y = (struct vql_yaml){ 0 };
}

struct vql_place vql_yaml_find(const struct vql_yaml *y, const char *path)
{
        char nearest[VQL_REPORT_PATH];
        struct vql_place place;

        snprintf(nearest, sizeof(nearest), "%s", path);
        do {
                place = find_place(y->places, nearest);
        } while (!place.line && vql_path_up(nearest));
        return place;
}
