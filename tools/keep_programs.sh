#!/bin/sh
# Compiles the programs that tests keep, with the headers of these sources: keep_programs.sh
#
# Writes tests/kept/VERSION-MACHINE.tar.xz, for example 0.10-x86_64, unless this is a patch release. They are kept as
# assembly: a compiler of this release has decided sizes, offsets, constants and inline bodies, but nothing of a linker's or a
# C library's age is in them, and they can be read. Each function is bound to its symbol version, as the linker binds it.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\([0-9]*\.[0-9]*\)\.0"$/\1/p' Cargo.toml | head -n 1)
test -n "$version" || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
abi/map.sh >"$folder/map"

# keep NAME SOURCE COMPILER...
keep() {
    made=$folder/$1.s source=$2
    shift 2
    set -- "$@" -O1 -fPIC -fno-ident -fcf-protection=none -Iinclude -Icapi-tests -S
    "$@" -o "$folder/new" "$source"
    {
        echo "# $* $source"
        cat "$folder/new"
        sed -n -e 's/^\(CAI_[0-9.]*\) {$/\1/p' -e 's/^        \(cai_.*\);$/\1/p' "$folder/map" | while read -r word; do
            case $word in
            CAI_*) node=$word ;;
            *) ! grep -qw "$word" "$folder/new" || echo "	.symver $word, $word@$node" ;;
            esac
        done
    } >"$made"
}

keep core tests/kept/core.c gcc -std=gnu99 -fvisibility=hidden
keep copy capi-tests/special/copy.c gcc -std=gnu99 -fvisibility=hidden
keep cpp capi-tests/abi/cpp_age.cpp g++ -std=c++17 -DAGE=plugin
tar -C "$folder" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c core.s copy.s cpp.s |
    xz -9e >"tests/kept/$version-$(uname -m).tar.xz"
