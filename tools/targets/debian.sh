#!/bin/sh
# Unpacks the Debian 13 packages that tools/targets needs into a folder: debian.sh FOLDER
#
# Needs apt-get, dpkg-deb and the archive keys of Debian, as every Debian and Ubuntu has them. apt gets a
# configuration and a state of its own below the folder, so that neither root nor the machine's sources are
# needed and nothing is installed. No maintainer script runs; the few links that such scripts would make are
# made below.
set -eu
folder=$1
here=$(dirname "$0")
arch=$(dpkg --print-architecture)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
packages=$(sed 's/#.*//' "$here/packages.txt" | tr '\n' ' ')

# The mirror that this machine uses, where it is a Debian.
mirror=${DEBIAN_MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -o 'https\{0,1\}://[^ ]*/debian/\{0,1\}\( \|$\)' | head -n 1)}
[ -n "$mirror" ] || { echo "set DEBIAN_MIRROR to a mirror of the Debian archive" >&2; exit 2; }

rm -rf "$folder"
mkdir -p "$folder/apt/state/lists/partial" "$folder/apt/cache/archives/partial" "$folder/apt/etc" "$folder/root"
cd "$folder"
: >apt/status
echo "deb [signed-by=$keys] $mirror trixie main" >apt/sources.list
cat >apt/apt.conf <<EOF
Dir::Etc "$PWD/apt/etc";
Dir::Etc::SourceList "$PWD/apt/sources.list";
Dir::State "$PWD/apt/state";
Dir::State::Status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
APT::Architecture "$arch";
APT::Architectures { "$arch"; "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Debug::NoLocking "true";
EOF
export APT_CONFIG="$PWD/apt/apt.conf"
apt-get -qq update
# shellcheck disable=SC2086 # the words of the list
apt-get -qq --yes --download-only install $packages

# base-files first: /bin, /lib and /sbin are links in it.
for package in apt/cache/archives/base-files_*.deb apt/cache/archives/*.deb; do
    dpkg-deb --extract "$package" root
done
rm -rf apt/cache

cd root
ln -sf gcc usr/bin/cc
ln -sf g++ usr/bin/c++
for tool in gcc g++; do
    ln -sf x86_64-w64-mingw32-$tool-posix usr/bin/x86_64-w64-mingw32-$tool
done
mkdir -p proc sys dev tmp src libcai etc/ssl/certs
cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/
cp /etc/passwd /etc/group etc/
echo "127.0.0.1 localhost $(hostname)" >etc/hosts
