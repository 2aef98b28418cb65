#!/bin/sh
# Unpacks the Debian 13 packages that tools/targets needs into a folder: debian.sh FOLDER
#
# Needs neither root nor an installation: see tools/debian/unpack.sh. The few links that the packages' scripts
# would make are made here.
set -eu
folder=$1
here=$(dirname "$0")
packages=$(sed 's/#.*//' "$here/packages.txt" | tr '\n' ' ')

# shellcheck disable=SC2086 # the words of the list
more_archs=arm64 "$here/../debian/unpack.sh" "$folder" trixie $packages

cd "$folder/root"
ln -sf gcc usr/bin/cc
ln -sf g++ usr/bin/c++
for tool in gcc g++; do
    ln -sf x86_64-w64-mingw32-$tool-posix usr/bin/x86_64-w64-mingw32-$tool
done
mkdir -p proc sys dev tmp src libcai etc/ssl/certs
cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/
cp /etc/passwd /etc/group etc/
echo "127.0.0.1 localhost $(hostname)" >etc/hosts
