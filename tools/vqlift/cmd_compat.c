/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "vqlift/command.h"
#include "vqlift/compat.h"

static void print_document(const json_t *document)
{
        vql_command_print_json(document, false);
}

static int dump(struct vql_cli *cli, const char *name)
{
        return vql_command_call(cli, "compat.dump",
                                name ? json_pack("{s:s}", "name", name) : json_object(),
                                print_document);
}

static void put_line(void *arg, const char *line)
{
        (void)arg;
        fprintf(stderr, "vqlift: %s\n", line);
}

/* A valid document, or NULL with all that is wrong with it said. */
static json_t *load(const char *file)
{
        struct vql_report report = { 0 };
        json_error_t error;
        json_t *document = json_load_file(file, JSON_REJECT_DUPLICATES, &error);

        if (!document) {
                fprintf(stderr, "vqlift: %s: %s\n", file, error.text);
                return NULL;
        }
        vql_compat_validate(document, &report);
        if (!vql_report_clean(&report)) {
                vql_report_print(&report, file, put_line, NULL);
                json_decref(document);
                document = NULL;
        }
        vql_report_fini(&report);
        return document;
}

static void print_reasons(const json_t *reasons)
{
        const json_t *reason;
        size_t i;

        if (json_array_size(reasons) == 0)
                puts("yes");
        json_array_foreach(reasons, i, reason)
        {
                printf("no: %s: %s\n", json_string_value(json_object_get(reason, "key")),
                       json_string_value(json_object_get(reason, "message")));
        }
}

static int answer(const struct vql_cli *cli, json_t *reasons)
{
        const bool may = json_array_size(reasons) == 0;
        json_t *result = json_pack("{s:b, s:O}", "may-move", may, "reasons", reasons);

        if (!result)
                return VQL_EXIT_FAILED;
        if (cli->json)
                vql_command_print_json(result, false);
        else
                print_reasons(reasons);
        json_decref(result);
        return may ? VQL_EXIT_DONE : VQL_EXIT_FAILED;
}

static int check(struct vql_cli *cli, const char *file)
{
        json_t *from = load(file), *to = load(cli->second);
        json_t *reasons = from && to ? vql_compat_check(from, to) : NULL;
        int code = VQL_EXIT_USAGE;

        if (reasons)
                code = answer(cli, reasons);
        json_decref(reasons);
        json_decref(from);
        json_decref(to);
        return code;
}

const struct vql_command vql_compat_commands[] = {
        {
                .noun = "compat",
                .verb = "dump",
                .argument = "[PORT]",
                .run = dump,
                .help = "Write, as JSON, what a guest on a port may have come to rely on; without "
                        "PORT, what a port of this host offers whose keys take nothing away.",
        },
        {
                .noun = "compat",
                .verb = "check",
                .argument = "FILE",
                .second = "FILE",
                .run = check,
                .help = "May a guest of the first port move to the second? Both as compat dump "
                        "wrote them. Prints yes, or why not with exit status 1; exit status 2 if "
                        "a file is not right.",
        },
        { 0 },
};
