#!/bin/sh
# What is linked, as CycloneDX: sbom.sh [FOLDER], by default dist. See sbom.py.
exec python3 "$(dirname "$0")/sbom.py" "$(realpath -m "${1:-"$(dirname "$0")/../../dist"}")"
