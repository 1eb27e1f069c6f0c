# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# To be sourced: progress LOG COMMAND... runs the command with its output at the end of LOG, and
# prints a dot every second meanwhile.  Its exit code is the command's.
set -u

progress() {
        local log=$1 pid code=0
        shift
        "$@" >>"$log" 2>&1 &
        pid=$!
        while sleep 1 && kill -0 $pid 2>/dev/null; do
                printf .
        done
        wait $pid || code=$?
        echo
        return $code
}
