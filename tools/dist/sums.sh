#!/bin/sh
# The SHA-256 sums of all files in a folder: sums.sh [FOLDER], by default dist. `sha256sum -c SHA256SUMS` checks them.
set -eu
cd "$(dirname "$0")/../.."
cd "${1:-dist}"
rm -f SHA256SUMS
find . -type f ! -name 'SHA256SUMS*' | sed 's|^\./||' | LC_ALL=C sort | while read -r name; do
    sha256sum "$name"
done >"../SHA256SUMS.$$"
mv "../SHA256SUMS.$$" SHA256SUMS
