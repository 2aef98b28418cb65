#!/bin/sh
# Runs programs with the archive of TARGET, which lies unpacked in /libcai/TARGET-NAME, and installs its wheel and
# does the same, in a folder of another system, in /src: test_inside.sh TARGET NAME (called by test.sh)
set -eu
target=$1
here=/src/tools/dist
out=/libcai/$target-$2
cd /src
root=$(echo "$out"/libcai-*)
unset CAI_CUDA_DRIVER

case $target in
x86_64-linux-gnu)
    $here/programs.sh "$root" "$out/archive" gcc
    # pip, CMake and pkg-config, where the folder has them.
    if command -v pip3 >/dev/null; then
        pip3 install -q --no-deps --no-index --target "$out/site" dist/libcai-*manylinux2014_x86_64*.whl
        wheel=$out/site/libcai
    fi
    if command -v cmake >/dev/null; then
        cmake -S examples-c -B "$out/cmake" -DCMAKE_PREFIX_PATH="$root" >"$out/cmake.log"
        cmake --build "$out/cmake" >>"$out/cmake.log"
        (cd "$out/cmake" && ./01_consume >/dev/null && ./02_produce >/dev/null)
        echo "CMake $(cmake --version | sed -n 's/cmake version //p'): examples passed"
    fi
    if command -v pkg-config >/dev/null; then
        # shellcheck disable=SC2046 # the words of pkg-config
        PKG_CONFIG_PATH=$root/lib/pkgconfig gcc examples-c/02_produce.c -o "$out/with_pkg_config" \
            $(PKG_CONFIG_PATH=$root/lib/pkgconfig pkg-config --cflags --libs cai)
        LD_LIBRARY_PATH=$root/lib "$out/with_pkg_config" >/dev/null
        echo "pkg-config: an example passed"
    fi
    ;;
aarch64-linux-gnu)
    $here/programs.sh "$root" "$out/archive" aarch64-linux-gnu-gcc qemu-aarch64
    ;;
x86_64-windows-gnu)
    # Where the loader looks for DLLs, besides the folder of the program. The second folder has one that Wine needs.
    export WINEDEBUG=-all WINEPREFIX=/libcai/wine
    dlls() {
        WINEPATH="Z:$(echo "$1" | tr / '\\');Z:\\usr\\x86_64-w64-mingw32\\lib"
        export WINEPATH
    }
    dlls "$root/bin"
    $here/programs.sh "$root" "$out/archive" x86_64-w64-mingw32-gcc wine64
    ;;
esac

# The wheel: unpacked where there is no pip for that platform.
if [ -z "${wheel:-}" ]; then
    case $target in
    x86_64-linux-gnu) tag=manylinux2014_x86_64 ;;
    aarch64-linux-gnu) tag=manylinux2014_aarch64 ;;
    x86_64-windows-gnu) tag=win_amd64 ;;
    esac
    python3 -m zipfile -e dist/libcai-*"$tag"*.whl "$out/site"
    wheel=$out/site/libcai
elif [ "$target" = x86_64-linux-gnu ]; then
    PYTHONPATH=$out/site python3 $here/package.py
fi
case $target in
x86_64-linux-gnu) $here/programs.sh "$wheel" "$out/wheel" gcc ;;
aarch64-linux-gnu) $here/programs.sh "$wheel" "$out/wheel" aarch64-linux-gnu-gcc qemu-aarch64 ;;
x86_64-windows-gnu)
    dlls "$wheel/bin"
    $here/programs.sh "$wheel" "$out/wheel" x86_64-w64-mingw32-gcc wine64
    ;;
esac
