//! Sizes for `cai/unstable/ipc.h`.

/// Bytes that suffice for every exported array.
pub const CAI_UNSTABLE_IPC_SIZE: usize = 16384;
/// Maximum length of the text of an array's fields, as `cai_descr_format` writes it.
pub const CAI_UNSTABLE_IPC_FIELDS: usize = 4096;
