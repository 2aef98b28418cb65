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
# A static library that goes into a shared one as well.
case $rust in *-musl) flags="$flags -Ctarget-feature=-crt-static" ;; esac
std="-Zbuild-std=std,panic_unwind -Zbuild-std-features=panic-unwind,optimize_for_size"
# shellcheck disable=SC2086 # the words of the list
RUSTFLAGS=$flags cargo rustc --quiet --locked --release --lib --crate-type staticlib --target "$rust" $std
