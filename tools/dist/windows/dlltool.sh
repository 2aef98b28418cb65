#!/bin/sh
# dlltool for rustc, with symbols that do not depend on a random name: dlltool.sh -d DEFINITIONS -l LIBRARY [OPTION...]
#
# dlltool names symbols of an import library after the path that it writes, and rustc lets it write to a temporary
# folder. Libraries with other contents need symbols of their own, or the linker mixes their tables: the sum of the
# definitions stands for the path.
set -eu
before=
for argument; do
    case $before in
    -d) definitions=$argument ;;
    -l) library=$argument ;;
    esac
    before=$argument
done
name=cai_$(cksum <"$definitions" | tr ' ' _)_$(basename "$library")
cd "$(dirname "$library")"
before=
for argument; do
    shift
    [ "$before" != -l ] || argument=$name
    before=$argument
    set -- "$@" "$argument"
done
x86_64-w64-mingw32-dlltool "$@"
mv "$name" "$library"
