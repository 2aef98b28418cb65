"""Makes the loader initialize a shared library first, as `ld -z initfirst` does, which Zig's linker lacks: initfirst.py FILE"""

import struct
import sys

PT_DYNAMIC, DT_FLAGS_1, DF_1_INITFIRST = 2, 0x6FFFFFFB, 0x20

with open(sys.argv[1], "r+b") as file:
    elf = bytearray(file.read())
    assert elf[:6] == b"\x7fELF\x02\x01", "not ELF of 64 bits, little-endian"
    (at,), (size, count) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
    headers = [struct.unpack_from("<IIQQQQ", elf, at + number * size) for number in range(count)]
    (start, length), = [(offset, length) for kind, _, offset, _, _, length in headers if kind == PT_DYNAMIC]
    (entry,) = [
        entry for entry in range(start, start + length, 16) if struct.unpack_from("<Q", elf, entry)[0] == DT_FLAGS_1
    ]
    (flags,) = struct.unpack_from("<Q", elf, entry + 8)
    struct.pack_into("<Q", elf, entry + 8, flags | DF_1_INITFIRST)
    file.seek(0)
    file.write(elf)
