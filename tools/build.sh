#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# build.sh [TARGET...]: set up build/ unless it is there, and build these targets or everything.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
# shellcheck source=tools/progress.sh
. "$root/tools/progress.sh"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

step() {
        progress "$log" "$@" || {
                tail -n 60 "$log"
                echo "build: $1 failed"
                exit 1
        }
}

SECONDS=0
echo "building into $build"
[ -e "$build/build.ninja" ] || step meson setup "$build" "$root"
step ninja -C "$build" "$@"
echo "built in $SECONDS s"
