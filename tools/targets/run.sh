#!/bin/sh
# `make test-targets`: builds and tests for other platforms and with the oldest Rust: run.sh [PART...]
#
# Needs a Debian or Ubuntu (apt-get, dpkg-deb, unshare), 6 GB in build/targets, and root or user namespaces.
# Packages and what cargo builds are kept between runs. A part that fails does not stop the others. The part `setup`
# only unpacks the packages.
set -u
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "$here/../.." && pwd)
folder=$sources/build/targets
[ $# -gt 0 ] || set -- native aarch64 windows check

mkdir -p "$folder"
# Cargo looks through all folders below the sources but those of other packages. Wine's prefix has links to /.
: >"$folder/Cargo.toml"
more_archs=arm64 "$here/../debian/root.sh" "$folder/debian" trixie "$here/packages.txt" || exit 1
failed=
for part in "$@"; do
    [ "$part" != setup ] || continue
    echo "--- $part"
    "$here/enter.sh" "$folder/debian" "$sources" "$folder/libcai" sh /src/tools/targets/part.sh "$part" || failed="$failed $part"
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
