/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's bytes, in pieces whose size the first byte says: every line is answered by one JSON
 * document or by nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <vqlift/vqlift.h>

#include "vqliftd/client.h"
#include "vqliftd/linebuf.h"
#include "vqliftd/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool right)
{
        if (!right)
                abort();
}

static void look_at_answer(const char *answer)
{
        json_t *response = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
        const json_t *error = json_object_get(response, "error");

        require(response && !strchr(answer, '\n'));
        require(json_object_get(response, "id") != NULL);
        require((error != NULL) != (json_object_get(response, "result") != NULL));
        if (error) {
                require(json_is_integer(json_object_get(error, "code")));
                require(json_string_length(json_object_get(error, "message")) > 0);
        }
        json_decref(response);
}

static void answer_line(struct vql_rpc *rpc, const char *line, size_t n)
{
        static const struct ucred peer = { .pid = 1 };
        char *answer = NULL;

        require(vql_rpc_answer(rpc, &peer, line, n, &answer) == 0);
        if (answer)
                look_at_answer(answer);
        free(answer);
}

static void feed(struct vql_rpc *rpc, const uint8_t *data, size_t size, size_t piece)
{
        struct vql_linebuf b;
        const char *line;
        size_t n, room;
        char *at;

        vql_linebuf_init(&b, VQL_CLIENT_LINE_MAX);
        while (size > 0 && (at = vql_linebuf_room(&b, &room))) {
                n = size < piece ? size : piece;
                n = n < room ? n : room;
                memcpy(at, data, n);
                data += n;
                size -= n;
                vql_linebuf_added(&b, n);
                while (vql_linebuf_take(&b, &line, &n))
                        answer_line(rpc, line, n);
        }
        if (vql_linebuf_take_rest(&b, &line, &n))
                answer_line(rpc, line, n);
        vql_linebuf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct vql_logger log = { .fd = -1, .level = -1 };
        struct vql_params params = { .size = sizeof(params) };
        struct vql_rpc rpc = { .log = &log };
        char error[64];

        if (size == 0)
                return 0;
        require(vql_create(&params, &rpc.vql, error, sizeof(error)) == 0);
        require(vql_portset_new(rpc.vql, &log, &rpc.ports) == 0);
        feed(&rpc, data + 1, size - 1, (size_t)data[0] + 1);
        vql_portset_free(rpc.ports);
        vql_destroy(rpc.vql);
        return 0;
}
