//! Python objects in and out.
//!
//! May use: what `bridge` may. `unsafe`: calls CPython with its lock held.
//!
//! Nothing of Python is linked, and nothing of it is needed to build: [`capi`] finds CPython's functions in the process.
//! [`interpreter`] keeps what is remembered for each interpreter and lets objects go from threads that are in none.
//! [`import`] tries the ways in; [`dictionary`], [`buffer`], [`sycl`] and [`numpy`] read what a protocol says, into a description
//! that [`keeper`] makes an array of. [`export`] is the way out, and [`exception`] tells what went wrong.

mod buffer;
mod capi;
mod dictionary;
mod exception;
mod export;
mod import;
mod interpreter;
mod keeper;
mod numpy;
mod sycl;
mod types;

pub use exception::{raise, raise_nothing};
pub use export::{export, flags as export_flags};
pub use import::{Wishes, import};
pub use keeper::Description;

use crate::abi::{_object, cai_exchange_api};
use crate::error::{Result, fail};
use interpreter::{Owned, Py, raised};

/// Publishes a table on a type.
///
/// # Safety
/// `r#type` is a live object, `table` constant for the life of the process.
pub unsafe fn publish(r#type: *mut _object, table: *const cai_exchange_api) -> Result<()> {
    let py = Py::here()?;
    // SAFETY: handed on.
    unsafe { types::check_table(table) }?;
    let capi = py.capi();
    if !py.is(r#type, capi.type_type) {
        return fail!(CAI_ERR_TYPE, "type"; found "an object of type {}", py.type_name(r#type); expected "a type");
    }
    // SAFETY: the lock is held.
    unsafe {
        let name = types::EXCHANGE_CAPSULE.as_ptr();
        let capsule = Owned::new(py, (capi.capsule_new)(table.cast_mut().cast(), name, None))?;
        if (capi.set_attr)(r#type, py.names.exchange, capsule.get()) != 0 {
            return raised();
        }
    }
    py.types.forget();
    Ok(())
}
