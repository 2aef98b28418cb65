#!/bin/sh
# Runs a command inside the Debian folder, with the sources at /src and build/targets/libcai at /libcai:
# enter.sh FOLDER SOURCES WORK COMMAND...
#
# A mount namespace of its own, so that nothing stays mounted afterwards. Without root, a user namespace too.
set -eu
root=$1/root
sources=$2
work=$3
shift 3
if [ -z "${CAI_TARGETS_ENTERED:-}" ]; then
    [ "$(id -u)" -eq 0 ] && user= || user=--map-root-user
    # shellcheck disable=SC2086 # one option or none
    CAI_TARGETS_ENTERED=1 exec unshare --mount $user "$0" "${root%/root}" "$sources" "$work" "$@"
fi
mkdir -p "$work/cargo" "$work/home"
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount --bind "$sources" "$root/src"
# Cargo looks through the sources for changes. It must not find this folder in them, nor the other builds.
for ignored in build target; do
    [ ! -d "$root/src/$ignored" ] || mount -t tmpfs none "$root/src/$ignored"
done
mount --bind "$work" "$root/libcai"
cp /etc/resolv.conf "$root/etc/resolv.conf"
exec env -u TMPDIR -u RUSTUP_HOME -u RUSTUP_TOOLCHAIN -u RUSTC -u RUSTFLAGS -u MAKEFLAGS \
    PATH=/usr/bin:/usr/sbin:/usr/lib/wine HOME=/libcai/home CARGO_HOME=/libcai/cargo CARGO_TARGET_DIR=/libcai/target \
    LANG=C.UTF-8 chroot "$root" "$@"
