#!/bin/sh
# Makes the installed tree for Windows, which CMake's rules for ELF do not: stage.sh VERSION BUILT ROOT (called by
# target.sh). BUILT is cargo's folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$1
built=$2
root=$3
package=$root/lib/cmake/cai
mkdir -p "$root/bin" "$root/include" "$root/lib/pkgconfig" "$package" "$root/share/licenses/cai"
cp "$built/stripped.dll" "$root/bin/cai.dll"
cp "$built/libcai.dll.a" "$built/libcai.a" "$root/lib/"
cp -R "$here/../../../include/cai" "$here/../../../contrib/include/cai" "$root/include/"
cp "$here"/../../../LICENSE-* "$root/share/licenses/cai/"
cp "$here/caiConfig.cmake" "$package/"
sed "s/@CAI_VERSION@/$version/" "$here/cai.pc" >"$root/lib/pkgconfig/cai.pc"
cat >"$package/version.txt" <<SCRIPT
set(CAI_VERSION $version)
set(CMAKE_SIZEOF_VOID_P 8)
configure_file("$here/../../../cmake/caiConfigVersion.cmake.in" "$package/caiConfigVersion.cmake" @ONLY)
SCRIPT
cmake -P "$package/version.txt"
rm "$package/version.txt"
chmod 644 "$root/lib/"*.a
