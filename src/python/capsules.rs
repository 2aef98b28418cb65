//! Names of capsules.

use std::ffi::CStr;

pub(crate) const CONTEXT: &CStr = c"SyclContextRef";

pub(crate) const QUEUE: &CStr = c"SyclQueueRef";

/// Capsule with this library's exchange table. The name ends in `CAI_DATA_ABI`.
pub(crate) const EXCHANGE_CAPSULE: &CStr = c"cai_exchange_api_1";

/// Capsule with DLPack's exchange table.
pub(crate) const DLPACK_CAPSULE: &std::ffi::CStr = c"dlpack_exchange_api";

pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";

pub(crate) const UNVERSIONED: &CStr = c"dltensor";

pub(crate) const ARROW_SCHEMA: &CStr = c"arrow_schema";

pub(crate) const ARROW_ARRAY: &CStr = c"arrow_array";

pub(crate) const ARROW_DEVICE_ARRAY: &CStr = c"arrow_device_array";

pub(crate) const ARROW_STREAM: &CStr = c"arrow_array_stream";

pub(crate) const ARROW_DEVICE_STREAM: &CStr = c"arrow_device_array_stream";
