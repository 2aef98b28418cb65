//! The CUDA driver, found at run time.
//!
//! May use: `abi`, `error`, `owner` (to say what is destroyed). `unsafe`: loading a library and
//! calling it. Only this room knows cudarc, whose types and constants it uses; its loader panics
//! where a driver, or one of its functions, is missing.
//!
//! Nothing is loaded or called before a function needs it. A driver that is not there is looked for
//! again the next time. After a fork every function answers a status, in the child only. The
//! simulated driver is just another `libcuda.so.1`.

mod context;
mod events;
mod load;
mod pointer;
mod result;
mod slots;
mod stream;
mod table;

pub use cudarc::driver::sys::{CUcontext, CUevent, CUgraph};
pub use events::Event;
pub use load::*;
pub use pointer::{attributes, device_pointer, is_inside, location, owner_context};
pub use result::Call;
pub(crate) use result::{DEINITIALIZED, INVALID_CONTEXT, INVALID_HANDLE};
pub use stream::{Capture, Stream};
