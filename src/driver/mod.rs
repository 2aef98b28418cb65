//! The CUDA driver and the HIP runtime, loaded at run time.
//!
//! Only this folder uses cudarc, and only its types and constants: its loader panics if a driver,
//! or one of its functions, is missing.

mod context;
mod copy;
mod events;
mod known_streams;
mod load;
mod pointer;
mod result;
mod share;
mod shared_stream;
mod slots;
mod stream;
mod table;

pub use context::CallingThread;
pub use copy::{Copies, Rows, To};
pub use cudarc::driver::sys::{CUcontext, CUevent, CUgraph};
pub use events::{Event, OwnedEvent};
pub use load::*;
pub use pointer::{
    attributes, buffer_id, current_device, device_pointer, device_without_memory, home, is_inside,
    locate, location,
};
pub(crate) use result::{
    CAPTURED_EVENT, CONTEXT_IS_DESTROYED, DEINITIALIZED, INVALID_CONTEXT, INVALID_HANDLE,
    NOT_READY, SUCCESS,
};
pub use share::{Allocation, Descriptor, MemoryKind, SharedMemory, SharedPool};
pub use share::{device_of, export_memory, uuid_of};
pub use shared_stream::{Numbers, SharedEvent, SharedStream, TemporaryStream};
pub use stream::{Capture, Stream, is_default};
pub use table::{Api, Call, Function};
