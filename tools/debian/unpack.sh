#!/bin/sh
# Unpacks Debian packages and what they depend on into FOLDER/root: unpack.sh FOLDER SUITE PACKAGE...
#
# No maintainer script runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
suite=$2
shift 2
rm -rf "$folder"
mkdir -p "$folder/root"
cd "$folder"
kind=deb
. "$here/apt.sh"
apt-get -qq --yes --download-only install base-files "$@"
# base-files first: /bin, /lib and /sbin are links in it.
for package in apt/cache/archives/base-files_*.deb apt/cache/archives/*.deb; do
    dpkg-deb --extract "$package" root
done
rm -rf apt/cache
