#!/bin/sh
# The wheel of cuda-sim, which `libcai[check]` brings: simulator.sh [FOLDER], by default dist.
#
# For glibc 2.31 or later, of 2020: programs of the machine's Rust call gettid, which older ones lack for Zig's linker.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/targets.sh"
name=x86_64-linux-gnu
target $name
tag=manylinux_2_31_$machine
cd "$here/../.."
sources=$PWD
mkdir -p "${1:-dist}"
folder=$(cd "${1:-dist}" && pwd)
out=$sources/build/dist/cuda-sim
PATH="$sources/build/dist-tools/venv/bin:$PATH"
rm -rf "$out"
mkdir -p "$out"
"$here/cc.sh" $name "$out/zig"
sed -i "s/ $zig_target / $name.2.31 /" "$out/zig"
cat >"$out/cc" <<PROGRAM
#!/bin/bash
# The compiler, and what Zig's linker lacks.
options=("-ffile-prefix-map=$sources=libcai") first= file=
for argument; do
    [ "\$previous" != -o ] || file=\$argument
    previous=\$argument
    case \$argument in
    -Wl,-z,initfirst) first=yes ;;
    *) options+=("\$argument") ;;
    esac
done
"$out/zig" "\${options[@]}" || exit
[ -z "\$first" ] || exec python3 "$here/initfirst.py" "\$file"
PROGRAM
chmod +x "$out/cc"
# Neither the folder of the sources nor that of the crates is in the results.
RUSTFLAGS="--remap-path-prefix=$sources=libcai --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
# Programs are linked too: the unwinder of the Debian folder asks for a newer glibc, that of a user's system does not.
RUSTFLAGS="$RUSTFLAGS -Clink-arg=-Wl,--allow-shlib-undefined"
export RUSTFLAGS CC="$out/cc" CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER="$out/cc"
export CARGO_TARGET_DIR="$sources/build/dist-tools/cargo/cuda-sim"
(cd cuda-sim/python && python -c "import sys, cuda_sim_build as b; b.build_wheel(sys.argv[1])" "$out")
wheel tags --remove --platform-tag $tag "$out"/*.whl >"$out/wheel.log"
auditwheel show "$out"/*.whl >"$out/auditwheel.txt" 2>>"$out/wheel.log" || { cat "$out/wheel.log" >&2; exit 1; }
tr '\n' ' ' <"$out/auditwheel.txt" | grep -q "following platform tag: \"$tag\"" ||
    { cat "$out/auditwheel.txt" >&2; exit 1; }
python -m zipfile -e "$out"/*.whl "$out/unpacked"
! grep -rl -e "$sources" -e "${CARGO_HOME:-$HOME/.cargo}" "$out/unpacked" >&2 || exit 1
cp "$out"/*.whl "$folder/"
