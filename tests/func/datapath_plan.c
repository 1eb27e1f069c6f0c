/* SPDX-License-Identifier: BSD-3-Clause */

/* Which scenarios there are, and which of them a run walks. */

#include "datapath_rig.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_common.h>

#include "unit/eal.h"

/* A ring and where it starts: -1 is its last slot. */
struct start {
        int at;
        bool wrap_0;
};

static const uint16_t split_sizes[] = { 1, 2, 16, 256, 1024, 32768 };
static const uint16_t packed_sizes[] = { 1, 2, 3, 16, 256, 1024, 32768 };
static const struct start split_starts[] = { { 0, false }, { -1, false }, { 65535, false } };
static const struct start packed_starts[] = {
        { 0, false }, { 0, true }, { -1, false }, { -1, true }
};

/* What the quick form turns through while it walks everything else in full. */
enum { TURNS = (int)DP_SHAPES * (int)DP_HEADERS * DP_LAYOUTS };

struct plan {
        bool rx, full;
        uint64_t seed, rounds;
        long only; /* a scenario's number, or -1 */
        void (*play)(struct dp_rig *r);
        struct dp_world world;
        struct dp_rig *rig;
        unsigned int number, turn, played;
};

/* C11's and cmocka's main do not meet: the plan goes through here. */
static struct plan *the_plan(void **state)
{
        return *state;
}

static void play_one(struct plan *p, struct dp_scenario *s, unsigned int turn)
{
        s->shape = (enum dp_shape)(turn % DP_SHAPES);
        s->header = (enum dp_header)(turn / DP_SHAPES % DP_HEADERS);
        s->layout = (enum fe_layout)(turn / DP_SHAPES / DP_HEADERS % DP_LAYOUTS);
        s->number = p->number++;
        s->seed = p->seed;
        if (p->only >= 0 && p->only != (long)s->number)
                return;
        dp_rig_init(p->rig, &p->world, s);
        p->play(p->rig);
        dp_rig_fini(p->rig);
        p->played++;
}

/* All rings and starts of one instance, with and without EVENT_IDX and IN_ORDER. */
static void play_instance(struct plan *p, const struct vql_instance_set *set,
                          const struct vql_instance *v)
{
        const bool packed = v->traits.packed;
        const size_t sizes = packed ? RTE_DIM(packed_sizes) : RTE_DIM(split_sizes);
        const size_t starts = packed ? RTE_DIM(packed_starts) : RTE_DIM(split_starts);

        for (size_t i = 0; i < sizes * starts * 4; i++) {
                uint16_t size = packed ? packed_sizes[i / 4 / starts] : split_sizes[i / 4 / starts];
                struct start from =
                        packed ? packed_starts[i / 4 % starts] : split_starts[i / 4 % starts];
                struct dp_scenario s = {
                        .set = set,
                        .instance = v,
                        .event_idx = i & 1,
                        .in_order = i & 2,
                        .size = size,
                        .start = (uint16_t)(from.at < 0 ? size - 1 : from.at),
                        .wrap_0 = from.wrap_0,
                };

                for (unsigned int k = 0; p->full && k < TURNS; k++)
                        play_one(p, &s, k);
                if (!p->full)
                        play_one(p, &s, p->turn++);
        }
}

/* All instances of our direction.   */
static void play_set(struct plan *p, const struct vql_instance_set *set)
{
        if (!vql_instance_set_runs(set)) {
                printf("not on this CPU: %s\n", set->name);
                return;
        }
        for (size_t i = 0; i < set->count; i++)
                if (set->rows[i].traits.rx == p->rx)
                        play_instance(p, set, &set->rows[i]);
}

static void test_all(void **state)
{
        struct plan *p = the_plan(state);

        for (uint64_t round = 0; round < p->rounds; round++, p->seed++) {
                p->number = 0;
                for (size_t i = 0; i < vql_instance_set_count; i++)
                        play_set(p, vql_instance_sets[i]);
        }
        printf("%u scenarios\n", p->played);
        assert_true(p->played > 0);
}

static void usage(const char *name)
{
        fprintf(stderr,
                "usage: %s [--full] [--rounds N] [--seed N] [--scenario N]\n"
                "  --full      every combination instead of one in %d\n"
                "  --rounds    with N seeds, one after the other\n"
                "  --seed      the first seed\n"
                "  --scenario  this one only, as a failure names it\n",
                name, TURNS);
        exit(2);
}

static void parse(int argc, char **argv, struct plan *p)
{
        static const struct option options[] = {
                { "full", no_argument, NULL, 'f' },
                { "rounds", required_argument, NULL, 'r' },
                { "seed", required_argument, NULL, 's' },
                { "scenario", required_argument, NULL, 'o' },
                { 0 },
        };
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (c) {
                case 'f':
                        p->full = true;
                        break;
                case 'r':
                        p->rounds = strtoull(optarg, NULL, 0);
                        break;
                case 's':
                        p->seed = strtoull(optarg, NULL, 0);
                        break;
                case 'o':
                        p->only = strtol(optarg, NULL, 0);
                        break;
                default:
                        usage(argv[0]);
                }
        }
        if (optind < argc)
                usage(argv[0]);
}

int dp_main(int argc, char **argv, bool rx, void (*play)(struct dp_rig *r))
{
        struct plan p = { .rx = rx, .rounds = 1, .seed = 1, .only = -1, .play = play };
        const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(test_all, &p) };
        int failed;

        parse(argc, argv, &p);
        if (test_eal_start() < 0)
                return 1;
        p.rig = aligned_alloc(VQL_CACHE_LINE, RTE_ALIGN(sizeof(*p.rig), VQL_CACHE_LINE));
        if (!p.rig)
                return 1;
        dp_world_init(&p.world);
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        dp_world_fini(&p.world);
        free(p.rig);
        return failed;
}
