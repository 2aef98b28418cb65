#!/bin/sh
# Installs the library with CMake, or removes what was installed: install.sh install, install.sh uninstall
#
# Variables: PREFIX, DESTDIR, LIBDIR (below PREFIX), CARGO_TARGET_DIR, and CMAKE, the program, where it is not in the PATH.
# Nothing is remembered between two calls: CMake starts from an empty folder each time, and what is removed follows
# from the sources.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-lib}
destdir=${DESTDIR:-}
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
case $libdir in
/*)
    echo "LIBDIR is $libdir, an absolute path. It lies below PREFIX: write lib or lib/x86_64-linux-gnu." >&2
    exit 2
    ;;
esac
version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' "$here/Cargo.toml" | head -n 1)
major=$(sed -n 's/^pub const CAI_ABI_MAJOR: i32 = \([0-9]*\);$/\1/p' "$here/src/abi/version.rs")
needed=$(sed -n 's/^cmake_minimum_required(VERSION \([0-9.]*\))$/\1/p' "$here/CMakeLists.txt")

# Whether a program is a CMake, and new enough; its version is left in `$found`. A program of that name may be something
# else, such as a shim that finds no CMake.
usable() {
    found=$("$1" --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p') || found=
    test -n "$found" || return 1
    test "$(printf '%s\n%s\n' "$needed" "$found" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$needed"
}

find_cmake() {
    old=
    if test -n "${CMAKE:-}"; then
        set -- "$CMAKE"
    else
        set -- cmake "$here/build/cmake/bin/cmake" "$here/build/venv/bin/cmake"
    fi
    for cmake; do
        if usable "$cmake"; then
            return
        fi
        old="$old${found:+ ($cmake is $found)}"
    done
    cat >&2 <<EOF
make install needs CMake $needed or later, and found none$old.
Install it as a package: apt install cmake, dnf install cmake. Or with pip, in this folder:
    python3 -m venv build/cmake && build/cmake/bin/python -m pip install cmake
    export PATH="$here/build/cmake/bin:\$PATH"        # for your own builds
Or name the program: make install CMAKE=/path/to/cmake
EOF
    exit 1
}

# The colon-separated list $1 has the folder $2.
has() {
    case ":$1:" in *":$2:"* | *":$2/:"*) return 0 ;; esac
    return 1
}

# Whether the dynamic linker's cache is made from a folder. -N and -X change neither cache nor links. ldconfig lies
# outside of many users' PATH.
cached() {
    PATH=$PATH:/usr/sbin:/sbin ldconfig -v -N -X 2>/dev/null | sed -n 's/^\(\/[^:]*\):.*/\1/p' | grep -qxF "$1"
}

# What the user has to set before compilers and programs find the library: only what is not set, or needless.
advice() {
    lib=$prefix/$libdir
    pc=$lib/pkgconfig
    if ! has "${PKG_CONFIG_PATH:-}" "$pc" &&
        ! has "$(pkg-config --variable=pc_path pkg-config 2>/dev/null || true)" "$pc"; then
        echo "  export PKG_CONFIG_PATH=\"$pc\${PKG_CONFIG_PATH:+:\$PKG_CONFIG_PATH}\""
    fi
    # CMake looks in these, and below the parents of the folders of PATH.
    if ! has "/usr:/usr/local:${CMAKE_PREFIX_PATH:-}" "$prefix" && ! has "$PATH" "$prefix/bin"; then
        echo "  export CMAKE_PREFIX_PATH=\"$prefix\${CMAKE_PREFIX_PATH:+:\$CMAKE_PREFIX_PATH}\""
    fi
    if cached "$lib"; then
        PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -qF " => $lib/libcai.so.$major" ||
            echo "  ldconfig                      # as root, once: programs then find the library"
    elif ! has "${LD_LIBRARY_PATH:-}" "$lib"; then
        echo "  export LD_LIBRARY_PATH=\"$lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\""
        echo "      # or store the folder in your programs: -Wl,-rpath,$lib"
    fi
}

# Prints the output of a command if it fails.
quietly() {
    "$@" >"$build/log" 2>&1 || {
        cat "$build/log" >&2
        exit 1
    }
}

install() {
    find_cmake
    echo "Building libcai (a minute), then installing it below $destdir$prefix"
    mkdir -p "$here/build"
    build=$(mktemp -d "$here/build/install.XXXXXX")
    trap 'rm -rf "$build"' EXIT
    quietly "$cmake" -S "$here" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR="$libdir" -DCAI_BUILD_EXAMPLES=OFF \
        "-DCAI_CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target}"
    quietly "$cmake" --build "$build"
    export DESTDIR="$destdir"
    quietly "$cmake" --install "$build"
    echo "Installed libcai $version: headers, libcai.so.$major, libcai.a, CMake package, pkg-config file"
    # A staged tree is used from elsewhere.
    if test -z "$destdir"; then
        text=$(advice)
        test -z "$text" || printf 'To use it from there:\n%s\n' "$text"
    fi
}

# Removes these files, and the library's own folders where they are empty then. What others put there stays.
uninstall() {
    root=$destdir$prefix
    for header in "$here"/include/cai/*; do
        rm -f "$root/include/cai/$(basename "$header")"
    done
    for name in libcai.a libcai.so "libcai.so.$major" "libcai.so.$version" pkgconfig/cai.pc \
        cmake/cai/caiConfig.cmake cmake/cai/caiConfigVersion.cmake cmake/cai/caiTargets.cmake; do
        rm -f "$root/$libdir/$name"
    done
    rm -f "$root"/share/licenses/cai/LICENSE-*
    for folder in include/cai "$libdir/cmake/cai" share/licenses/cai; do
        rmdir "$root/$folder" 2>/dev/null || true
    done
    echo "Removed libcai $version from $root"
}

case ${1:-} in
install) install ;;
uninstall) uninstall ;;
*)
    echo "usage: install.sh install | uninstall" >&2
    exit 2
    ;;
esac
