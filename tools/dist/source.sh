#!/bin/sh
# The sources of a release, to build without a network: source.sh [FOLDER], by default dist.
#
#   libcai-VERSION.tar.xz    the files of the commit, with all crates in vendor/ and cargo told so
#   libcai-VERSION.tar.gz    the same for pip: of the crates that only tests use, the names alone
#   *.crate                  what cargo's registry takes
#
# The bytes depend on the commit and on the versions of tar, xz, cargo and scikit-build-core alone.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
mkdir -p "${1:-dist}"
out=$(cd "${1:-dist}" && pwd)
version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
python=$here/build/dist-tools/venv/bin/python
[ -x "$python" ] || python=$here/build/venv/bin/python
work=$here/build/dist/source
rm -rf "$work"
mkdir -p "$work/archive" "$work/sdist"

# Packs FOLDER/NAME: the same bytes for the same files.
pack() {
    tar --create --directory "$1" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
        --mode=u+rw,go+r-w,a-s --mtime="@$SOURCE_DATE_EPOCH" "$2"
}

tree=$work/archive/libcai-$version
mkdir "$tree"
git archive --format=tar HEAD | tar --extract --directory "$tree"
# Pages that are made from the programs of cuda-sim. The environment of the tests has what they need, if it is here.
set --
[ ! -e build/venv/ready ] || set -- VENV="$here/build/venv" ENVIRONMENT=
make --silent -C cuda-sim docs "$@"
cp cuda-sim/cuda-sim.1 "$tree/cuda-sim/"
cp cuda-sim/docs/driver_rules.md cuda-sim/docs/entry_points.md "$tree/cuda-sim/docs/"
make --silent bindings
tar --create include/cai/cai.cdef include/cai/cai.pxd include/cai/unstable.pxd python/libcai/_abi.py | tar --extract --directory "$tree"
mkdir "$tree/.cargo"
# With --quiet it would not print the configuration.
(cd "$tree" && cargo vendor --locked --versioned-dirs --sync cuda-sim/Cargo.toml vendor >.cargo/config.toml 2>"$work/vendor.log") ||
    { cat "$work/vendor.log" >&2; exit 1; }
pack "$work/archive" "libcai-$version" | xz --threads=1 -6 >"$out/libcai-$version.tar.xz"

# A wheel needs the crates that the library links, on any platform. Cargo asks for the names of all.
(cd "$tree" && cargo tree --quiet --offline --locked --package libcai-c --edges normal,build --target all \
    --prefix none --prune loom --format '{p}') | sed -n 's/^\([^ ]*\) v\([^ ]*\).*/\1-\2/p' | sort -u >"$work/needed"
cp -R "$tree" "$work/sdist/"
tree=$work/sdist/libcai-$version
for crate in "$tree"/vendor/*; do
    ! grep -qxF "${crate##*/}" "$work/needed" || continue
    find "$crate" -mindepth 1 -maxdepth 1 ! -name Cargo.toml ! -name .cargo-checksum.json -exec rm -rf {} +
    mkdir "$crate/src"
    : >"$crate/src/lib.rs"
    sed -i 's/"files":{[^}]*}/"files":{}/' "$crate/.cargo-checksum.json"
done
(cd "$tree" && "$python" -c "import scikit_build_core.build as b; b.build_sdist('$work')" >"$work/sdist.log") ||
    { cat "$work/sdist.log" >&2; exit 1; }
mv "$work/libcai-$version.tar.gz" "$out/"

# Cargo takes the declarations that are made for changes, so git is asked.
[ -n "${CAI_DIST_DIRTY:-}" ] || [ -z "$(git status --porcelain)" ] || { git status --short >&2; exit 1; }
cargo package --quiet --locked --allow-dirty --no-verify --target-dir "$work/crates" \
    --package libcai-c --package libcai
mv "$work"/crates/package/*.crate "$out/"
rm -rf "$work"
