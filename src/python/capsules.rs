//! Names of capsules.

use std::ffi::CStr;

/// The name of a capsule with a context.
pub const CONTEXT: &CStr = c"SyclContextRef";

/// The name of a capsule with a queue.
pub const QUEUE: &CStr = c"SyclQueueRef";

/// The name of the capsule with this library's table.
pub const EXCHANGE_CAPSULE: &std::ffi::CStr = c"cai_exchange_api";

/// The name of the capsule with DLPack's table.
pub const DLPACK_CAPSULE: &std::ffi::CStr = c"dlpack_exchange_api";

pub const VERSIONED: &CStr = c"dltensor_versioned";

pub const UNVERSIONED: &CStr = c"dltensor";
