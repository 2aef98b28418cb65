#!/bin/sh
# Runs a command in a user namespace in which the kernel starts programs for aarch64 with QEMU: emulate.sh QEMU COMMAND...
#
# Nothing changes outside of it. Needs Linux 6.7 or later, and user namespaces.
set -eu
if [ -z "${CAI_EMULATED:-}" ]; then
    CAI_EMULATED=1 exec unshare --user --map-root-user --mount "$0" "$@"
fi
qemu=$1
shift
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
# The head of an ELF file for aarch64, program or library, and which of its bits count.
zeros='\x00\x00\x00\x00\x00\x00\x00\x00\x00'
ones='\xff\xff\xff\xff\xff\xff\xff\xff'
magic="\\x7fELF\\x02\\x01\\x01$zeros\\x02\\x00\\xb7\\x00"
mask="\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00$ones\\xfe\\xff\\xff\\xff"
printf '%s' ":aarch64:M::$magic:$mask:$qemu:F" >/proc/sys/fs/binfmt_misc/register
exec "$@"
