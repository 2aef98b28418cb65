#!/bin/sh
# Prints what an extension grows by when it uses an installed libcai, in bytes: sizes.sh PREFIX [LIBDIR]
#
# Each extension is linked twice, with and without libcai, by the compiler and the options that it prints. docs/src/packaging.md
# has the table; a test compares it with what `make install` gives.
set -eu
prefix=$(cd "$1" && pwd)
lib=$prefix/${2:-lib}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
export PKG_CONFIG_PATH="$lib/pkgconfig"
shared=$(pkg-config --libs cai)
static=$(pkg-config --libs --static cai | sed 's/-lcai/-l:libcai.a/')

# An extension that uses NAME...: build FILE OPTIONS NAME...
build() {
    file=$1 options=$2
    shift 2
    {
        test -z "$options" || printf 'extern char %s[];\n' "$@"
        echo 'const void *const used[] = {'
        for name; do
            test -z "$options" && echo used, || echo "$name,"
        done
        echo '};'
    } >used.c
    eval "${CC:-cc} -w -O2 -fPIC -shared used.c $options -o $file"
}

size() {
    stat -c %s "$1"
}

row() {
    uses=$1
    shift
    build without.so "" "$@"
    build shared.so "$shared" "$@"
    build static.so "$static" "$@"
    unstripped=$(($(size static.so) - $(size without.so)))
    strip without.so shared.so static.so
    echo "| $uses | $(($(size shared.so) - $(size without.so))) | $(($(size static.so) - $(size without.so))) | $unstripped |"
}

strip -o stripped.so "$lib/libcai.so"
echo "libcai $(pkg-config --modversion cai): libcai.so $(size stripped.so) bytes, libcai.a $(size "$lib/libcai.a") bytes"
echo "${CC:-cc} -O2 -fPIC -shared used.c $static -o extension.so"
echo
echo "| the extension uses | shared library | static library | static, not stripped |"
echo "|---|---|---|---|"
import="cai_array_from_python cai_array_consume_begin cai_array_consume_end cai_array_synchronize cai_array_release cai_python_raise"
row "\`cai_array_validate\`" cai_array_validate
# shellcheck disable=SC2086 # the words of the list
row "import" $import
# shellcheck disable=SC2086
row "import, validation and export" $import cai_array_validate cai_array_to_python cai_array_produce cai_array_create
# shellcheck disable=SC2046
row "everything" $(nm -D --defined-only "$lib/libcai.so" | sed -n 's/.* T \(cai_[a-z0-9_]*\).*/\1/p')
