#!/bin/sh
# Builds and tests cuda-sim, and libcai without it, in folders of their own: neither reads files of the other, and libcai
# finds the simulator by CUDA_SIM_ROOT alone. two_trees.sh [FOLDER], by default build/two-trees.
#
# Takes the tracked files as they are, and the environment of `make test`. Not optimized, which is the same code.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
mkdir -p "${1:-build/two-trees}"
trees=$(cd "${1:-build/two-trees}" && pwd)
export CARGO_TARGET_DIR="$trees/target" CUDA_SIM_ROOT="$trees/installed"
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=0

# A copy keeps the times of its files, so that cargo builds again what changed: copy FOLDER PATHS...
copy() {
    folder=$trees/$1
    shift
    rm -rf "$folder"
    mkdir "$folder"
    git ls-files -z --deduplicate -- "$@" | tar --create --null --files-from=- --ignore-failed-read 2>/dev/null |
        tar --extract --directory "$folder"
}

copy other cuda-sim
rm -rf "$trees/cuda-sim" "$trees/installed"
mv "$trees/other/cuda-sim" "$trees/cuda-sim"
copy libcai ':!cuda-sim'

echo "cuda-sim alone"
make --silent --no-print-directory -C "$trees/cuda-sim" install docs test-python PREFIX="$CUDA_SIM_ROOT" \
    VENV="$here/build/venv" ENVIRONMENT= \
    ARGS='tests/python -k "test_docs or cuda_sim_messages or under_the_command or host_order and constructs and lazy"'

echo "libcai with an installed cuda-sim"
mkdir "$trees/libcai/build"
ln -s "$here/build/venv" "$trees/libcai/build/venv"
cd "$trees/libcai"
make --silent --no-print-directory target-link lib sim
build/venv/bin/python -m pytest -q -p no:cacheprovider tests/python/test_docs.py tests/python/test_host_copy.py \
    tests/python/test_examples.py -k "links or simulated_driver or on_a_device or forgets"
