#!/bin/sh
# Packs the tree ROOT as NAME.tar.xz, with NAME as its only folder, into FOLDER: pack.sh ROOT NAME FOLDER
#
# The same bytes for the same files, whatever their times and owners: the time is SOURCE_DATE_EPOCH.
set -eu
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
    --mode=u+rw,go+r-w --transform="flags=r;s|^\.|$2|" --directory="$1" . | xz -9 -T1 >"$3/$2.tar.xz"
