//! Types and constants of the headers in `cai/unstable`, which a minor release may change.

mod arrow;
mod capture;
mod dlpack;
mod exchange;
mod ipc;
mod version4;

pub use arrow::*;
pub use capture::*;
pub use dlpack::*;
pub use exchange::*;
pub use ipc::*;
pub use version4::*;
