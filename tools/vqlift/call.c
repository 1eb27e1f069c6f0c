/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/printable.h"

/* The daemon may have to wait for a slow device before it answers. */
enum { TIMEOUT_S = 60, ANSWER_MAX_BYTES = 64 << 20, PIECE_BYTES = 65536 };

static json_t *complain(const char *path, const char *why)
{
        fprintf(stderr, "vqlift: control socket %s: %s\n", path, why);
        return NULL;
}

static int dial(const char *path)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct timeval timeout = { .tv_sec = TIMEOUT_S };
        int fd, r;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
            connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
                return fd;
        r = -errno;
        close(fd);
        return r;
}

static int send_all(int fd, const char *text, size_t n)
{
        ssize_t sent;

        while (n > 0) {
                sent = send(fd, text, n, MSG_NOSIGNAL);
                if (sent < 0 && errno != EINTR)
                        return -errno;
                text += sent > 0 ? sent : 0;
                n -= sent > 0 ? (size_t)sent : 0;
        }
        return 0;
}

static int send_request(int fd, const char *method, json_t *params)
{
        json_t *request = json_pack("{s:s, s:i, s:s, s:O}", "jsonrpc", "2.0", "id", 1, "method",
                                    method, "params", params);
        char *text = json_dumps(request, JSON_COMPACT);
        int r = -ENOMEM;

        if (text)
                r = send_all(fd, text, strlen(text));
        if (r == 0)
                r = send_all(fd, "\n", 1);
        free(text);
        json_decref(request);
        return r;
}

/* A line, to be freed; its end is cut off.  NULL with errno. */
static char *receive_line(int fd)
{
        char *line = NULL, *grown, *end = NULL;
        size_t used = 0;
        ssize_t n;

        while (!end && used < ANSWER_MAX_BYTES) {
                grown = realloc(line, used + PIECE_BYTES);
                if (!grown)
                        break;
                line = grown;
                n = recv(fd, line + used, PIECE_BYTES, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n == 0)
                        errno = ECONNRESET;
                if (n <= 0)
                        break;
                end = memchr(line + used, '\n', (size_t)n);
                used += (size_t)n;
        }
        if (!end) {
                free(line);
                return NULL;
        }
        *end = '\0';
        return line;
}

/* The result of a response, or NULL after its error is told. */
static json_t *open_response(const char *path, const json_t *response)
{
        const json_t *error = json_object_get(response, "error");
        const char *message = json_string_value(json_object_get(error, "message"));
        const char *name =
                json_string_value(json_object_get(json_object_get(error, "data"), "name"));
        json_t *result = json_object_get(response, "result");
        char *shown;

        if (result)
                return json_incref(result);
        if (!message)
                return complain(path, "the answer is not one of vqliftd");
        shown = strdup(message);
        if (shown) {
                vql_printable(shown);
                fprintf(stderr, "vqlift: %s%s%s%s\n", shown, name ? " (" : "", name ? name : "",
                        name ? ")" : "");
        }
        free(shown);
        return NULL;
}

static json_t *receive_result(int fd, const char *path)
{
        json_t *response, *result;
        char *line = receive_line(fd);

        if (!line && errno == EAGAIN)
                return complain(path, "no answer within 60 s");
        if (!line)
                return complain(path, strerror(errno));
        response = json_loads(line, 0, NULL);
        result = open_response(path, response);
        json_decref(response);
        free(line);
        return result;
}

json_t *vql_call(const char *socket, const char *method, json_t *params)
{
        json_t *result = NULL;
        char why[128];
        int fd = dial(socket), r;

        if (fd < 0) {
                snprintf(why, sizeof(why), "%s%s", strerror(-fd),
                         fd == -ENOENT || fd == -ECONNREFUSED ? " (is vqliftd running?)" : "");
                complain(socket, why);
        } else {
                r = send_request(fd, method, params);
                /* A daemon that refuses a client says so and closes: read even then. */
                if (r == 0 || r == -EPIPE)
                        result = receive_result(fd, socket);
                else
                        complain(socket, strerror(-r));
                close(fd);
        }
        json_decref(params);
        return result;
}
