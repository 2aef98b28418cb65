#!/bin/sh
# Runs programs with the archive of TARGET, which lies unpacked in /libcai/TARGET-NAME, and installs its wheel and
# does the same, in a folder of another system, in /src: test_inside.sh TARGET NAME (called by test.sh)
set -eu
here=/src/tools/dist
. $here/targets.sh
target "$1"
out=/libcai/$1-$2
cd /src
unset CAI_CUDA_DRIVER
case $1 in
x86_64-linux-gnu) with=gcc ;;
aarch64-linux-gnu) with="aarch64-linux-gnu-gcc qemu-aarch64" ;;
x86_64-windows-gnu)
    with="x86_64-w64-mingw32-gcc wine64"
    export WINEDEBUG=-all WINEPREFIX=/libcai/wine
    ;;
esac
programs() {
    # Where the loader looks for DLLs, besides the folder of the program. The second folder has one that Wine needs.
    WINEPATH="Z:$(echo "$1/bin" | tr / '\\');Z:\\usr\\x86_64-w64-mingw32\\lib"
    export WINEPATH
    # shellcheck disable=SC2086 # the compiler, and what runs its programs
    $here/programs.sh "$1" "$out/$2" $with
}
# Whether programs of the target run here as they are, and the folder has this one.
native() {
    [ "$with" = gcc ] && command -v "$1" >/dev/null
}

root=$(echo "$out"/libcai-*)
programs "$root" archive
if native cmake; then
    cmake -S examples-c -B "$out/cmake" -DCMAKE_PREFIX_PATH="$root" >"$out/cmake.log"
    cmake --build "$out/cmake" >>"$out/cmake.log"
    (cd "$out/cmake" && ./01_consume >/dev/null && ./02_produce >/dev/null)
    echo "CMake $(cmake --version | sed -n 's/cmake version //p'): examples passed"
fi
if native pkg-config; then
    # shellcheck disable=SC2046 # the words of pkg-config
    PKG_CONFIG_PATH=$root/lib/pkgconfig gcc examples-c/02_produce.c -o "$out/with_pkg_config" \
        $(PKG_CONFIG_PATH=$root/lib/pkgconfig pkg-config --cflags --libs cai)
    LD_LIBRARY_PATH=$root/lib "$out/with_pkg_config" >/dev/null
    echo "pkg-config: an example passed"
fi
if native pip3; then
    pip3 install -q --no-deps --no-index --target "$out/site" dist/libcai-*"$tag"*.whl
    PYTHONPATH=$out/site python3 $here/package.py
else
    # There is no pip for that platform.
    python3 -m zipfile -e dist/libcai-*"$tag"*.whl "$out/site"
fi
programs "$out/site/libcai" wheel
