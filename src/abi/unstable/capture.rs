//! Flag for `cai/unstable/capture.h`.

/// A capturing stream gets a graph node that waits, at each launch, for the work that is pending on
/// the other stream now. After a begin with it, call `cai_array_consume_end` after each launch, on
/// the launch's stream.
pub const CAI_UNSTABLE_CAPTURE_EXTERNAL: u32 = 512;
