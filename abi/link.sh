#!/bin/sh
# Links the shared library from the static one: link.sh ARCHIVE OUTPUT COMPILER [OPTION...]
#
# cargo's own cdylib cannot have symbol versions: rustc passes an anonymous version script, GNU ld refuses a second
# one, and lld ignores it. Options:
# - --whole-archive with --gc-sections takes everything that an exported function reaches, and nothing else;
# - nodelete: owners outlive dlclose(), so their operations must stay mapped.
# CAI_LINK_STRIP, if it is set, replaces the option that drops symbols and debug information.
set -eu
here=$(dirname "$0")
major=$(sed -n 's/^pub const CAI_ABI_MAJOR: i32 = \([0-9]*\);$/\1/p' "$here/../src/abi/version.rs")
archive=$1
output=$2
shift 2
trap 'rm -f "$output.$$".*' EXIT
"$here/map.sh" >"$output.$$.map"
"$@" -shared -fPIC -o "$output.$$.so" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
    -Wl,--gc-sections ${CAI_LINK_STRIP--Wl,--strip-all} -Wl,-O1 -Wl,--as-needed -Wl,--hash-style=gnu -Wl,-z,relro,-z,now,-z,nodelete \
    -Wl,-soname,"libcai.so.$major" -Wl,--version-script="$output.$$.map" -lgcc_s -lpthread -ldl -lm
mv -f "$output.$$.so" "$output"
