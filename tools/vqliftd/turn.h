/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_TURN_H
#define VQLIFT_TOOLS_TURN_H

/*
 * How a daemon and its keeper (keeper.h) talk: over a socket pair, in packets of one byte.  The end
 * of the connection tells a daemon to end.
 */

enum vql_turn_word {
        VQL_TURN_READY = 'r',  /* daemon: prepared all that it can beside one that serves */
        VQL_TURN_GO = 'g',     /* keeper: it is your turn */
        VQL_TURN_SERVES = 's', /* daemon: ports and control socket are there */
        VQL_TURN_ALIVE = 'a',  /* daemon: its main loop goes round */
        VQL_TURN_ENDED = 'e',  /* daemon: ports and control socket are gone, it is about to exit */
};

/* The option by which a keeper hands the socket on to a daemon, which takes it from there: a
 * descriptor that is open, or -EINVAL. */
#define VQL_TURN_OPTION "turn-fd"
int vql_turn_take(const char *text);

/* Never waits: a keeper that is gone or behind misses it.  -1 is fine. */
void vql_turn_tell(int fd, enum vql_turn_word word);

/* Tell that we are ready and wait for our turn.  -EPIPE: it does not come any more. */
int vql_turn_wait(int fd);

#endif
