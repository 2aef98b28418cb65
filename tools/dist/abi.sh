#!/bin/sh
# The binary interface beside that of the last release, as libabigail sees both.
#
#   abi.sh tools         unpacks libabigail from Debian's archive into build/abigail, where it is not installed
#   abi.sh dump FILE     builds the library with full debug information and writes a dump of its interface
#   abi.sh compare       compares a debug build with abi/released/libcai.abi: 0 the same, 1 changed, 2 not compared
#   abi.sh release       makes the present interface that of the last release (`make release` calls it)
#   abi.sh [dist FOLDER] all that `make dist` needs: tools, compare, and the dump in FOLDER, by default dist
#
# Functions may be added. Every other difference is reported, unless abi/accepted.abignore accepts it.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
machine=x86_64

if command -v abidw >/dev/null && command -v abidiff >/dev/null; then
    abigail() { "$@"; }
    have=yes
else
    folder=${ABIGAIL:-$PWD/build/abigail}/root/usr
    abigail() {
        tool=$1
        shift
        LD_LIBRARY_PATH="$folder/lib/$(uname -m)-linux-gnu" "$folder/bin/$tool" "$@"
    }
    have=$([ -x "$folder/bin/abidiff" ] && echo yes || echo no)
fi

# libcai.so with its debug information, from the static library of a cargo profile: library PROFILE FOLDER. In a folder
# of its own, so that a test may run it beside other calls of cargo.
library() {
    cargo rustc -q --locked --target-dir "$target/abi" --profile "$1" --lib --crate-type staticlib
    CAI_LINK_STRIP='' abi/link.sh "$target/abi/$2/libcai.a" "$target/abi/$2/libcai.so" "${CC:-cc}"
    echo "$target/abi/$2/libcai.so"
}

# The dump of optimized code, where the functions of other crates have been inlined, names the types of the interface
# alone. The compilation units that have nothing to say bear the paths of this machine.
dump() {
    abigail abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$(library abi abi)" |
        sed -e '/<abi-instr [^\n]*$/{N;/\n *<\/abi-instr>/d}' |
        sed -e "s/\(<abi-instr .*path='\)[^']*'/\1libcai'/" >"$1.$$"
    mv "$1.$$" "$1"
}

needs_tools() {
    [ "$have" = yes ] && return
    echo "abidw and abidiff of libabigail are not here: install them, or run tools/dist/abi.sh tools" >&2
    exit 2
}

case ${1:-dist} in
dist)
    tools/dist/abi.sh tools
    tools/dist/abi.sh compare
    out=${2:-dist}
    mkdir -p "$out"
    tools/dist/abi.sh dump \
        "$out/libcai-$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' Cargo.toml | head -n 1)-$machine-linux-gnu.abi"
    ;;
tools)
    [ "$have" = yes ] || tools/debian/unpack.sh build/abigail "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
        abigail-tools
    ;;
dump)
    needs_tools
    dump "$2"
    ;;
compare)
    needs_tools
    if [ "$(uname -m)" != $machine ]; then
        echo "abi/released/libcai.abi describes $machine; this is $(uname -m)" >&2
        exit 2
    fi
    built=$(library dev debug)
    status=0
    abigail abidiff --no-added-syms --suppressions abi/accepted.abignore abi/released/libcai.abi "$built" || status=$?
    # Bits: 1 and 2 are failures of the tool, 4 and 8 changes.
    case $status in
    0) ;;
    4 | 8 | 12)
        echo "The binary interface is not that of abi/released. docs/src/versioning.md says what may change." >&2
        exit 1
        ;;
    *) exit 2 ;;
    esac
    ;;
release)
    needs_tools
    mkdir -p abi/released
    dump abi/released/libcai.abi
    cp abi/layout.txt abi/symbols.txt abi/released/
    # What was accepted has been released.
    sed -i '/^#/!d' abi/accepted.txt abi/accepted.abignore
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
