//! Types and constants of the headers in `cai/unstable`, which a minor release may change.

mod capture;
mod exchange;
mod ipc;

pub use capture::*;
pub use exchange::*;
pub use ipc::*;
