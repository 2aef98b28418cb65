#!/bin/sh
# Builds what source.sh made, without a network and with an empty CARGO_HOME: test_source.sh [FOLDER], by default dist.
#
# Needs root, or user namespaces.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
dist=$(cd "${1:-dist}" && pwd)
version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' Cargo.toml | head -n 1)
python=$here/build/dist-tools/venv/bin/python
[ -x "$python" ] || python=$here/build/venv/bin/python
rustup=${RUSTUP_HOME:-$HOME/.rustup}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A command that has neither the network nor anything that cargo kept.
alone() {
    rm -rf "$work/home"
    mkdir "$work/home"
    unshare --map-root-user --net env -u CARGO_TARGET_DIR HOME="$work/home" CARGO_HOME="$work/home/cargo" \
        RUSTUP_HOME="$rustup" PATH="$(dirname "$python"):$PATH" "$@"
}

mkdir "$work/archive" "$work/sdist" "$work/crates"
tar -xf "$dist/libcai-$version.tar.xz" -C "$work/archive"
cd "$work/archive/libcai-$version"
# With what only tests use.
alone cargo test --quiet --offline --locked --no-run
alone make --silent install PREFIX=/usr DESTDIR="$work/root" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
for example in 01 02 03 04; do
    gcc -std=c99 -I"$work/root/usr/include" examples-c/${example}_*.c -o "$work/example" \
        -L"$work/root/usr/lib" -lcai -Wl,-rpath,"$work/root/usr/lib"
    "$work/example" >/dev/null
done
echo "libcai-$version.tar.xz: builds, installs, and its examples run"

tar -xf "$dist/libcai-$version.tar.gz" -C "$work/sdist"
cd "$work/sdist/libcai-$version"
alone "$python" -m pip -q --disable-pip-version-check wheel --no-deps --no-build-isolation -w "$work/wheel" .
"$python" -m pip -q --disable-pip-version-check install --no-deps --no-index --target "$work/site" "$work"/wheel/*.whl
PYTHONPATH=$work/site "$python" -m libcai --cflags | grep -q "$work/site"
echo "libcai-$version.tar.gz: gives a wheel"

# The crates as from a registry that has both.
cd "$work/crates"
for crate in libcai-c libcai; do
    tar -xf "$dist/$crate-$version.crate"
    printf '{"files":{},"package":"%s"}' "$(sha256sum "$dist/$crate-$version.crate" | cut -d ' ' -f 1)" \
        >"$crate-$version/.cargo-checksum.json"
done
mv "$work/archive/libcai-$version/vendor" "$work/archive/libcai-$version/.cargo" .
cp -R "libcai-c-$version" vendor/
for crate in libcai-c libcai; do
    (cd "$crate-$version" && alone cargo build --quiet --offline --locked)
done
echo "libcai-c-$version.crate, libcai-$version.crate: build"
