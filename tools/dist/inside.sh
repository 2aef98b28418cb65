#!/bin/sh
# Compiles the static library for TARGET, inside the Debian folder, in /src: inside.sh TARGET
#
# The standard library is compiled too, for its size: without the code that prints backtraces, which nothing here
# does. It is a third of what a program that bundles the library carries otherwise. RUSTC_BOOTSTRAP lets a released
# compiler take the options for that.
set -eu
. /src/tools/dist/targets.sh
target "$1"
cd /src
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="/libcai/$1" CARGO_PROFILE_RELEASE_OPT_LEVEL=s
# Names of source files in messages about defects: the same wherever cargo keeps crates.
crates=$(cargo metadata --quiet --locked --format-version 1 --filter-platform "$rust" |
    grep -o '"/[^"]*/libc-[0-9.]*/Cargo.toml"' | head -n 1 | sed 's/^"//; s|/libc-.*||')
flags="--remap-path-prefix=/usr/lib/rustlib/src/rust=rust --remap-path-prefix=$crates=crates"
# Also for the size:
# - Fewer functions are copied into their callers: those that are about as short as a call, or have #[inline(always)].
#   opt-level=z does more of that, but then cai_array_share takes twice as long, because arrays are copied bytewise.
# - With frame pointers, the unwind tables need no row for each change of the stack pointer.
# - Messages about defects name no line of the sources.
flags="$flags -Cllvm-args=-inline-threshold=30 -Cllvm-args=-inlinehint-threshold=150 -Cforce-frame-pointers=yes"
flags="$flags -Zlocation-detail=none"
kinds=staticlib options=
case $rust in
*-musl) flags="$flags -Ctarget-feature=-crt-static" ;; # A static library that goes into a shared one as well.
*-windows-gnu)
    # Nothing but Windows is needed beside the library: the C compiler's own libraries go into it.
    kinds=staticlib,cdylib options=-Clink-arg=-Wl,--no-insert-timestamp
    flags="$flags -Ctarget-feature=+crt-static"
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
    # Two start files of Rust that only its own packages for Windows have.
    start=/usr/lib/rustlib/$rust/lib
    mkdir -p "$start"
    for file in rsbegin rsend; do
        rustc --target "$rust" --emit=obj -o "$start/$file.o" "/usr/lib/rustlib/src/rust/library/rtstartup/$file.rs"
    done
    # The same static library in every build: see dlltool.sh.
    flags="$flags -Cdlltool=/src/tools/dist/windows/dlltool.sh"
    ;;
esac
std="-Zbuild-std=std,panic_unwind -Zbuild-std-features=panic-unwind,optimize_for_size"
# shellcheck disable=SC2086 # the words of the list
RUSTFLAGS=$flags cargo rustc --quiet --locked --release --lib --crate-type $kinds --target "$rust" $std -- $options
case $rust in *-windows-gnu)
    # In a copy: cargo's own stays as it made it.
    cd "$CARGO_TARGET_DIR/$rust/release"
    x86_64-w64-mingw32-strip --strip-all -o stripped.dll cai.dll
    ;;
esac
