//! Python objects: import, export, streams and views.
//!
//! Nothing of Python is linked, and nothing of it is needed to build: [`capi`] finds CPython's
//! functions in the process. [`interpreter`] keeps the state of each interpreter and releases
//! objects from threads that are in none. [`import`] tries the protocols and makes an array with an
//! owner of [`owner`]; [`export`] makes objects for arrays; [`stream`] reads stream objects, and
//! [`view`] makes views that are ordered on them; [`error`] raises exceptions.

mod at_exit;
mod cache;
mod capi;
mod capsules;
mod convert;
mod error;
mod export;
mod import;
mod interpreter;
mod names;
mod offers;
mod owner;
mod py;
pub mod stream;
mod texts;
mod view;

pub use error::{raise, raise_nothing};
pub use export::{export, flags as export_flags};
pub use import::options::ImportOptions;
pub use import::{import, import_dictionary, share_own};
pub use owner::Description;
pub use view::function as view_function;

pub use py::Py;
use py::{Owned, raised};

use crate::abi::{_object, cai_exchange_api};
use crate::error::{Result, fail};

/// Publishes a table on a type.
///
/// # Safety
/// `r#type` is a live object, `table` constant for the life of the process.
pub unsafe fn publish(py: Py, r#type: *mut _object, table: *const cai_exchange_api) -> Result<()> {
    // SAFETY: the table is constant (this function's contract).
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
    // SAFETY: the GIL is held.
    unsafe {
        let name = capsules::EXCHANGE_CAPSULE.as_ptr();
        let capsule = Owned::new(py, (capi.capsule_new)(table.cast_mut().cast(), name, None))?;
        if (capi.set_attr)(r#type, py.names.exchange.as_ptr(), capsule.get()) != 0 {
            return raised();
        }
    }
    Ok(())
}
