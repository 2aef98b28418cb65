//! Flag for `cai/unstable/capture.h`.

/// A capturing stream gets a graph node that waits, at each launch, for the other stream's work.
pub const CAI_UNSTABLE_CAPTURE_EXTERNAL: u32 = 512;
