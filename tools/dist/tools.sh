#!/bin/sh
# Sets up what `make dist` works with, in build/dist-tools: tools.sh
#
# A folder with Debian 13's compilers (tools/debian/root.sh) and a Python environment with Zig, whose C compiler
# links for old versions of glibc. Neither root nor an installation is needed. Kept between runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$here/../.." && pwd)/build/dist-tools
mkdir -p "$folder"
# Cargo looks through all folders below the sources but those of other packages.
: >"$folder/Cargo.toml"

more_archs=arm64 "$here/../debian/root.sh" "$folder/debian" trixie "$here/packages.txt"
make --silent -C "$here/../.." build/dist-tools/venv/ready PYTHON="${PYTHON:-python3}"
