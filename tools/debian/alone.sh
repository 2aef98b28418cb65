#!/bin/sh
# Unpacks Debian packages into FOLDER/root, without what they depend on: alone.sh FOLDER SUITE PACKAGE...
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
apt-get -qq download "$@"
for package in *.deb; do
    dpkg-deb --extract "$package" root
done
rm -rf apt ./*.deb
