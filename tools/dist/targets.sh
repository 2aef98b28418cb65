# Sourced: what differs between the platforms of `make dist`. target NAME sets, for one of $TARGETS,
# rust: cargo's name of it; zig_target: Zig's; tag: what a wheel calls it; machine: the processor; gcc_s: the
# unwinder that the shared library uses, in the Debian folder.
TARGETS="x86_64-linux-gnu aarch64-linux-gnu x86_64-linux-musl x86_64-windows-gnu"
target() {
    machine=${1%%-*}
    zig_target=$1
    gcc_s=
    case $1 in
    *-linux-gnu)
        # glibc 2.17, of 2012, is the oldest for which Python wheels are made today.
        rust=$machine-unknown-linux-gnu zig_target=$1.2.17 tag=manylinux2014_$machine gcc_s=/usr/lib/$1/libgcc_s.so.1
        ;;
    *-linux-musl) rust=$machine-unknown-linux-musl tag=musllinux_1_2_$machine ;;
    *-windows-gnu) rust=$machine-pc-windows-gnu tag=win_amd64 ;;
    *)
        echo "$1 is not one of $TARGETS" >&2
        return 2
        ;;
    esac
}
