/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQPEER_COMMANDS_H
#define VQPEER_COMMANDS_H

/* Each takes its arguments (their number is checked already) and returns the exit code. */

int echo_serve(char **args);
int echo_run(char **args);
int stream_serve(char **args);
int stream_run(char **args);
int file_receive(char **args);
int file_send(char **args);
int count_send(char **args);
int count_receive(char **args);
int announce_watch(char **args);
int nic_channels(char **args);
int nic_offload(char **args);

#endif
