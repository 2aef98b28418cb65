//! The exported functions of the headers in `cai/unstable`, which a minor release may change.

pub mod channel;
pub mod copy;
pub mod arrow;
pub mod ipc;
pub mod json;
pub mod many;
pub mod release;
pub mod slice;
pub mod exchange;
pub mod view;
