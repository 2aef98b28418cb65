//! The simulated driver as a library: `libcuda.so.1`, whose functions call those of
//! `cudasim_core::api`.

#![allow(non_snake_case, clippy::not_unsafe_ptr_arg_deref)]

use cudasim_core::api::annotations;
use cudasim_core::cudasim::Api;

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// Returns the table of functions that cudasim.h looks up. NULL for an unknown version.
#[unsafe(no_mangle)]
pub extern "C" fn cudasim_get_api(version: u32) -> *const Api {
    annotations::cudasim_get_api(version)
}
