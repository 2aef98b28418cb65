#!/bin/sh
# Sets up what `make dist` works with, in build/dist-tools: tools.sh
#
# A folder with Debian 13's compilers (tools/debian/unpack.sh) and a Python environment with Zig, whose C compiler
# links for old versions of glibc. Neither root nor an installation is needed. Kept between runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$here/../.." && pwd)/build/dist-tools
python=${PYTHON:-python3}
mkdir -p "$folder"
# Cargo looks through all folders below the sources but those of other packages.
: >"$folder/Cargo.toml"

wanted=$(cat "$here/packages.txt" "$here/../debian/"*.sh)
if [ "$(cat "$folder/debian-ready" 2>/dev/null)" != "$wanted" ]; then
    packages=$(sed 's/#.*//' "$here/packages.txt" | tr '\n' ' ')
    # shellcheck disable=SC2086 # the words of the list
    more_archs=arm64 "$here/../debian/unpack.sh" "$folder/debian" trixie $packages
    root=$folder/debian/root
    ln -sf gcc "$root/usr/bin/cc"
    ln -sf x86_64-w64-mingw32-gcc-posix "$root/usr/bin/x86_64-w64-mingw32-gcc"
    for name in proc sys dev tmp src libcai etc/ssl/certs; do
        mkdir -p "$root/$name"
    done
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    cp /etc/passwd /etc/group "$root/etc/"
    printf '%s\n' "$wanted" >"$folder/debian-ready"
fi

wanted=$(cat "$here/requirements.txt")
if [ "$(cat "$folder/venv-ready" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$folder/venv"
    "$python" -m venv "$folder/venv" || {
        rm -rf "$folder/venv" "$folder/virtualenv"
        "$python" -m pip install -q --target "$folder/virtualenv" virtualenv
        PYTHONPATH=$folder/virtualenv "$python" -m virtualenv -q "$folder/venv"
    }
    "$folder/venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
    printf '%s\n' "$wanted" >"$folder/venv-ready"
fi
