//! Python objects.
use crate::abi::*;
use crate::error::{Result, fail};
pub unsafe fn import_options(_: *const cai_import_options) -> Result<cai_import_options> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn export_options(_: *const cai_export_options) -> Result<cai_export_options> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn import(_: *mut _object, _: &cai_import_options, _: usize) -> Result<cai_array> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn export(_: &cai_array, _: &cai_export_options) -> Result<*mut _object> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn publish(_: *mut _object, _: *const cai_exchange_api) -> Result<()> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn raise(_: &cai_error) {}
