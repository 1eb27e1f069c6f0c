/* SPDX-License-Identifier: BSD-3-Clause */

/* Numbered packets that go out and have to come back. */

#include "frontend/net.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PACKET = 65536, DEFAULT_WINDOW = 32, BURST = 8, STALL_MS = 20000 };

struct packet_head {
        uint8_t dst[6], src[6];
        uint8_t type[2];
        uint8_t tag[2];
        uint32_t len;
        uint64_t seq;
} __attribute__((packed));

static int64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static size_t size_of(const struct fe_flow *f, uint64_t seq)
{
        /* A stride that is prime to most ranges visits all sizes in a scattered order. */
        return f->min_bytes + seq * 7919 % (f->max_bytes - f->min_bytes + 1);
}

static uint8_t byte_of(uint64_t seq, size_t i)
{
        return (uint8_t)(seq * 131 + i * 29 + (i >> 8));
}

static void make_packet(const struct fe_flow *f, uint64_t seq, uint8_t *to, size_t len)
{
        struct packet_head h = {
                .dst = { 0x02, 0, 0, 0, 0, 1 },
                .src = { 0x02, 0, 0, 0, 0, 2 },
                .type = { FE_FLOW_TYPE >> 8, FE_FLOW_TYPE & 0xff },
                .tag = { (uint8_t)(f->tag >> 8), (uint8_t)f->tag },
                .len = (uint32_t)len,
                .seq = seq,
        };

        memcpy(to, &h, sizeof(h));
        for (size_t i = sizeof(h); i < len; i++)
                to[i] = byte_of(seq, i);
}

static bool is_noise(const uint8_t *p, size_t len)
{
        return len >= 14 && p[12] == FE_NOISE_TYPE >> 8 && p[13] == (FE_NOISE_TYPE & 0xff);
}

static int check_packet(struct fe_flow *f, const uint8_t *p, size_t len, uint64_t *ret_seq)
{
        struct packet_head h;

        memcpy(&h, p, sizeof(h));
        if (len < sizeof(h) || h.type[0] != FE_FLOW_TYPE >> 8 || h.type[1] != (FE_FLOW_TYPE & 0xff))
                return fe_fail(&f->error, EBADMSG, "a foreign packet of %zu bytes", len);
        if (h.tag[0] != f->tag >> 8 || h.tag[1] != (f->tag & 0xff))
                return fe_fail(&f->error, EBADMSG, "a packet of another flow, tag %u",
                               h.tag[0] << 8 | h.tag[1]);
        if (h.len != len)
                return fe_fail(&f->error, EBADMSG, "packet %ju: %zu bytes came of %u",
                               (uintmax_t)h.seq, len, h.len);
        for (size_t i = sizeof(h); i < len; i++)
                if (p[i] != byte_of(h.seq, i))
                        return fe_fail(&f->error, EBADMSG, "packet %ju: byte %zu is wrong",
                                       (uintmax_t)h.seq, i);
        *ret_seq = h.seq;
        return 0;
}

static void note_back(struct fe_flow *f, uint64_t seq, bool back)
{
        const uint8_t bit = (uint8_t)(1 << seq % 8);

        f->back[seq % FE_FLOW_SPAN / 8] &= (uint8_t)~bit;
        f->back[seq % FE_FLOW_SPAN / 8] |= back ? bit : 0;
}

/* Without order: each once, however late. */
static int account_any(struct fe_flow *f, uint64_t seq)
{
        if (seq >= f->sent)
                return fe_fail(&f->error, EBADMSG, "packet %ju was never sent", (uintmax_t)seq);
        if (f->sent - seq > FE_FLOW_SPAN)
                return fe_fail(&f->error, EBADMSG, "packet %ju came after %ju were sent",
                               (uintmax_t)seq, (uintmax_t)f->sent);
        if (f->back[seq % FE_FLOW_SPAN / 8] >> seq % 8 & 1)
                return fe_fail(&f->error, EBADMSG, "packet %ju came again", (uintmax_t)seq);
        note_back(f, seq, true);
        f->lost -= seq < f->given_up;
        __atomic_store_n(&f->received, f->received + 1, __ATOMIC_RELAXED);
        return 0;
}

static int account(struct fe_flow *f, uint64_t seq)
{
        uint64_t due = f->received + f->lost;

        if (f->any_order)
                return account_any(f, seq);
        if (seq < due)
                return fe_fail(&f->error, EBADMSG, "packet %ju came again or late, %ju was due",
                               (uintmax_t)seq, (uintmax_t)due);
        if (seq >= f->sent)
                return fe_fail(&f->error, EBADMSG, "packet %ju was never sent", (uintmax_t)seq);
        if (seq > due && !f->may_lose)
                return fe_fail(&f->error, EBADMSG, "packet %ju came, %ju was due", (uintmax_t)seq,
                               (uintmax_t)due);
        f->lost += seq - due;
        __atomic_store_n(&f->received, f->received + 1, __ATOMIC_RELAXED);
        return 0;
}

static int net_failed(struct fe_flow *f, int err)
{
        return fe_fail(&f->error, -err, "%s", fe_net_error(f->net));
}

/* Each of the three returns how much it moved, or a negative errno. */
static int send_some(struct fe_flow *f, uint64_t n)
{
        static _Thread_local uint8_t packet[MAX_PACKET];
        int sent = 0, err = 0;

        while (f->sent < n && f->sent - f->received - f->lost < f->window && sent < BURST) {
                size_t len = size_of(f, f->sent);

                make_packet(f, f->sent, packet, len);
                err = fe_net_put(f->net, NULL, packet, len);
                if (err < 0)
                        break;
                note_back(f, f->sent, false);
                f->sent++;
                sent++;
        }
        if (err == 0 || err == -EAGAIN)
                err = fe_net_kick(f->net);
        return err < 0 ? net_failed(f, err) : sent;
}

static int receive_some(struct fe_flow *f)
{
        static _Thread_local uint8_t packet[MAX_PACKET];
        int received = 0;

        for (;;) {
                size_t len = sizeof(packet);
                uint64_t seq = 0;
                int err = fe_net_receive(f->net, NULL, packet, &len);

                if (err < 0)
                        return net_failed(f, err);
                if (err == 0)
                        break;
                received++;
                if (is_noise(packet, len))
                        continue;
                err = check_packet(f, packet, len, &seq);
                if (err == 0)
                        err = account(f, seq);
                if (err < 0)
                        return err;
        }
        return received;
}

static int reap_some(struct fe_flow *f)
{
        int reaped = fe_net_reap(f->net);

        return reaped < 0 ? net_failed(f, reaped) : reaped;
}

static int one_round(struct fe_flow *f, uint64_t n)
{
        int reaped, sent, received, err = fe_net_refill(f->net);

        if (err < 0)
                return net_failed(f, err);
        reaped = reap_some(f);
        if (reaped < 0)
                return reaped;
        sent = send_some(f, n);
        if (sent < 0)
                return sent;
        received = receive_some(f);
        return received < 0 ? received : reaped + sent + received;
}

/* Nothing has moved since `since`: sleep a little, by interrupt or by clock.  After stall_ms what
 * is under way counts as lost, if it may be; buffers that do not come back are never right. */
static int pause_flow(struct fe_flow *f, int64_t since)
{
        int limit = f->stall_ms && !f->may_lose ? f->stall_ms : STALL_MS;
        int64_t still = now_ms() - since;
        int err = 0;

        if (f->may_lose && still >= f->stall_ms) {
                f->lost = f->sent - f->received;
                f->given_up = f->sent;
        }
        if (still >= limit)
                return fe_fail(&f->error, ETIMEDOUT,
                               "nothing moved for %d ms: %ju sent, %ju received, %u not returned",
                               limit, (uintmax_t)f->sent, (uintmax_t)f->received,
                               fe_net_unreaped(f->net));
        if (f->by_interrupt)
                err = fe_net_wait(f->net, f->may_lose ? f->stall_ms : (int)(limit - still));
        else
                poll(NULL, 0, 1);
        return err < 0 && err != -ETIMEDOUT ? net_failed(f, err) : 0;
}

static int call_hook(struct fe_flow *f, uint64_t *due)
{
        if (!f->hook || f->sent < *due)
                return 0;
        *due += f->hook_every;
        return f->hook(f->hook_arg);
}

static bool finished(const struct fe_flow *f, uint64_t n)
{
        return f->sent >= n && f->received + f->lost == f->sent && fe_net_unreaped(f->net) == 0;
}

/* What whoever started a flow wants of it. */
enum wish { GO_ON, DRAIN, ABANDON };

static void fill_defaults(struct fe_flow *f)
{
        if (f->window == 0)
                f->window = DEFAULT_WINDOW;
        if (f->min_bytes == 0)
                f->min_bytes = 60;
        if (f->max_bytes == 0)
                f->max_bytes = 1514;
}

static int run(struct fe_flow *f, uint64_t n, const atomic_int *wish)
{
        int64_t moved_at = now_ms();
        uint64_t hook_due = f->sent + f->hook_every;

        fill_defaults(f);
        while (!finished(f, n) && (!wish || *wish != ABANDON)) {
                int moved = one_round(f, n);

                if (wish && *wish == DRAIN && n > f->sent)
                        n = f->sent;
                if (moved >= 0 && call_hook(f, &hook_due) < 0)
                        return fe_fail(&f->error, ECANCELED, "the hook failed");
                if (moved == 0)
                        moved = pause_flow(f, moved_at);
                else
                        moved_at = now_ms();
                if (moved < 0)
                        return moved;
        }
        return 0;
}

int fe_flow_run(struct fe_flow *f, uint64_t n)
{
        return run(f, f->sent + n, NULL);
}

/* ---- in a thread ---- */

struct fe_flow_thread {
        struct fe_flow *flow;
        pthread_t thread;
        atomic_int wish;
        int result;
};

static void *flow_thread(void *arg)
{
        struct fe_flow_thread *t = arg;

        t->result = run(t->flow, UINT64_MAX, &t->wish);
        return NULL;
}

int fe_flow_start(struct fe_flow *f, struct fe_flow_thread **ret_thread)
{
        struct fe_flow_thread *t = calloc(1, sizeof(*t));
        int err;

        if (!t)
                return -ENOMEM;
        t->flow = f;
        err = pthread_create(&t->thread, NULL, flow_thread, t);
        if (err) {
                free(t);
                return -err;
        }
        *ret_thread = t;
        return 0;
}

static int end_thread(struct fe_flow_thread *t, enum wish wish)
{
        int result;

        if (!t)
                return 0;
        t->wish = wish;
        pthread_join(t->thread, NULL);
        result = t->result;
        free(t);
        return result;
}

int fe_flow_stop(struct fe_flow_thread *t)
{
        return end_thread(t, DRAIN);
}

int fe_flow_abandon(struct fe_flow_thread *t)
{
        return end_thread(t, ABANDON);
}

uint64_t fe_flow_progress(const struct fe_flow *f)
{
        return __atomic_load_n(&f->received, __ATOMIC_RELAXED);
}
