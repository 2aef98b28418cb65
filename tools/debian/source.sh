#!/bin/sh
# Downloads the source of a Debian package, checked against the archive's signature, into FOLDER/source:
# source.sh FOLDER SUITE PACKAGE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
suite=$2
package=$3
mkdir -p "$folder/source"
cd "$folder"
kind=deb-src
. "$here/apt.sh"
cd source
apt-get -qq --download-only source "$package"
rm -rf ../apt
