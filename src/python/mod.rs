//! Python objects in and out.
//!
//! May use: what `bridge` may. `unsafe`: calls CPython with its lock held.
//!
//! Nothing of Python is linked, and nothing of it is needed to build: [`capi`] finds CPython's
//! functions in the process. [`interpreter`] keeps what is remembered for each interpreter and lets
//! objects go from threads that are in none. [`import`] tries the ways in; [`dictionary`],
//! [`buffer`], [`sycl`] and [`numpy`] read what a protocol says, into a description that [`keeper`]
//! makes an array of. [`export`] is the way out, and [`exception`] tells what went wrong.

mod cache;
mod capi;
mod capsules;
mod convert;
mod error;
mod export;
mod import;
mod interpreter;
mod offers;
mod owner;

pub use error::{raise, raise_nothing};
pub use export::{export, flags as export_flags};
pub use import::import;
pub use import::options::ImportOptions;
pub use owner::Description;

use interpreter::{Owned, Py, raised};

use crate::abi::{_object, cai_exchange_api};
use crate::error::{Result, fail};

/// Publishes a table on a type.
///
/// # Safety
/// `r#type` is a live object, `table` constant for the life of the process.
pub unsafe fn publish(r#type: *mut _object, table: *const cai_exchange_api) -> Result<()> {
    let py = Py::here()?;
    // SAFETY: handed on.
    unsafe { offers::check_table(table) }?;
    let capi = py.capi();
    if !py.is(r#type, capi.type_type) {
        return fail!(
            CAI_ERR_TYPE,
            "type",
            found = ("an object of type {}", py.type_name(r#type)),
            expected = "a type"
        );
    }
    // SAFETY: the lock is held.
    unsafe {
        let name = capsules::EXCHANGE_CAPSULE.as_ptr();
        let capsule = Owned::new(py, (capi.capsule_new)(table.cast_mut().cast(), name, None))?;
        if (capi.set_attr)(r#type, py.names.exchange, capsule.get()) != 0 {
            return raised();
        }
    }
    py.types.forget();
    Ok(())
}
