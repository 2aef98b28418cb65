#!/bin/sh
# Copies the static library without what no C linker needs: archive.sh NM OBJCOPY ARCHIVE OUTPUT
#
# Rust's standard library comes with debug information, which would make each extension megabytes larger, and with
# bitcode. Its few global names, of which another Rust archive in the same program has its own, become local, unless
# the objects of the archive need each other's: link-time optimization makes one object of all, but a user's
# CARGO_PROFILE_RELEASE_LTO or .cargo/config.toml may turn it off.
set -eu
nm=$1
objcopy=$2
archive=$3
output=$4
set --
if ! "$nm" -u "$archive" 2>/dev/null | grep -q ' U \(_R\|rust_eh_personality$\)'; then
    set -- -w -L rust_eh_personality -L '_R*' --redefine-sym DW.ref.rust_eh_personality=DW.ref.cai_eh_personality
fi
"$objcopy" -g -D -R .llvmbc -R .llvmcmd "$@" "$archive" "$output"
