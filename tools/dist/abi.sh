#!/bin/sh
# The binary interface as libabigail sees it, for abidiff: abi.sh [FOLDER], by default dist.
#
# Unpacks libabigail from Debian's archive into build/abigail, where it is not installed.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
out=${1:-dist}
version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' Cargo.toml | head -n 1)

if command -v abidw >/dev/null; then
    abidw() { command abidw "$@"; }
else
    folder=${ABIGAIL:-$PWD/build/abigail}/root/usr
    [ -x "$folder/bin/abidw" ] || tools/debian/unpack.sh build/abigail "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
        abigail-tools
    abidw() { LD_LIBRARY_PATH="$folder/lib/$(uname -m)-linux-gnu" "$folder/bin/abidw" "$@"; }
fi
mkdir -p "$out"

# The dump of optimized code, where the functions of other crates have been inlined, names the types of the interface
# alone. The compilation units that have nothing to say bear the paths of this machine.
cargo rustc -q --locked --target-dir "$target/abi" --profile abi --lib --crate-type staticlib
CAI_LINK_STRIP='' abi/link.sh "$target/abi/abi/libcai.a" "$target/abi/abi/libcai.so" "${CC:-cc}"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$target/abi/abi/libcai.so" |
    sed -e '/<abi-instr [^\n]*$/{N;/\n *<\/abi-instr>/d}' |
    sed -e "s/\(<abi-instr .*path='\)[^']*'/\1libcai'/" >"$out/libcai-$version-x86_64-linux-gnu.abi"
