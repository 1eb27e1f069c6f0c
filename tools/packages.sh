#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# packages.sh GROUP...       install what this machine lacks of these groups of Debian packages
# packages.sh kernel FOLDER  see that there is a kernel for guests
#
# Groups: build test vm style fuzz.  Nothing is downloaded and no privileges are needed if nothing
# is missing.
set -eu

# a|b: either will do, and a is what gets installed.
declare -A packages=(
        [build]="gcc libc6-dev meson ninja-build pkg-config|pkgconf python3 libdpdk-dev
                 libjansson-dev libyaml-dev libsystemd-dev libnuma-dev"
        [test]="libcmocka-dev"
        [vm]="qemu-system-x86 seabios ipxe-qemu busybox-static|busybox iproute2 kmod dpdk-dev
              python3"
        [style]="clang clang-format clang-tidy cppcheck shellcheck git libclang-rt-dev"
        [fuzz]="clang libclang-rt-dev llvm"
)

# shellcheck source=tools/progress.sh
. "$(dirname "$0")/progress.sh"

log=$(mktemp "${TMPDIR:-/tmp}/vqlift-packages.XXXXXX")
trap 'rm -f "$log"' EXIT

say() {
        echo "packages: $*"
}

die() {
        say "$*" >&2
        exit 1
}

installed() { # PACKAGE
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Print the first of the alternatives that is to be installed, or nothing if one is there.
missing() { # A|B
        local one
        for one in ${1//|/ }; do
                if installed "$one"; then
                        return
                fi
        done
        echo "${1%%|*}"
}

apt() {
        export DEBIAN_FRONTEND=noninteractive
        progress "$log" apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

update() {
        say "reading the package lists"
        # One broken source among several must not stop what the others have.
        apt update || say "apt-get update: $(tail -n 1 "$log")"
}

install_groups() {
        local group entry wanted=()
        for group in "$@"; do
                [ -n "${packages[$group]:-}" ] || die "'$group' is none of: ${!packages[*]} kernel"
                for entry in ${packages[$group]}; do
                        mapfile -t -O "${#wanted[@]}" wanted < <(missing "$entry")
                done
        done
        [ ${#wanted[@]} -gt 0 ] || return 0
        mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | sort -u)
        [ "$(id -u)" -eq 0 ] || die "missing, and only root can install: ${wanted[*]}"
        update
        say "installing ${wanted[*]}"
        apt install --no-install-recommends "${wanted[@]}" || die "$(tail -n 20 "$log")"
}

# A kernel that is installed would be offered by the boot menu of this machine, so it is only
# unpacked, below FOLDER.
fetch_kernel() { # FOLDER
        local folder=$1 package
        if compgen -G "/boot/vmlinuz-*-cloud-*" >/dev/null ||
                compgen -G "$folder/boot/vmlinuz-*-cloud-*" >/dev/null; then
                return
        fi
        kernel_package | grep -q . || update
        package=$(kernel_package)
        [ -n "$package" ] || die "Debian has no linux-image-cloud-$(dpkg --print-architecture)"
        say "fetching $package, the guest's kernel"
        mkdir -p "$folder/download"
        (cd "$folder/download" && apt -o APT::Sandbox::User=root download "$package") ||
                die "$(tail -n 20 "$log")"
        dpkg-deb -x "$folder/download/$package"_*.deb "$folder"
        rm -r "$folder/download"
}

kernel_package() {
        apt-cache depends "linux-image-cloud-$(dpkg --print-architecture)" 2>/dev/null |
                sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}

if [ "${1:-}" = kernel ] && [ $# -eq 2 ]; then
        fetch_kernel "$2"
elif [ $# -gt 0 ]; then
        install_groups "$@"
else
        sed -n '4,8s/^# \{0,1\}//p' "$0" >&2
        exit 2
fi
