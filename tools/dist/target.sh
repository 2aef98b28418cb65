#!/bin/sh
# Builds the archive and the wheel for one platform, into dist/: target.sh TARGET (called by run.sh)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/targets.sh"
target "$1"
sources=$(cd "$here/../.." && pwd)
cd "$sources"
version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' Cargo.toml | head -n 1)
out=$sources/build/dist/$1
tools=$sources/build/dist-tools
PATH="$tools/venv/bin:$PATH"
rm -rf "$out"
mkdir -p "$out" dist

# What cargo makes, in the Debian folder.
"$sources/tools/targets/enter.sh" "$tools/debian" "$sources" "$tools/cargo" sh /src/tools/dist/inside.sh "$1"
built=$tools/cargo/$1/$rust/release
export CMAKE_GENERATOR="Unix Makefiles"

# CMake finds it made, and its cargo has nothing to do.
stage_elf() {
    printf '#!/bin/sh\n' >"$out/cargo"
    chmod +x "$out/cargo"
    "$here/cc.sh" "$1" "$out/cc"
    platform="-DCMAKE_C_COMPILER=$out/cc -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$machine \
        -DCAI_CARGO=$out/cargo -DCAI_CARGO_TARGET=$rust -DCAI_CARGO_TARGET_DIR=$tools/cargo/$1"
    # shellcheck disable=SC2086 # the words of the list
    cmake -S . -B "$out/cmake" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$out/root" \
        -DCMAKE_INSTALL_LIBDIR=lib -DCAI_BUILD_EXAMPLES=OFF $platform >"$out/cmake.log"
    cmake --build "$out/cmake" >>"$out/cmake.log"
    cmake --install "$out/cmake" >>"$out/cmake.log"
}

# The wheel has the same files without links. auditwheel gives it the newer name of the same systems too, and must find
# that it runs there.
wheel_elf() {
    CMAKE_ARGS=$platform _PYTHON_HOST_PLATFORM=linux-$machine pip_wheel .
    case $tag in musllinux*)
        # The C library's name on the systems that these wheels are for; musl's loader knows that any such name is
        # itself.
        wheel unpack --dest "$out/unpacked" "$out"/wheel/*.whl >>"$out/wheel.log"
        patchelf --replace-needed libc.so "libc.musl-$machine.so.1" "$out"/unpacked/*/libcai/lib/libcai.so.*
        rm "$out"/wheel/*.whl
        wheel pack --dest-dir "$out/wheel" "$out"/unpacked/* >>"$out/wheel.log"
        ;;
    esac
    wheel tags --remove --platform-tag "$tag" "$out"/wheel/*.whl >>"$out/wheel.log"
    auditwheel repair --plat auto --wheel-dir "$out/repaired" "$out"/wheel/*.whl >>"$out/wheel.log" 2>&1 ||
        { cat "$out/wheel.log" >&2; exit 1; }
    auditwheel show "$out"/repaired/*.whl >"$out/auditwheel.txt" 2>>"$out/wheel.log"
    newer=$(echo "$tag" | sed 's/manylinux2014/manylinux_2_17/')
    tr '\n' ' ' <"$out/auditwheel.txt" | grep -q "following platform tag: \"$newer\"" ||
        { cat "$out/auditwheel.txt" >&2; exit 1; }
    finish "$out"/repaired/*.whl
}

# The Python files alone make a wheel for any platform, to which the installed tree is added.
wheel_windows() {
    pip_wheel --config-settings=wheel.cmake=false .
    wheel unpack --dest "$out/unpacked" "$out"/wheel/*.whl >>"$out/wheel.log"
    cp -R "$out/root/bin" "$out/root/include" "$out/root/lib" "$out"/unpacked/*/libcai/
    sed -i 's/^Root-Is-Purelib: .*/Root-Is-Purelib: false/' "$out"/unpacked/*/*.dist-info/WHEEL
    rm "$out"/wheel/*.whl
    wheel pack --dest-dir "$out/wheel" "$out"/unpacked/* >>"$out/wheel.log"
    wheel tags --remove --platform-tag "$tag" "$out"/wheel/*.whl >>"$out/wheel.log"
    finish "$out"/wheel/*.whl
}

# Packs a wheel once more, into dist/: the modes of the sources, which depend on how they were unpacked, are in it.
finish() {
    rm -rf "$out/unpacked"
    wheel unpack --dest "$out/unpacked" "$1" >>"$out/wheel.log"
    chmod -R u=rwX,go=rX "$out/unpacked"
    wheel pack --dest-dir dist "$out"/unpacked/* >>"$out/wheel.log"
}

pip_wheel() {
    python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$out/wheel" "$@"
}

case $1 in
*-windows-*) "$here/windows/stage.sh" "$version" "$built" "$out/root" ;;
*) stage_elf "$1" ;;
esac
"$here/symbols.sh" "$1"
"$here/pack.sh" "$out/root" "libcai-$version-$1" dist
case $1 in
*-windows-*) wheel_windows ;;
*) wheel_elf ;;
esac
