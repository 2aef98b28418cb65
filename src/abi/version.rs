//! The version of the binary interface and of the library: stated here and nowhere else.

/// Major version of the binary interface. It is also the number in the shared library's SONAME
/// (`libcai.so.1`). Libraries of one major version load each other's arrays.
pub const CAI_ABI_MAJOR: i32 = 1;

/// Minor version of the binary interface: grows with every added function, field or status.
/// A library of a higher minor version serves callers of every lower one.
pub const CAI_ABI_MINOR: i32 = 0;
