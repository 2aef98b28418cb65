#!/bin/sh
# The SHA-256 sums of all files in a folder: sums.sh [FOLDER], by default dist. `sha256sum -c SHA256SUMS` checks them.
set -eu
cd "$(dirname "$0")/../.."
cd "${1:-dist}"
rm -f SHA256SUMS
sums=$(LC_ALL=C sh -c 'sha256sum -- *')
printf '%s\n' "$sums" >SHA256SUMS
