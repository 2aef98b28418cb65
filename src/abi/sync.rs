//! Flags of the functions in `cai/sync.h`.

/// The consumer reads the data.
pub const CAI_ACCESS_READ: u32 = 1;
/// The consumer writes the data.
pub const CAI_ACCESS_WRITE: u32 = 2;

/// Consumers treat every array as if its stream were `CAI_STREAM_NONE`.
pub const CAI_SYNC_IGNORE: u32 = 16;
/// Producers always export `CAI_STREAM_NONE`.
pub const CAI_SYNC_EXPORT_NONE: u32 = 32;
/// For `CAI_STREAM_UNKNOWN`, synchronizes with every stream of the array's context. Host waits do so
/// without this bit if the array has no `event`.
pub const CAI_SYNC_CONSERVATIVE: u32 = 64;
/// Only the `CAI_SYNC_` bits of this call count, not those of the process.
pub const CAI_SYNC_THIS_CALL: u32 = 128;

/// A stream that has to wait for a capturing stream joins the capture until it ends. The legacy
/// default stream cannot.
pub const CAI_CAPTURE_JOIN: u32 = 256;
