#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# packages.sh GROUP...       install what this machine lacks of these groups of Debian packages
# packages.sh kernel FOLDER  see that there is a kernel for guests
# packages.sh qemu FOLDER    see that there is a QEMU that migrates guests under TCG
#
# Groups: build test vm style fuzz.  Nothing is downloaded and no privileges are needed if nothing
# is missing.
set -eu

# a|b: either will do, and a is what gets installed.
declare -A packages=(
        [build]="gcc libc6-dev meson ninja-build pkg-config|pkgconf python3 libdpdk-dev
                 libjansson-dev libyaml-dev libsystemd-dev libnuma-dev"
        [test]="libcmocka-dev dpdk-dev"
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
                [ -n "${packages[$group]:-}" ] ||
                        die "'$group' is none of: ${!packages[*]} kernel qemu"
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

# QEMU 7.2 under TCG corrupts the memory of a busy guest that migrates, whatever its NIC is.
migrates_well() { # PROGRAM
        local major
        major=$("$1" --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p')
        [ "${major:-0}" -ge 10 ]
}

# A QEMU of Debian's backports, unpacked below FOLDER: what is installed stays as it is.  Why there
# is none is kept for the tests that need it.
fetch_qemu() { # FOLDER
        local folder=$1 program=qemu-system-x86_64
        if migrates_well $program || migrates_well "$folder/$program"; then
                return
        fi
        mkdir -p "$folder"
        : >"$log"
        if unpack_backport "$folder" qemu-system-x86 && write_wrapper "$folder" $program &&
                migrates_well "$folder/$program"; then
                rm -f "$folder/why-not"
                return
        fi
        sed '/^$/d' "$log" | tail -n 1 >"$folder/why-not"
        [ -s "$folder/why-not" ] || echo "the backports have none" >"$folder/why-not"
        die "no QEMU 10 or newer: $(cat "$folder/why-not")"
}

# apt decides what this machine lacks, with sources and lists of its own, and only downloads.
unpack_backport() { # FOLDER PACKAGE
        local folder=$1 package=$2 suite deb
        suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
        mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial}
        configure_backports "$folder/apt" "$suite"
        say "fetching $package from $suite-backports"
        APT_CONFIG=$folder/apt/apt.conf apt -o APT::Update::Error-Mode=any update &&
                APT_CONFIG=$folder/apt/apt.conf apt --download-only --no-install-recommends \
                        -t "$suite-backports" install "$package" || return
        for deb in "$folder"/apt/cache/archives/*.deb; do
                dpkg-deb -x "$deb" "$folder" || return
        done
        rm -r "$folder/apt"
}

# The server is the one that this machine has Debian from.
configure_backports() { # FOLDER SUITE
        local folder=$1 suite=$2 part uri
        local key=/usr/share/keyrings/debian-archive-keyring.gpg
        uri=$(debian_uri "$suite")
        [ -n "$uri" ] || update
        uri=$(debian_uri "$suite")
        for part in "$suite" "$suite-backports"; do
                echo "deb [signed-by=$key] $uri $part main"
        done >"$folder/sources.list"
        printf '%s "%s";\n' >"$folder/apt.conf" \
                Dir::State::Lists "$folder/lists" Dir::Cache "$folder/cache" \
                Dir::Etc::SourceList "$folder/sources.list" Dir::Etc::SourceParts /dev/null \
                Debug::NoLocking 1 APT::Sandbox::User root
}

debian_uri() { # SUITE
        # shellcheck disable=SC2016
        apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Codename: $1" |
                head -n 1
}

# It finds what is beside it first, and the rest on this machine.
write_wrapper() { # FOLDER PROGRAM
        local folder=$1 program=$2 library
        library=$folder/usr/lib/x86_64-linux-gnu
        printf '%s\n' >"$folder/$program" '#!/bin/sh' \
                "export LD_LIBRARY_PATH='$library' QEMU_MODULE_DIR='$library/qemu'" \
                "exec '$folder/usr/bin/$program' -L '$folder/usr/share/qemu' \\" \
                "        -L '$folder/usr/share/seabios' \"\$@\""
        chmod +x "$folder/$program"
}

if [ "${1:-}" = kernel ] && [ $# -eq 2 ]; then
        fetch_kernel "$2"
elif [ "${1:-}" = qemu ] && [ $# -eq 2 ]; then
        fetch_qemu "$(realpath -m "$2")"
elif [ $# -gt 0 ]; then
        install_groups "$@"
else
        sed -n '4,9s/^# \{0,1\}//p' "$0" >&2
        exit 2
fi
