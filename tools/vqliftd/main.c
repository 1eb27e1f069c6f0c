/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <vqlift/vqlift.h>

#include "common/paths.h"
#include "vqliftd/config.h"
#include "vqliftd/daemon.h"
#include "vqliftd/daemon_params.h"
#include "vqliftd/turn.h"

/* Documented in vqliftd(8). */
enum exit_code {
        EXIT_ENDED = 0,  /* ended by a signal, or the file is right */
        EXIT_FAILED = 1, /* the file is wrong, or something could not be started */
        EXIT_USAGE = 2,  /* the command line is wrong */
};

enum { TURN_FD = 256 }; /* an option without a letter */

static const char usage[] =
        "Usage: vqliftd [-c FILE] [-t] [-f LEVEL]\n"
        "       vqliftd --help | --version\n"
        "\n"
        "  -c, --config FILE      configuration (" VQL_DEFAULT_CONFIG ")\n"
        "  -t, --test             check the configuration and do nothing else\n"
        "  -f, --log-level LEVEL  error, warning, notice, info or debug instead of what the\n"
        "                         configuration says\n"
        "  -h, --help             show this text\n"
        "  -V, --version          show the version\n"
        "\n"
        "SIGHUP reads the configuration again; SIGTERM and SIGINT end the daemon; with a standby\n"
        "SIGUSR2 hands over to a new start of the program.\n"
        "Exit status: 0 ended or checked, 1 not started or wrong configuration, 2 wrong usage.\n";

struct arguments {
        struct vql_daemon_options options;
        bool test;
};

static int fail_usage(const char *what)
{
        fprintf(stderr, "vqliftd: %s\nTry 'vqliftd --help'.\n", what);
        return EXIT_USAGE;
}

/* -1: go on; else the code to exit with. */
static int read_option(int option, struct arguments *a)
{
        switch (option) {
        case 'c':
                a->options.config = optarg;
                return -1;
        case 't':
                a->test = true;
                return -1;
        case 'f':
                a->options.log_level = vql_log_level_from_name(optarg);
                if (a->options.log_level >= 0)
                        return -1;
                return fail_usage("-f: expected error, warning, notice, info or debug");
        case TURN_FD:
                a->options.turn_fd = vql_turn_take(optarg);
                if (a->options.turn_fd >= 0)
                        return -1;
                return fail_usage("--" VQL_TURN_OPTION ": only a keeper gives it");
        case 'h':
                fputs(usage, stdout);
                return EXIT_ENDED;
        case 'V':
                printf("vqliftd %s\n", vql_version());
                return EXIT_ENDED;
        default:
                return fail_usage("this command line is not understood");
        }
}

static int read_arguments(int argc, char **argv, struct arguments *a)
{
        static const struct option options[] = {
                { "config", required_argument, NULL, 'c' },
                { "test", no_argument, NULL, 't' },
                { "log-level", required_argument, NULL, 'f' },
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, 'V' },
                { VQL_TURN_OPTION, required_argument, NULL, TURN_FD },
                { 0 },
        };
        int option, code;

        while ((option = getopt_long(argc, argv, "c:tf:hV", options, NULL)) != -1) {
                code = read_option(option, a);
                if (code >= 0)
                        return code;
        }
        return optind < argc ? fail_usage("there are arguments that are not options") : -1;
}

static void put(void *arg, const char *line)
{
        fprintf(arg, "%s\n", line);
}

static int test_config(const char *path)
{
        struct vql_report report = { 0 };
        struct vql_config config;
        size_t n;
        int r;

        r = vql_config_load(path, &report, &config);
        vql_report_print(&report, path, put, stderr);
        if (r < 0 && vql_report_clean(&report))
                fprintf(stderr, "%s: %s\n", path, strerror(-r));
        vql_report_fini(&report);
        if (r < 0)
                return EXIT_FAILED;
        n = json_array_size(vql_config_ports(&config));
        printf("%s: right, with %zu port%s\n", path, n, n == 1 ? "" : "s");
        vql_config_fini(&config);
        return EXIT_ENDED;
}

/* Started without standard streams, the daemon must not log into its first socket. */
static void fill_standard_streams(void)
{
        int fd;

        do {
                fd = open("/dev/null", O_RDWR);
        } while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd >= 0)
                close(fd);
}

int main(int argc, char **argv)
{
        struct arguments a = {
                .options = { .config = VQL_DEFAULT_CONFIG, .log_level = -1, .turn_fd = -1 },
        };
        int code;

        fill_standard_streams();
        code = read_arguments(argc, argv, &a);
        if (code >= 0)
                return code;
        a.options.argv = argv;
        if (a.test)
                return test_config(a.options.config);
        return vql_daemon_run(&a.options) < 0 ? EXIT_FAILED : EXIT_ENDED;
}
