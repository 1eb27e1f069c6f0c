/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/port_timeline.h"

#include <errno.h>

#define FIELD(key, type, member, help)       VQL_FIELD(vql_session_info, key, type, member, help)
#define PHASE_FIELD(key, type, member, help) VQL_FIELD(vql_phase_info, key, type, member, help)

const struct vql_field vql_session_fields[] = {
        FIELD("connection", UINT64, connection, "Number of the connection."),
        FIELD("began-us", INT64, began_us, "When it was made, in microseconds since 1970."),
        FIELD("lasted-us", INT64, lasted_us, "How long it lasted, null while it does."),
        FIELD("reason", TEXT, reason, "Why it ended, or empty."),
        { 0 },
};

const struct vql_field vql_phase_fields[] = {
        PHASE_FIELD("phase", TEXT, name,
                    "connect: to the first message. negotiate: from there to the first ring that "
                    "runs. first-packet: from there to the first packet, either way. log: writes "
                    "to guest memory are logged. stop: from the first ring that stops to the last. "
                    "hand-over: no ring runs any more, until one does or the connection ends."),
        PHASE_FIELD("count", UINT, count,
                    "How often it began; what follows is about the last time."),
        PHASE_FIELD("at-us", INT64, at_us,
                    "When it began, since the connection was made; null if it did not."),
        PHASE_FIELD("took-us", INT64, took_us,
                    "How long it took; null while it goes on, or if it did not come to its end."),
        { 0 },
};

static json_t *pack_session(const struct vql_session_info *info)
{
        json_t *session = vql_fields_pack(vql_session_fields, info), *phases = json_array();
        int r = 0;

        for (size_t i = 0; r == 0 && i < VQL_PHASES; i++)
                r = json_array_append_new(phases,
                                          vql_fields_pack(vql_phase_fields, &info->phase[i]));
        if (r == 0)
                r = json_object_set(session, "phases", phases);
        json_decref(phases);
        if (r == 0)
                return session;
        json_decref(session);
        return NULL;
}

json_t *vql_port_timeline(struct vql *v, const char *name)
{
        struct vql_session_info info;
        json_t *list = json_array();
        int r = 0;

        for (unsigned int i = 0; list && (r = vql_port_get_session(v, name, i, &info)) == 0; i++) {
                if (json_array_append_new(list, pack_session(&info)) < 0)
                        break;
        }
        if (r == -ERANGE)
                return list;
        json_decref(list);
        return NULL;
}
