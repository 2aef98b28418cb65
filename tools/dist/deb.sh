#!/bin/sh
# Debian packages: deb.sh [FOLDER], by default dist.
#
#   libcai1     the shared library, with the versions of its symbols
#   libcai-dev  headers, static library, pkg-config, CMake
#   cuda-sim    the simulated driver and the race checker
#
# libcai's are made of build/dist/TARGET/root, which `make dist` leaves for each processor, or of `make install` where
# that is not there; cuda-sim of `make install-sim`. LIBCAI_ROOT and CUDASIM_ROOT are other folders with what these
# install. DEB_MAINTAINER is the maintainer's name and address.
#
# Needs dpkg-deb and readelf. The same files give the same bytes.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
mkdir -p "${1:-dist}"
out=$(cd "${1:-dist}" && pwd)
version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' Cargo.toml | head -n 1)
major=$(sed -n 's/^pub const CAI_ABI_MAJOR: i32 = \([0-9]*\);$/\1/p' src/abi/version.rs)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
maintainer=${DEB_MAINTAINER:-The libcai authors <libcai@packages.example.org>}
mkdir -p build
work=$(mktemp -d "$here/build/deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022

architecture() {
    case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) dpkg --print-architecture ;;
    esac
}

# The packages of the C library and of the compiler's runtime that programs need: depends FILE...
depends() {
    glibc=$(readelf --version-info --wide "$@" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
    # Older releases had the unwinder under another name.
    echo "libc6 (>= $glibc), libgcc-s1 (>= 3.0) | libgcc1 (>= 1:3.0)"
}

# The files that every package has: documents PACKAGE PRODUCT
documents() {
    sources=.
    [ "$2" = libcai ] || sources=$2
    doc=$work/$1/usr/share/doc/$1
    mkdir -p "$doc"
    {
        echo "$2, $version"
        echo
        sed -n '3,$p' "$sources/LICENSE-MIT"
        echo
        echo "Alternatively, at your option, under the Apache License, version 2.0. On Debian systems its text is in"
        echo "/usr/share/common-licenses/Apache-2.0."
        echo
        echo "The binaries contain code of the following packages. Where there is a choice of licences that includes"
        echo "Apache-2.0, that one is used."
        echo
        python3 tools/dist/sbom.py --notices "$2"
    } >"$doc/copyright"
    {
        echo "$1 ($version-1) unstable; urgency=medium"
        echo
        echo "  * Release $version."
        echo
        echo " -- $maintainer  $(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')"
    } | sed "1s/^$1/$2/" | gzip -9n >"$doc/changelog.Debian.gz"
    gzip -9n <"$sources/CHANGELOG.md" >"$doc/changelog.gz"
}

# Writes control, with what is read from standard input at its end, and packs: package NAME ARCHITECTURE
package() {
    folder=$work/$1
    find "$folder" -type d -exec chmod 755 {} +
    mkdir -p "$folder/DEBIAN"
    size=$(cd "$folder" && find . -path ./DEBIAN -prune -o -type f -printf '%s\n' | awk '{s += int(($1 + 1023) / 1024)}
        END {print s}')
    {
        echo "Package: $1"
        [ "$1" = cuda-sim ] || echo "Source: libcai"
        echo "Version: $version-1"
        echo "Architecture: $2"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $size"
        cat
    } >"$folder/DEBIAN/control"
    (cd "$folder" && find usr -type f | LC_ALL=C sort | xargs -d '\n' md5sum >DEBIAN/md5sums)
    find "$folder" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz -z6 --threads-max=1 --build "$folder" "$out/$1_$version-1_$2.deb" >/dev/null
    rm -rf "$folder"
}

about=' libcai describes, checks, keeps alive and exchanges GPU arrays between
 libraries and languages: structures for what __cuda_array_interface__ holds,
 owners with reference counts, order between streams, and conversions from and
 to Python objects, DLPack and Arrow.'
# libcai1 and libcai-dev: library_packages MACHINE ROOT, where ROOT has include, lib and share.
library_packages() {
    arch=$(architecture "$1")
    triplet=$1-linux-gnu
    run=$work/libcai$major
    dev=$work/libcai-dev
    lib=usr/lib/$triplet
    mkdir -p "$run/$lib" "$dev/$lib" "$dev/usr/include"
    cp "$2/lib/libcai.so.$version" "$run/$lib/"
    chmod 644 "$run/$lib/libcai.so.$version"
    ln -s "libcai.so.$version" "$run/$lib/libcai.so.$major"
    cp -R "$2/include/cai" "$dev/usr/include/"
    cp "$2/lib/libcai.a" "$dev/$lib/"
    ln -s "libcai.so.$major" "$dev/$lib/libcai.so"
    # One folder deeper than in a prefix. /lib may be a link to /usr/lib: what lies above is the parent of the real
    # folder.
    mkdir "$dev/$lib/cmake" "$dev/$lib/pkgconfig"
    cp -R "$2/lib/cmake/cai" "$dev/$lib/cmake/"
    sed -i -e "s|^get_filename_component(PACKAGE_PREFIX_DIR .*|get_filename_component(PACKAGE_PREFIX_DIR\
 \"\${CMAKE_CURRENT_LIST_DIR}\" REALPATH)\nget_filename_component(PACKAGE_PREFIX_DIR\
 \"\${PACKAGE_PREFIX_DIR}/../../../..\" ABSOLUTE)|" \
        -e "s|\${PACKAGE_PREFIX_DIR}/lib\"|\${PACKAGE_PREFIX_DIR}/lib/$triplet\"|" \
        "$dev/$lib/cmake/cai/caiConfig.cmake"
    sed -e 's|^prefix=.*|prefix=/usr|' -e "s|^libdir=.*|libdir=\${prefix}/lib/$triplet|" "$2/lib/pkgconfig/cai.pc" \
        >"$dev/$lib/pkgconfig/cai.pc"
    find "$dev" -type f -exec chmod 644 {} +

    documents "libcai$major" libcai
    mkdir "$run/DEBIAN"
    echo "libcai $major libcai$major (>= $version)" >"$run/DEBIAN/shlibs"
    # The first release that has a node of abi/map.sh also has its symbols.
    {
        echo "libcai.so.$major libcai$major #MINVER#"
        readelf --dyn-syms --wide "$run/$lib/libcai.so.$version" | grep -o ' cai_[a-z0-9_]*@@CAI_[A-Z0-9_.]*\| CAI_[A-Z0-9_.]*$' |
            sed -e 's/@@/@/' -e 's/^ \(CAI_.*\)$/ \1@\1/' | LC_ALL=C sort -u | while read -r symbol; do
            since=$(sed -n "s/^${symbol#*@} //p" abi/nodes.txt)
            [ -n "$since" ] || { echo "abi/nodes.txt has no line for ${symbol#*@}" >&2; exit 1; }
            echo " $symbol $since"
        done
    } >"$run/DEBIAN/symbols"
    echo "activate-noawait ldconfig" >"$run/DEBIAN/triggers"
    package "libcai$major" "$arch" <<EOF
Depends: $(depends "$run/$lib/libcai.so.$version")
Suggests: cuda-sim
Section: libs
Priority: optional
Multi-Arch: same
Description: CUDA Array Interface for C: shared library
$about
 .
 It finds the CUDA driver when it needs it, and works without one.
 .
 This package contains the shared library.
EOF

    documents libcai-dev libcai
    package libcai-dev "$arch" <<EOF
Depends: libcai$major (= $version-1)
Section: libdevel
Priority: optional
Multi-Arch: same
Description: CUDA Array Interface for C: development files
$about
 .
 This package contains the headers for C and C++, the static library, a
 pkg-config file and a CMake package.
EOF
}

# ROOT has bin, include, lib/cuda-sim and share/man: simulator_package MACHINE ROOT
simulator_package() {
    arch=$(architecture "$1")
    version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' cuda-sim/Cargo.toml | head -n 1)
    folder=$work/cuda-sim
    mkdir -p "$folder/usr"
    cp -R "$2/bin" "$2/include" "$2/lib" "$folder/usr/"
    mkdir "$folder/usr/share"
    cp -R "$2/share/man" "$folder/usr/share/"
    gzip -9n "$folder/usr/share/man/man1/cuda-sim.1"
    ln -s cuda-sim.1.gz "$folder/usr/share/man/man1/cai-race.1.gz"
    rm "$folder/usr/share/man/man1/cai-race.1"
    find "$folder/usr" -type f -exec chmod 644 {} +
    chmod 755 "$folder/usr/bin/cuda-sim"
    find "$folder/usr/lib" -name '*.so*' -type f -exec strip --strip-unneeded {} +
    strip "$folder/usr/bin/cuda-sim"
    documents cuda-sim cuda-sim
    needed=$(find "$folder/usr/lib" -name '*.so*' -type f)
    # shellcheck disable=SC2086 # the words of the list
    package cuda-sim "$arch" <<EOF
Depends: $(depends "$folder/usr/bin/cuda-sim" $needed)
Section: devel
Priority: optional
Description: CUDA driver without a GPU, and a checker for data races
 cuda-sim runs programs that use the CUDA driver on a machine without a GPU: it
 has memory, streams, events and graphs, executes copies, and runs only what a
 wait requires, so that missing waits show. Kernels are not executed.
 .
 The same checker for data races between streams follows programs on a real
 driver.
EOF
}

stage=$work/stage
machines=
[ -n "${LIBCAI_ROOT:-}" ] || for machine in x86_64 aarch64; do
    [ ! -d "build/dist/$machine-linux-gnu/root" ] || machines="$machines $machine"
done
for machine in $machines; do
    library_packages "$machine" "$here/build/dist/$machine-linux-gnu/root"
done
if [ -z "$machines" ]; then
    if [ -z "${LIBCAI_ROOT:-}" ]; then
        make --silent install PREFIX=/usr DESTDIR="$stage" >/dev/null
        LIBCAI_ROOT=$stage/usr
    fi
    library_packages "$(uname -m)" "$LIBCAI_ROOT"
fi
if [ -z "${CUDASIM_ROOT:-}" ]; then
    make --silent install-sim PREFIX=/usr DESTDIR="$stage/sim"
    CUDASIM_ROOT=$stage/sim/usr
fi
simulator_package "$(uname -m)" "$CUDASIM_ROOT"
