#!/bin/sh
# `make test-targets`: builds and tests for other platforms and with the oldest Rust: run.sh [PART...]
#
# Needs a Debian or Ubuntu (apt-get, dpkg-deb, unshare), 6 GB in build/targets, and root or user namespaces.
# Packages and what cargo builds are kept between runs. A part that fails does not stop the others. The part `setup`
# only unpacks the packages. The part `rust` only compiles with the oldest Rust, and needs few of them (800 MB).
set -u
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "$here/../.." && pwd)
folder=$sources/build/targets
[ $# -gt 0 ] || set -- native aarch64 windows check

mkdir -p "$folder"
# Cargo looks through all folders below the sources but those of other packages. Wine's prefix has links to /.
: >"$folder/Cargo.toml"
failed=
for part in "$@"; do
    case $part in
    rust) system=$folder/rust list=packages_rust.txt archs= ;;
    *) system=$folder/debian list=packages.txt archs=arm64 ;;
    esac
    more_archs=$archs "$here/../debian/root.sh" "$system" trixie "$here/$list" || exit 1
    [ "$part" != setup ] || continue
    echo "--- $part"
    "$here/enter.sh" "$system" "$sources" "$folder/libcai" sh /src/tools/targets/part.sh "$part" || failed="$failed $part"
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
