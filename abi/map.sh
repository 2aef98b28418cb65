#!/bin/sh
# Prints the symbol versions of the shared library, as a script for the linker: map.sh [SYMBOLS MAJOR MINOR]
#
# A core function never changes its node. A minor release replaces the unstable node: a program that uses one of its
# functions then fails to start. The second release candidate began a node of another name than CAI_1.0, that of the first:
# programs that pass arguments in the order of that one do not start.
set -eu
here=$(dirname "$0")
number() {
    sed -n "s/^pub const CAI_ABI_$1: i32 = \([0-9]*\);$/\1/p" "$here/../src/abi/version.rs"
}
awk -v major="${2:-$(number MAJOR)}" -v minor="${3:-$(number MINOR)}" '
    function node(name, names, end) { printf "%s {\n    global:\n%s%s;\n", name, names, end }
    /^#/ { next }
    { name = "        " $1 ";\n" }
    $2 ~ /^unstable\// { unstable = unstable name; next }
    { split($3, since, "."); core[since[2]] = core[since[2]] name; last = since[2] > last + 0 ? since[2] : last + 0 }
    END {
        for (at = 0; at <= last; at++) {
            if (!(at in core)) continue
            name = "CAI_" major (at > 0 ? "." at : "")
            node(name, core[at], before ? "}" before : "    local: *;\n}")
            before = " " name
        }
        if (unstable) node("CAI_UNSTABLE_" major "_" minor, unstable, "}")
    }
' "${1:-$here/symbols.txt}"
