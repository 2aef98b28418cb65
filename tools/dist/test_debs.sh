#!/bin/sh
# Installs the Debian packages in a fresh Debian and uses them: test_debs.sh [FOLDER] [RELEASE...], by default dist and
# bullseye, with the oldest C library that the archive still has, and trixie.
#
# The Debian is made below build/dist-test by mmdebstrap, from the machine's mirror. In it, without a network: apt
# installs the packages; the examples, programs found by pkg-config and CMake, and the README's first program are built
# and run; apt removes all. On a release whose C library is too old for cuda-sim, libcai alone is tested. Needs root.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
dist=$(cd "${1:-dist}" && pwd)
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- bullseye trixie
arch=$(dpkg --print-architecture)
folder=$here/build/dist-test
mkdir -p "$folder"

# The mirror and the keys, as for all that is unpacked from Debian.
if [ ! -x "$folder/tool/root/usr/bin/mmdebstrap" ]; then
    tools/debian/alone.sh "$folder/tool" "$(. /etc/os-release && echo "$VERSION_CODENAME")" mmdebstrap
fi
cd "$folder"
export kind=deb suite="$1"
# shellcheck source=/dev/null
. "$here/tools/debian/apt.sh"
unset APT_CONFIG
cd "$here"

for release; do
    base=$folder/$release.tar
    if [ ! -f "$base" ]; then
        perl "$folder/tool/root/usr/bin/mmdebstrap" --quiet --mode=root --variant=minbase \
            --include=gcc,g++,libc6-dev,pkg-config,cmake,make --aptopt='Acquire::Check-Valid-Until "false"' \
            "$release" "$folder/unfinished.tar" "deb [signed-by=$keys] $mirror $release main"
        mv "$folder/unfinished.tar" "$base"
    fi
    root=$folder/$release
    rm -rf "$root"
    mkdir "$root"
    tar -xf "$base" -C "$root" --exclude='./dev/*'
    mkdir -p "$root/w"
    cp "$dist"/libcai*_"$arch".deb "$dist"/cuda-sim_*_"$arch".deb "$root/w/"
    cp -R examples-c capi-tests/package README.md "$root/w/"
    headers=$(find "$here/build/venv/lib" -path '*/nvidia/cu13/include' -type d 2>/dev/null | head -n 1)
    [ -z "$headers" ] || cp -R "$headers" "$root/w/cuda"
    cp tools/dist/in_debian.sh "$root/w/"
    # shellcheck disable=SC2016 # expanded inside
    unshare --mount --net --pid --fork sh -c '
        mount -t proc proc "$1/proc"
        mount -t tmpfs dev "$1/dev"
        mknod -m 666 "$1/dev/null" c 1 3; mknod -m 444 "$1/dev/urandom" c 1 9; mkdir "$1/dev/shm"
        exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C sh /w/in_debian.sh
    ' sh "$root"
    echo "$release: the packages install, build programs, and go without a trace"
    rm -rf "$root"
done
