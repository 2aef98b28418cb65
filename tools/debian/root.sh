#!/bin/sh
# Unpacks the packages that the file LIST names into FOLDER/root, for ../targets/enter.sh or chroot: root.sh FOLDER SUITE LIST
#
# Does nothing if it did that before with the same list. The few links that the packages' scripts would make are made here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wanted=$(cat "$3" "$here"/*.sh)
[ "$(cat "$1/ready" 2>/dev/null)" != "$wanted" ] || exit 0
# shellcheck disable=SC2046 # the words of the list
"$here/unpack.sh" "$1" "$2" $(sed 's/#.*//' "$3")
cd "$1/root"
mkdir -p proc sys dev tmp src libcai etc/ssl/certs usr/bin
cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/
cp /etc/passwd /etc/group etc/
echo "127.0.0.1 localhost $(hostname)" >etc/hosts
for tool in gcc g++; do
    [ ! -e "usr/bin/x86_64-w64-mingw32-$tool-posix" ] ||
        ln -sf "x86_64-w64-mingw32-$tool-posix" "usr/bin/x86_64-w64-mingw32-$tool"
done
[ ! -e usr/bin/gcc ] || ln -sf gcc usr/bin/cc
[ ! -e usr/bin/g++ ] || ln -sf g++ usr/bin/c++
printf '%s\n' "$wanted" >../ready
