#!/bin/sh
# `make dist-test`: installs what is in dist/ where users would, and runs programs with it: test.sh [PART...]
#
# Parts: x86_64-linux-gnu (in Debian 11, with glibc 2.31, the oldest that Debian's archive still has, and in Debian 13),
# aarch64-linux-gnu and x86_64-windows-gnu (in Debian 13 with qemu-user and Wine), x86_64-linux-musl (with Zig's
# compiler and Debian's musl), check, source, debs and formats (scripts beside this one), and same, which builds the platforms
# in $SAME, or all, once more in another folder and compares. Needs what `make dist` and tools/targets need, and 3 GB
# more.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/targets.sh"
sources=$(cd "$here/../.." && pwd)
folder=$sources/build/dist-test
[ $# -gt 0 ] || set -- $TARGETS check source debs formats same
cd "$sources"
mkdir -p "$folder"
: >"$folder/Cargo.toml"

# In a Debian folder: inside FOLDER TARGET NAME. The archive is unpacked here, because not every system has xz.
inside() {
    rm -rf "$folder/trees/$2-$3"
    mkdir -p "$folder/trees/$2-$3"
    tar -xJf dist/libcai-*-"$2.tar.xz" -C "$folder/trees/$2-$3"
    "$sources/tools/targets/enter.sh" "$1" "$sources" "$folder/trees" sh /src/tools/dist/test_inside.sh "$2" "$3"
}

old() {
    "$sources/tools/debian/root.sh" "$folder/old" bullseye "$here/packages_old.txt"
    # The links that installing Debian 11 makes.
    for name in bin sbin lib lib64; do
        [ ! -L "$folder/old/root/$name" ] || continue
        mkdir -p "$folder/old/root/usr/$name"
        cp -a "$folder/old/root/$name/." "$folder/old/root/usr/$name/"
        rm -rf "$folder/old/root/$name"
        ln -s "usr/$name" "$folder/old/root/$name"
    done
    ln -sf dash "$folder/old/root/usr/bin/sh"
}

# Python's own files in the wheel for aarch64, in that system's Python.
arm64() {
    root=$folder/arm64/root
    more_archs=arm64 "$sources/tools/debian/root.sh" "$folder/arm64" trixie "$here/packages_arm64.txt"
    "$here/emulate.sh" "$root/usr/bin/qemu-aarch64" true || {
        echo "Python for aarch64 is left out: no binfmt_misc in namespaces here, as Linux has from 6.7 on"
        return 0
    }
    rm -rf "$folder/trees/arm64"
    mkdir -p "$folder/trees/arm64"
    # shellcheck disable=SC2016 # expanded inside
    CAI_TARGETS_ENTERED=1 "$here/emulate.sh" "$root/usr/bin/qemu-aarch64" "$sources/tools/targets/enter.sh" \
        "$folder/arm64" "$sources" "$folder/trees" sh -euc '
        python3 -m pip install -q --root-user-action=ignore --no-deps --no-index --target /libcai/arm64 \
            /src/dist/libcai-*manylinux2014_aarch64*.whl
        export PYTHONPATH=/libcai/arm64 LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu/blas:/usr/lib/aarch64-linux-gnu/lapack
        python3 /src/tools/dist/package.py'
}

musl() {
    out=$folder/trees/musl
    rm -rf "$out"
    mkdir -p "$out"
    "$here/cc.sh" x86_64-linux-musl "$out/cc"
    loader=$sources/build/dist-tools/debian/root/usr/lib/ld-musl-x86_64.so.1
    tar -xJf dist/libcai-*-x86_64-linux-musl.tar.xz -C "$out"
    python3 -m zipfile -e dist/libcai-*-musllinux_1_2_x86_64.whl "$out/site"
    "$here/programs.sh" "$(echo "$out"/libcai-*)" "$out/archive" "$out/cc -dynamic" "$loader"
    "$here/programs.sh" "$out/site/libcai" "$out/wheel" "$out/cc -dynamic" "$loader"
}

# The files of the commit, built again below another folder, with another cargo folder.
same() {
    again=$folder/again
    rm -rf "$again"
    mkdir -p "$again/build"
    git archive --format=tar HEAD | tar -x -C "$again"
    # The tools are the same; mount points must be folders of their own.
    mkdir "$again/build/dist-tools"
    cp -al build/dist-tools/debian build/dist-tools/venv build/dist-tools/Cargo.toml "$again/build/dist-tools/"
    touch "$again/build/dist-tools/venv/ready"
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$again/tools/dist/run.sh" ${SAME:-$TARGETS} >/dev/null
    for file in "$again"/dist/*; do
        cmp "$file" "dist/$(basename "$file")"
        echo "same: $(basename "$file")"
    done
    rm -rf "$again"
}

for part; do
    echo "--- $part"
    case $part in
    x86_64-linux-gnu)
        old
        inside "$folder/old" "$part" old
        "$sources/tools/targets/run.sh" setup
        inside "$sources/build/targets/debian" "$part" new
        ;;
    x86_64-linux-musl) musl ;;
    *-*-*)
        "$sources/tools/targets/run.sh" setup
        inside "$sources/build/targets/debian" "$part" new
        [ "$part" != aarch64-linux-gnu ] || arm64
        ;;
    same) same ;;
    *) [ ! -x "$here/test_$part.sh" ] || "$here/test_$part.sh" ;;
    esac
done
