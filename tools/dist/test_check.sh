#!/bin/sh
# `libcai[check]` where there is no Rust, from the wheels alone: test_check.sh [FOLDER], by default dist.
#
# Pytest comes from pip. The checks test themselves on the simulator; then a type of a user's module is checked.
set -eu
cd "$(dirname "$0")/../.."
dist=$(cd "${1:-dist}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip="$work/venv/bin/python -m pip --disable-pip-version-check -q"
"${PYTHON:-python3}" -m venv "$work/venv"
$pip install 'pytest>=7'
cd "$work"
export PATH="$work/venv/bin:/usr/bin:/bin"
! command -v cargo rustc >/dev/null || PATH="$work/venv/bin"
$pip install --no-index --find-links "$dist" 'libcai[check]'

cat >mine.py <<'PYTHON'
from libcai.testing.test_self import Sound, on


class Late(Sound):
    """Says that its work is on the legacy default stream."""

    def dictionary(self):
        return {**super().dictionary(), "stream": 1}
PYTHON
cuda-sim run --print=exit -- libcai check mine:Sound --on=mine:on >sound.txt
status=0
cuda-sim run --print=exit -- libcai check mine:Late --on=mine:on >late.txt || status=$?
[ $status -eq 1 ] && grep -q '^  FAIL     order-dict: ' late.txt || { cat late.txt; exit 1; }
pytest -q -p no:cacheprovider --cuda-sim --devices=2 --pyargs libcai.testing >self.txt 2>&1 || { cat self.txt; exit 1; }
! grep -q skipped self.txt || { cat self.txt; exit 1; }
echo "libcai[check]: $(head -n 1 sound.txt); $(tail -n 1 self.txt)"
