#!/bin/sh
# Compares what the shared library of build/dist/TARGET exports and requires with what it must: symbols.sh TARGET
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/targets.sh"
target "$1"
cd "$here/../.."
found=build/dist/$1/symbols.txt
library=build/dist/$1/root/lib/libcai.so
case $1 in *-windows-*) library=build/dist/$1/root/bin/cai.dll ;; esac

case $1 in
*-windows-*)
    objdump -p "$library" >"$found.all"
    # A line of the table of names: [ordinal] +base[ n] hint NAME
    sed -n '/\[Ordinal\/Name Pointer\] Table/,/^$/s/^[ \t]*\[ *[0-9].*[ \t]\([^ \t]*\)$/\1/p' "$found.all"
    ;;
*)
    readelf --dyn-syms --wide "$library" >"$found.all"
    awk '$5 == "GLOBAL" && $7 != "UND" && $4 != "OBJECT" { sub(/@.*/, "", $8); print $8 }' "$found.all"
    ;;
esac | LC_ALL=C sort >"$found"
sed '/^#/d; s/ .*//' abi/symbols.txt | diff -u - "$found" || { echo "$library: exports other symbols than abi/symbols.txt" >&2; exit 1; }

case $1 in *-linux-gnu)
    newest=$(printf '2.17\n'; grep -o '@GLIBC_[0-9.]*' "$found.all" | sed 's/@GLIBC_//')
    newest=$(printf '%s\n' "$newest" | sort -uV | tail -n 1)
    [ "$newest" = 2.17 ] || { echo "$library: needs glibc $newest" >&2; exit 1; } ;;
esac
