//! Sizes for `cai/unstable/ipc.h`.

/// Bytes that suffice for every exported array.
pub const CAI_UNSTABLE_IPC_SIZE: usize = 16384;
/// Maximum length of the text of an array's fields, as `cai_descr_format` writes it.
pub const CAI_UNSTABLE_IPC_FIELDS: usize = 4096;
/// Flag of `cai_unstable_channel_create`: streams of processes wait for numbers in device memory.
pub const CAI_UNSTABLE_CHANNEL_NUMBERS: u32 = 1;
