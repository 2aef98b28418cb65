#!/bin/sh
# One part of `make test-targets`, inside the Debian folder, in /src: part.sh native|aarch64|windows|check|rust
#
# Builds the library with Debian's Rust, runs its unit tests, then builds and runs the C and C++ tests that need no
# CUDA driver and the examples 01 to 05 against it. `check` only compiles, for platforms whose programs cannot run
# here.
set -eu
part=$1
cd /src
out=/libcai/$part
rm -rf "$out"
mkdir -p "$out"

# The standard library is built too where Debian has none: -Zbuild-std, which a stable compiler takes with
# RUSTC_BOOTSTRAP.
with_std() {
    RUSTC_BOOTSTRAP=1 cargo "$@" -Zbuild-std=std,panic_unwind,test
}

case $part in
native)
    rust=$(rustc -vV | sed -n 's/^host: //p')
    cargo=cargo tools= run= dynamic="-ldl -lpthread -lm" library="$out/libcai.so" exe=
    ;;
aarch64)
    rust=aarch64-unknown-linux-gnu
    cargo=cargo tools=aarch64-linux-gnu- run=qemu-aarch64 dynamic="-ldl -lpthread -lm" library="$out/libcai.so" exe=
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
    ;;
windows)
    rust=x86_64-pc-windows-gnu
    cargo=with_std tools=x86_64-w64-mingw32- run=wine64 dynamic="-lpthread" library="$out/cai.dll" exe=.exe
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine64
    export WINEDEBUG=-all WINEPREFIX=/libcai/wine
    # Two start files of Rust that only its own packages for Windows have.
    start=/usr/lib/rustlib/$rust/lib
    mkdir -p "$start"
    for file in rsbegin rsend; do
        RUSTC_BOOTSTRAP=1 rustc --target $rust --emit=obj -o "$start/$file.o" \
            /usr/lib/rustlib/src/rust/library/rtstartup/$file.rs
    done
    # Where the loader looks for DLLs, besides the folder of the program.
    export WINEPATH="Z:\\libcai\\windows;Z:$(echo /usr/lib/gcc/x86_64-w64-mingw32/*-posix | tr / '\\');Z:\\usr\\x86_64-w64-mingw32\\lib"
    ;;
rust)
    cargo check --quiet --locked --workspace --all-targets
    rustc --version
    exit
    ;;
check)
    cargo check --locked --workspace --all-targets
    [ ! -d cuda-sim ] || cargo check --locked --workspace --all-targets --exclude cudasim-shadow --manifest-path cuda-sim/Cargo.toml
    for rust in x86_64-unknown-linux-musl aarch64-apple-darwin s390x-unknown-linux-gnu; do
        # A shared library for musl needs the dynamic C library; the other platforms ignore this.
        RUSTFLAGS="-Ctarget-feature=-crt-static" RUSTC_BOOTSTRAP=1 cargo check --quiet --locked --lib --target $rust -Zbuild-std=std,panic_unwind
        echo "$rust: compiles"
    done
    exit
    ;;
esac

$cargo test --quiet --locked --lib --target "$rust"
$cargo test --quiet --locked --package libcai --tests --target "$rust"
case $part in
windows)
    $cargo rustc --quiet --locked --release --lib --crate-type cdylib --target "$rust"
    cp /libcai/target/$rust/release/cai.dll /libcai/target/$rust/release/libcai.dll.a "$out"
    link="-L $out -lcai"
    ;;
*)
    $cargo rustc --quiet --locked --release --lib --crate-type staticlib --target "$rust"
    abi/link.sh "/libcai/target/$rust/release/libcai.a" "$library" "${tools}gcc"
    ln -s libcai.so "$out/libcai.so.1"
    link="$library -Wl,-rpath,$out"
    ;;
esac

count=0
for source in capi-tests/*.c capi-tests/*.cpp examples-c/0[1-5]_*.c examples-c/0[1-5]_*.cpp; do
    ! grep -q "run: .*not .*$part" "$source" || continue
    case $source in
    *.c) compile="${tools}gcc -std=c99 -Wpedantic" ;;
    *) compile="${tools}g++ -std=c++17 -Wpedantic" ;;
    esac
    program=$out/$(basename "$source" | tr . _)$exe
    $compile -O1 -g -Wall -Wextra -Werror -Iinclude -Icapi-tests "$source" -o "$program" $link $dynamic
    (cd "$out" && $run "$program" >"$program.log" 2>&1) || { echo "$source:"; cat "$program.log"; exit 1; }
    count=$((count + 1))
done
echo "$rust, $(rustc --version), $(${tools}gcc --version | head -n 1): unit tests and $count programs passed"
