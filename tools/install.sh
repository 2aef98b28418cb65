#!/bin/sh
# Installs the library with CMake: finds one, builds, installs, and prints what the user has to set.
#
# Variables: PREFIX, DESTDIR, LIBDIR (below PREFIX), CARGO_TARGET_DIR, and CMAKE, the program, if it is not in PATH.
# Nothing is remembered between two calls: CMake starts from an empty folder each time.
set -eu
cd "$(dirname "$0")/.."
case $PREFIX in /*) ;; *) PREFIX=$PWD/$PREFIX ;; esac
case $LIBDIR in
/*)
    echo "LIBDIR is $LIBDIR, an absolute path. It lies below PREFIX: write lib or lib/x86_64-linux-gnu." >&2
    exit 2
    ;;
esac
needed=$(sed -n 's/^cmake_minimum_required(VERSION \([0-9.]*\))$/\1/p' CMakeLists.txt)

# A program of that name may be something else, such as a shim that finds no CMake.
find_cmake() {
    old=
    set -- cmake build/cmake/bin/cmake build/venv/bin/cmake
    test -z "$CMAKE" || set -- "$CMAKE"
    for cmake; do
        found=$("$cmake" --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
        if test -n "$found"; then
            if printf '%s\n' "$needed" "$found" | sort -CV; then
                return
            fi
            old="$old ($cmake is $found)"
        fi
    done
    cat >&2 <<TEXT
make install needs CMake $needed or later, and found none$old.
Install it as a package: apt install cmake, dnf install cmake. Or with pip, in this folder:
    python3 -m venv build/cmake && build/cmake/bin/python -m pip install cmake
    export PATH="$PWD/build/cmake/bin:\$PATH"        # for your own builds
Or name the program: make install CMAKE=/path/to/cmake
TEXT
    exit 1
}

# The colon-separated list $1 has the folder $2.
has() {
    case ":$1:" in *":$2:"* | *":$2/:"*) ;; *) false ;; esac
}

# Prints what is not set yet.
advice() {
    lib=$PREFIX/$LIBDIR
    pc=$lib/pkgconfig
    has "${PKG_CONFIG_PATH:-}:$(pkg-config --variable=pc_path pkg-config 2>/dev/null)" "$pc" ||
        echo "  export PKG_CONFIG_PATH=\"$pc\${PKG_CONFIG_PATH:+:\$PKG_CONFIG_PATH}\""
    # CMake looks in these, and below the parents of the folders of PATH.
    has "/usr:/usr/local:${CMAKE_PREFIX_PATH:-}" "$PREFIX" || has "$PATH" "$PREFIX/bin" ||
        echo "  export CMAKE_PREFIX_PATH=\"$PREFIX\${CMAKE_PREFIX_PATH:+:\$CMAKE_PREFIX_PATH}\""
    # ldconfig lies outside of many users' PATH. -N and -X change neither cache nor links.
    PATH=$PATH:/usr/sbin:/sbin
    if ldconfig -v -N -X 2>/dev/null | sed -n 's/^\(\/[^:]*\):.*/\1/p' | grep -qxF "$lib"; then
        ldconfig -p | grep -qF " => $lib/libcai.so." ||
            echo "  ldconfig                      # as root, once: programs then find the library"
    elif ! has "${LD_LIBRARY_PATH:-}" "$lib"; then
        echo "  export LD_LIBRARY_PATH=\"$lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\""
        echo "      # or store the folder in your programs: -Wl,-rpath,$lib"
    fi
}

find_cmake
echo "Building libcai (a minute), then installing it below $DESTDIR$PREFIX"
mkdir -p build
build=$(mktemp -d build/install.XXXXXX)
trap 'rm -rf "$build"' EXIT
{
    "$cmake" -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PREFIX" \
        -DCMAKE_INSTALL_LIBDIR="$LIBDIR" -DCAI_BUILD_EXAMPLES=OFF -DCAI_CARGO_TARGET_DIR="$CARGO_TARGET_DIR"
    "$cmake" --build "$build"
    "$cmake" --install "$build"
} >/dev/null
echo "Installed libcai: headers, shared and static library, CMake package, pkg-config file"
# A staged tree is used from elsewhere.
if test -z "$DESTDIR"; then
    text=$(advice)
    test -z "$text" || printf 'To use it from there:\n%s\n' "$text"
fi
