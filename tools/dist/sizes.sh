#!/bin/sh
# Measures what `make dist` made for x86-64, in bytes, and fails where it grew beyond what docs/src/packaging.md says:
# sizes.sh [LIMIT...] (of the shared library, a bundle of cai_array_validate, one with streams and Python)
#
# A bundle is an extension that links the static library with the options that the packages state; all are stripped.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD/build/dist/x86_64-linux-gnu/root
out=$PWD/build/dist/sizes
rm -rf "$out"
mkdir -p "$out"

bundle() {
    name=$1
    shift
    {
        echo '#include <cai/cai.h>'
        echo '#include <cai/python.h>'
        echo "const void *const used[] = {"
        printf '    (const void *)%s,\n' "$@"
        echo "};"
    } >"$out/$name.c"
    ${CC:-cc} -w -O2 -fPIC -shared -DCAI_STATIC -I"$root/include" "$out/$name.c" -o "$out/$name.so" "$root/lib/libcai.a" \
        -Wl,--exclude-libs,libcai.a -Wl,--gc-sections -Wl,-z,nodelete -lgcc_s -lpthread -ldl -lm -s
    stat -c %s "$out/$name.so"
}

cp "$root/lib/libcai.so" "$out/shared.so"
check() {
    echo "$1: $2 bytes"
    [ "$2" -le "$3" ] || { echo "$1: the limit is $3 bytes" >&2; failed=yes; }
}
failed=
check "shared library" "$(stat -c %s "$out/shared.so")" "${1:-480000}"
check "bundle of cai_array_validate" "$(bundle validate cai_array_validate)" "${2:-120000}"
check "bundle with streams and Python" "$(bundle whole cai_array_validate cai_array_from_python cai_array_to_python \
    cai_array_consume_begin cai_array_consume_end cai_array_produce cai_array_release)" "${3:-360000}"
[ -z "$failed" ]
