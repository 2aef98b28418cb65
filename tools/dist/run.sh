#!/bin/sh
# `make dist`: builds what users without Rust install, into dist/: run.sh [PART...]
#
# A part is a platform (tools/dist/targets.sh), or a script NAME.sh beside this one; without any, all in turn, into an
# empty folder. Each platform has a folder build/dist/TARGET, with what is installed on it in root/. Needs what
# tools/targets/run.sh needs, and 4 GB. Neither the folder of the sources nor the time is in the results.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/targets.sh"
sources=$(cd "$here/../.." && pwd)
cd "$sources"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}"
umask 022
"$here/tools.sh"
make --silent bindings
if [ $# -eq 0 ]; then
    rm -rf dist
    # shellcheck disable=SC2086 # the words of the list
    set -- $TARGETS
    for part in simulator abi source deb sbom sums; do
        [ ! -x "$here/$part.sh" ] || set -- "$@" "$part"
    done
fi
mkdir -p dist
for part; do
    echo "--- $part"
    case " $TARGETS " in
    *" $part "*) "$here/target.sh" "$part" ;;
    *) "$here/$part.sh" ;;
    esac
done
ls -l dist
