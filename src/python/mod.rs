//! Python objects: import, export, streams and views.
//!
//! Nothing of Python is linked, and nothing of it is needed to build: [`capi`] finds CPython's
//! functions in the process. [`interpreter`] keeps the state of each interpreter and releases
//! objects from threads that are in none. [`import`] tries the protocols and makes an array with an
//! owner of [`owner`]; [`export`] makes objects for arrays; [`stream`] reads stream objects,
//! [`view`] makes views that are ordered on them, and [`empty`] has other libraries allocate; [`error`] raises exceptions.

mod at_exit;
mod cache;
mod capi;
mod capsules;
mod class;
mod deferred;
pub mod empty;
mod error;
mod export;
mod formats;
mod free_list;
mod import;
mod interpreter;
mod names;
mod ndarray;
mod offers;
mod owner;
mod py;
mod readers;
pub mod stream;
mod texts;
mod values;
mod view;

pub use error::{raise, raise_nothing};
pub use export::arrow::stream as arrow_stream;
pub use export::{export, flags as export_flags};
pub use import::options::ImportOptions;
pub use import::{import, import_dictionary, share_own};
pub use owner::Description;
pub use view::function as view_function;

pub use py::{Obj, Owned, Py};

use crate::abi::cai_unstable_exchange_api;
use crate::error::{Result, fail};
use py::Builtin;

/// Makes the value of a type's attribute `__cai_exchange_api__`.
///
/// # Safety
/// `table` is constant for the life of the process.
pub unsafe fn table_capsule(
    py: Py<'_>,
    table: *const cai_unstable_exchange_api,
) -> Result<Owned<'_>> {
    // SAFETY: the table is constant (this function's contract), and of the kind that the name states.
    unsafe {
        offers::check_table(table)?;
        py.capsule(table.cast_mut().cast(), capsules::EXCHANGE_CAPSULE, None)
    }
}

/// # Safety
/// `table` is constant for the life of the process.
pub unsafe fn publish(py: Py, r#type: Obj, table: *const cai_unstable_exchange_api) -> Result<()> {
    // SAFETY: the table is constant (this function's contract).
    let capsule = unsafe { table_capsule(py, table) }?;
    if !r#type.is_a(py, Builtin::Type) {
        return fail!(CAI_ERR_TYPE, "type";
            found "an object of type {}", r#type.type_name(py); expected "a type");
    }
    r#type.set_attr(py, py.names.exchange, capsule.obj())
}
