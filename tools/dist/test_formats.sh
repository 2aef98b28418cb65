#!/bin/sh
# Lets other programs judge what is in a folder: test_formats.sh [FOLDER], by default dist.
#
# sha256sum checks the sums, the schema of CycloneDX the lists of what is linked, and lintian the Debian packages:
# errors of lintian fail. Lintian is unpacked from Debian into build/dist-test (320 MB), the schema comes from pip.
# Needs root or user namespaces.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
dist=$(cd "${1:-dist}" && pwd)
folder=$here/build/dist-test
mkdir -p "$folder"

if [ -f "$dist/SHA256SUMS" ]; then
    (cd "$dist" && sha256sum --check --quiet --strict SHA256SUMS)
    echo "SHA256SUMS: right"
fi

python=$here/build/dist-tools/venv/bin/python
[ -x "$python" ] || python=$here/build/venv/bin/python
[ -d "$folder/cyclonedx" ] || "$python" -m pip install -q --disable-pip-version-check --target "$folder/cyclonedx" \
    'cyclonedx-python-lib[json-validation]==11.12.0'
PYTHONPATH=$folder/cyclonedx "$python" - "$dist"/*.cdx.json <<'EOF'
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

for path in map(pathlib.Path, sys.argv[1:]):
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(path.read_text())
    assert error is None, f"{path.name}: {error}"
    print(f"{path.name}: CycloneDX 1.5")
EOF

root=$folder/lintian/root
tools/debian/root.sh "$folder/lintian" trixie tools/dist/packages_lintian.txt
mkdir -p "$root/debs"
touch "$root/dev/null" "$root/var/lib/dpkg/status"
ln -sf debian "$root/etc/dpkg/origins/default"
ln -sf mawk "$root/usr/bin/awk"
rm -f "$root"/debs/*
cp "$dist"/*.deb "$root/debs/"
cat >"$root/debs/run" <<'EOF'
export PATH=/usr/bin:/bin LC_ALL=C
lintian --allow-root --no-cfg --fail-on error --tag-display-limit 0 /debs/*.deb
EOF
# shellcheck disable=SC2016 # expanded inside
unshare --map-root-user --mount --pid --fork sh -c '
    mount --bind /dev/null "$1/dev/null"
    mount -t proc proc "$1/proc"
    exec chroot "$1" sh /debs/run
' sh "$root"
echo "lintian: no errors"
