//! What callers say about synchronization.

/// Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_synchronize`: the consumer reads the data.
pub const CAI_ACCESS_READ: u32 = 1;

/// Bit of the same: the consumer writes the data.
pub const CAI_ACCESS_WRITE: u32 = 2;

/// Bit of the same, and of `cai_sync_policy_set`: the stream of the array is ignored, as if it were `CAI_STREAM_NONE`.
/// Whoever sets it answers for the absence of data races (CAI version 3, "Synchronization", "Design
/// Motivations", 3).
pub const CAI_SYNC_IGNORE: u32 = 16;

/// Bit of the `flags` of `cai_array_produce`, and of `cai_sync_policy_set`: the producer always exports
/// `CAI_STREAM_NONE`. Whoever sets it answers for the absence of data races.
pub const CAI_SYNC_EXPORT_NONE: u32 = 32;

/// Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_synchronize`, and of `cai_sync_policy_set`:
/// an array whose stream is `CAI_STREAM_UNKNOWN` is taken to have work pending on every stream of its context,
/// and its producer to go on on any of them. The whole context is made to wait. Not while a stream of that context is being captured:
/// that breaks the capture. Without it, nothing is done for such an array.
pub const CAI_SYNC_CONSERVATIVE: u32 = 64;

/// Bit of the `flags` of the functions that take any `CAI_SYNC_` bit: in this call only the call's own bits
/// count, not what `cai_sync_policy_set` or the environment says.
pub const CAI_SYNC_THIS_CALL: u32 = 128;

/// Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_produce`: where one of two streams is
/// being captured and the one that has to wait is not, the latter is drawn into the capture, to which it
/// belongs until `cuStreamEndCapture`.
pub const CAI_CAPTURE_JOIN: u32 = 256;

/// Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_produce`: where the stream that has
/// to wait is being captured and the other is not, the graph gets a node that waits, at each launch, for the work
/// that was pending on the other stream when this function was called. Where the array has an `event`, readers'
/// graphs wait for that one: it must outlive them, so let the graph keep the owner, by `cai_owner_release_after`.
pub const CAI_CAPTURE_EXTERNAL: u32 = 512;
