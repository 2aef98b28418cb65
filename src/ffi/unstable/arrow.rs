//! Arrow's structures, for C.

use super::super::guard::guard;
use crate::abi::{ArrowDeviceArray, ArrowSchema, cai_array, cai_error, cai_status};
use crate::argument::{Fixed, In, Out};
use crate::arrow::{self, DeviceArray, Schema};

// SAFETY: Arrow's structures never change.
unsafe impl Fixed for DeviceArray {}
// SAFETY: Arrow's structures never change.
unsafe impl Fixed for Schema {}

/// Creates an array from an Arrow array, which it takes over: `release` is called exactly once,
/// when the last reference to the array is released, on that thread.
///
/// Each level of fixed-size lists becomes a dimension. Nulls become packed masks (`|t1`, the least
/// significant bit first, set for a valid element): those of the innermost level have the shape of
/// the array, and those of a list, with trailing extents of 1, are the mask of that mask. Dates of
/// 4 bytes and times of 4 bytes become the integers that Arrow stores; times of 8 bytes become
/// durations. `fixed_size_binary` becomes opaque bytes (`|V4`), because text would end at its first
/// NUL. Names, time zones and metadata are lost, except that `arrow.bool8` becomes `|b1`, and that
/// `arrow.fixed_shape_tensor` gives its dimensions, in the order of its permutation.
///
/// `array`: if the function succeeds, it was moved, and its `release` is NULL. If it fails, nothing
/// has changed, and the caller must still release it. For an `ArrowArray` in host memory, copy it
/// into the member `array`, with a `device_type` of `ARROW_DEVICE_CPU`.
/// `schema`: only read. The caller must still release it.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost.
/// Always read-only. `event` is the event that `sync_event` points to, and `stream` is then
/// `CAI_STREAM_UNKNOWN`; otherwise it is `CAI_STREAM_NONE`. `data` is NULL if there are no
/// elements. Written on success only; release it with `cai_array_release`.
///
/// Nothing is copied, except booleans and bitmaps in host memory that begin inside a byte.
///
/// `reserved` is not read: producers leave it uninitialized, as pyarrow does.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_ARROW` for a
/// structure that was released, is malformed or does not match its schema, `CAI_ERR_CONVERT_TYPE`
/// for other types than numbers, booleans, dates, times, timestamps, durations, `fixed_size_binary`
/// and lists of a fixed size, `CAI_ERR_CONVERT_DEVICE` for memory that is neither the host's nor of
/// CUDA or ROCm, `CAI_ERR_CONVERT_BIT_OFFSET` for bits on a device that begin inside a byte,
/// `CAI_ERR_CONVERT_STRIDES` for bits whose dimensions are permuted, `CAI_ERR_MASK_DEPTH` for nulls
/// in more than `CAI_MAX_MASKS` levels, `CAI_ERR_EVENT`, `CAI_ERR_NO_MEMORY`, or a status of
/// `cai_array_validate` with `CAI_CHECK_LAYOUT`. `error->field` is a member of the structure
/// (`array.children[0].length`) or of the schema (`schema.format`).
/// Thread safety: any thread; allocates two blocks. Source: Arrow, "The Arrow C Device data
/// interface".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_from_arrow(
    array: *mut ArrowDeviceArray,
    schema: *const ArrowSchema,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the caller passes what the header requires.
    let (source, schema, out, error) =
        unsafe { (Out::new(array), In::new(schema), Out::new(out), Out::new(error)) };
    guard(error, || {
        let source = source.given("array")?;
        let schema = schema.given("schema")?;
        let out = out.array("out")?;
        // SAFETY: both are alive as the header requires, and the first is the caller's.
        out.give(unsafe { arrow::from_arrow(source.as_ptr().cast(), schema.as_ptr().cast()) }?);
        Ok(())
    })
}

/// Creates an Arrow array and its schema from an array, with a reference of its own to the owner,
/// which the array's `release` gives up. Both must be released once, from any thread, in any order.
/// Children may be moved out of them.
///
/// The first extent becomes the length; each other dimension becomes a fixed-size list. If those
/// dimensions are stored in another order, they become one list of the type
/// `arrow.fixed_shape_tensor`, whose permutation restores theirs. The mask
/// becomes the bitmap of the level whose extents it has. `|b1` becomes `arrow.bool8` and `|t1`
/// `bool`; times become timestamps without a time zone, and durations; NaT stays a number, and is
/// not null.
///
/// Arrow arrays are not written to: the caller must ensure that nothing writes to the data while
/// the Arrow array exists.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT` and
/// `CAI_CHECK_ALIGNMENT`.
/// `flags`: 0, or `CAI_UNSTABLE_ARROW_TENSOR`.
/// `out_array`: `sync_event` points to an event that is recorded on the array's stream by this
/// call, and destroyed with the Arrow array. It is the array's own `event` if the array is
/// read-only or its stream is `CAI_STREAM_UNKNOWN`, and NULL for `CAI_STREAM_NONE`. If neither
/// stream nor event is known, or if a mask has another stream than the array, the host waits for
/// the work instead.
/// `out_schema`: NULL if no schema is needed. Both outputs are written on success only, and
/// overwritten without a release.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_BORROWED`,
/// `CAI_ERR_OWNER_OPS`, `CAI_ERR_CONVERT_TYPE` for complex numbers, structures, text of 4-byte
/// characters, objects, numbers above 8 bytes, times of other units, types with a `dtype_code`, and
/// lists above 2^31 - 1 elements, `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_NDIM` for an array
/// without dimensions, `CAI_ERR_CONVERT_CONTIGUOUS`, `CAI_ERR_CONVERT_MASK` for a mask that is not
/// `|t1`, on another device, or broadcast along a dimension before its last one,
/// or of some dimensions of tensors,
/// `CAI_ERR_CONVERT_DEVICE`, `CAI_ERR_STREAM_DEVICE` for a stream of a device other than CUDA's,
/// `CAI_ERR_CAPTURE_PRODUCER` if the stream is being captured, `CAI_ERR_ALIGNMENT`,
/// `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`, or, if the array has a stream, of
/// `cai_array_synchronize`.
/// Thread safety: any thread; allocates one block for each structure. Calls the CUDA driver only
/// for arrays with a stream, or on an unknown device. Source: Arrow, "The Arrow C Device data
/// interface".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_to_arrow(
    array: *const cai_array,
    flags: u32,
    out_array: *mut ArrowDeviceArray,
    out_schema: *mut ArrowSchema,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the caller passes what the header requires.
    let (array, to, schema_to, error) = unsafe {
        let to = (Out::new(out_array.cast()), Out::new(out_schema.cast()));
        (In::new(array), to.0, to.1, Out::new(error))
    };
    guard(error, || {
        let array = array.given("array")?;
        let to = to.given("out_array")?;
        let schema_to = schema_to.optional();
        arrow::check_flags(flags)?;
        let made = arrow::to_arrow(array.valid(arrow::CHECKS)?, flags, schema_to.is_some())?;
        let (array, schema) = made.into_raw();
        to.write(array);
        if let (Some(schema), Some(to)) = (schema, schema_to) {
            to.write(schema);
        }
        Ok(())
    })
}
