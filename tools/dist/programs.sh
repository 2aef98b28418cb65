#!/bin/sh
# Compiles the examples 01 to 04 and the C tests that need no driver with the library installed in PREFIX, and runs
# them: programs.sh PREFIX OUT "COMPILER [OPTION...]" [RUN...]
#
# Runs in the folder of the sources. Each program is linked with the shared library; two also with the static one.
set -eu
prefix=$1
out=$2
compiler=$3
shift 3
rm -rf "$out"
mkdir -p "$out"
name=$(basename "$out")

run() {
    source=$1
    program=$2
    shift 2
    (cd "$out" && "$@" "$program" >"$program.log" 2>&1) || { echo "$source:"; cat "$program.log"; exit 1; } >&2
}

count=0
for source in examples-c/0[1-4]_*.c capi-tests/*.c; do
    exe='' libraries="-lpthread -ldl -lm -Wl,-rpath,$prefix/lib"
    case $compiler in
    *mingw*) platform=windows exe=.exe libraries=-lpthread ;;
    *musl*) platform=musl ;;
    *) platform=none ;;
    esac
    ! grep -q "run: .*not .*$platform" "$source" || continue
    program=$out/$(basename "$source" .c)$exe
    $compiler -std=gnu99 -O1 -w -I"$prefix/include" -Icapi-tests "$source" -o "$program" -L"$prefix/lib" -lcai $libraries
    run "$source" "$program" "$@"
    count=$((count + 1))
done
for source in examples-c/01_consume.c examples-c/02_produce.c; do
    case $compiler in
    *mingw*) native="-lws2_32 -luserenv -lntdll -lbcrypt -lkernel32" exe=.exe ;;
    *musl*) native="-lunwind" exe='' ;;
    *) native="-lgcc_s -lutil -lrt -lpthread -lm -ldl" exe='' ;;
    esac
    program=$out/static_$(basename "$source" .c)$exe
    # shellcheck disable=SC2086 # the words of the lists
    $compiler -std=gnu99 -O1 -w -DCAI_STATIC -I"$prefix/include" "$source" -o "$program" "$prefix/lib/libcai.a" $native
    run "$source" "$program" "$@"
    count=$((count + 1))
done
echo "$name: $count programs passed"
