//! Version of the binary interface: stated here and nowhere else.

/// Major version of the binary interface, and the number in `libcai.so.1`.
pub const CAI_ABI_MAJOR: i32 = 1;

/// Minor version: grows with every added function, member or status.
pub const CAI_ABI_MINOR: i32 = 0;
