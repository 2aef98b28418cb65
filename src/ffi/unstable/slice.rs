//! Parts of an array, for C.

use super::super::guard::guard;
use crate::abi::{self, cai_array, cai_error, cai_status};
use crate::argument::{In, Out, arguments};
use crate::slice::{self, Cut};

/// Makes an array of some elements along one dimension: `start`, `start + step`, ... below `stop`. The
/// data is shared, not copied. The masks are cut as well, except where they are broadcast along the
/// dimension. Call it again for another dimension.
///
/// The result has the type, device, stream, event and flags of `array`; its strides are stated, unless
/// the elements follow each other without gaps as they did. An array without elements has no address.
/// Behind a handle, `byte_offset` grows instead of `data`.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`.
/// `dimension`: at least 0, below `array->ndim`.
/// `start`, `stop`: 0 to the extent of the dimension, `start` not above `stop`. Nothing counts from the
/// end, and nothing is cut to the extent: what NumPy would read as another range is refused.
/// `step`: at least 1.
/// `out`: must be initialized (`CAI_ARRAY_INIT`), hold no reference, which would be lost, and not be
/// `array`. Its owner, in which its shape and strides lie, holds a reference to that of `array`.
/// Written on success only; release it with `cai_array_release`.
///
/// Elements of bit fields that are no whole bytes (`|t1`, in masks as well) can be cut along the
/// outermost dimension only, and at the beginning of a byte.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_ARGUMENT` for a
/// dimension or a range that does not exist, or if `out` is `array`, `CAI_ERR_BIT_STRIDES` or
/// `CAI_ERR_CONVERT_BIT_OFFSET` for bit fields that cannot be cut there, `CAI_ERR_BORROWED`,
/// `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY`, or a status of `cai_array_validate`.
/// Thread safety: any thread; allocates one block. Makes no driver call.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_slice(
    array: *const cai_array,
    dimension: i32,
    start: i64,
    stop: i64,
    step: i64,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, out: Out, error: Out);
    guard(error, || {
        let given = array.given("array")?;
        let out = out.array("out")?;
        out.differs_from(array, "array")?;
        let valid = given.valid(abi::CAI_CHECK_LAYOUT)?;
        let cut = Cut::new(valid.layout().shape, dimension, start, stop, step)?;
        out.give(slice::slice(&valid, cut)?);
        Ok(())
    })
}
