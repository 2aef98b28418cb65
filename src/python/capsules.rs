//! Names of capsules.

use std::ffi::CStr;

/// The name of a capsule with a context.
pub(crate) const CONTEXT: &CStr = c"SyclContextRef";

/// The name of a capsule with a queue.
pub(crate) const QUEUE: &CStr = c"SyclQueueRef";

/// The name of the capsule with this library's table.
pub(crate) const EXCHANGE_CAPSULE: &std::ffi::CStr = c"cai_exchange_api";

/// The name of the capsule with DLPack's table.
pub(crate) const DLPACK_CAPSULE: &std::ffi::CStr = c"dlpack_exchange_api";

pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";

pub(crate) const UNVERSIONED: &CStr = c"dltensor";
