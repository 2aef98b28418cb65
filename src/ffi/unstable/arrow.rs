//! Arrow's structures, for C.

use std::ffi::{CStr, c_char};

use super::super::guard::guard;
use super::super::python::with_exception;
use crate::abi::{
    _object, ArrowDeviceArray, ArrowSchema, CAI_UNSTABLE_ARROW_HOST, cai_array, cai_error,
    cai_status,
};
use crate::argument::{Fixed, In, List, Out, Text, arguments};
use crate::arrow::{self, DeviceArray, Schema};
use crate::error::{Result, fail};
use crate::memory;
use crate::python::{self, Owned, Py};
use crate::validate::Valid;

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
    arguments!(source: Out(array), schema: In, out: Out, error: Out);
    guard(error, || {
        let source = source.given("array")?;
        let schema = schema.given("schema")?;
        let out = out.array("out")?;
        // SAFETY: both are alive as the header requires, and the first is the caller's.
        out.give(unsafe { arrow::from_arrow(source.as_ptr().cast(), schema.as_ptr().cast()) }?);
        Ok(())
    })
}

/// Creates an array from each column of a record batch: an Arrow array of structures (`+s`), which
/// it takes over. `release` is called exactly once, when the last reference to any column is
/// released.
///
/// Each column is imported as by `cai_unstable_array_from_arrow`; those of other types make the call
/// fail. Nulls of the batch become a mask of each column. The names are
/// `schema->children[index]->name`.
///
/// `batch`: if the function succeeds, it was moved, and its `release` is NULL. If it fails, nothing
/// has changed, and the caller must still release it.
/// `schema`: only read. The caller must still release it.
/// `count`: `schema->n_children`.
/// `out`: `count` addresses of initialized arrays that hold no reference, or NULL for columns to
/// leave out, which may have any type. Each array has an owner of its own, the event of the batch,
/// and its device. All are written on success only.
///
/// Returns a status of `cai_unstable_array_from_arrow`, or `CAI_ERR_VALUE` for another `count`.
/// `error->field` begins with `columns[1].` for the second column.
/// Thread safety: any thread; allocates four blocks, and two for each column. Source: Arrow, "The
/// Arrow C Device data interface", "Struct arrays".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_arrays_from_arrow(
    batch: *mut ArrowDeviceArray,
    schema: *const ArrowSchema,
    count: i64,
    out: *const *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    let size = usize::try_from(count).unwrap_or(0);
    arguments!(source: Out(batch), schema: In, out: List(out, size), error: Out);
    guard(error, || {
        let source = source.given("batch")?;
        let schema = schema.given("schema")?;
        let places = out.given("out")?;
        if count < 0 {
            return fail!(CAI_ERR_VALUE, "count"; found "{count}"; expected "at least 0");
        }
        // SAFETY: `count` addresses, each NULL or that of an array (this function's contract).
        let out = |index: usize| unsafe { Out::new(places[index]) };
        let is_wanted = |index: usize| !places[index].is_null();
        for index in (0..size).filter(|&index| is_wanted(index)) {
            out(index).array("out")?;
        }
        // SAFETY: both are alive as the header requires, and the first is the caller's.
        let arrays = unsafe {
            arrow::columns_from_arrow(
                source.as_ptr().cast(),
                schema.as_ptr().cast(),
                size,
                is_wanted,
            )
        }?;
        for (index, array) in arrays {
            out(index).array("out")?.give(array);
        }
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
    arguments!(array: In, to: Out(out_array.cast()), schema_to: Out(out_schema.cast()), error: Out);
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

/// Validates the arrays of record batches, whose columns have these names.
///
/// # Safety
/// Each address is NULL, or that of a terminated text or of an array that is readable for `'a`.
unsafe fn columns_of<'a>(
    arrays: &'a [*const cai_array],
    names: &'a [*const c_char],
) -> Result<(Vec<Valid<'a>>, Vec<&'a CStr>)> {
    let (mut valid, mut texts) = (Vec::new(), Vec::new());
    for &name in names {
        // SAFETY: NULL or a terminated text (this function's contract).
        memory::push(&mut texts, unsafe { Text::new(name) }.given("names")?)?;
    }
    for (index, &array) in arrays.iter().enumerate() {
        // SAFETY: NULL or an array (this function's contract).
        let array = unsafe { In::new(array) }.given("arrays")?;
        let array = array.valid(arrow::CHECKS).map_err(arrow::in_column(index % names.len()))?;
        memory::push(&mut valid, array)?;
    }
    Ok((valid, texts))
}

/// Creates a record batch and its schema from named arrays of one length: an Arrow array of structures
/// (`+s`) with a column for each array. Both must be released once, from any thread, in any order.
/// Columns may be moved out of them.
///
/// Each array becomes a column as by `cai_unstable_array_to_arrow`, with a reference of its own to the
/// owner. All have the same first extent and are on one device.
///
/// Arrow arrays are not written to: the caller must ensure that nothing writes to the data while
/// the batch exists.
///
/// `arrays`: `count` addresses of arrays, as for `cai_unstable_array_to_arrow`.
/// `names`: `count` names in UTF-8, which are copied.
/// `count`: at least 1.
/// `flags`: 0, or `CAI_UNSTABLE_ARROW_TENSOR`.
/// `out_batch`: `sync_event` is as for `cai_unstable_array_to_arrow`, and that of the first array with
/// pending work. The host waits for the work of arrays that have another stream.
/// `out_schema`: NULL if no schema is needed. Both outputs are written on success only, and
/// overwritten without a release.
///
/// Returns a status of `cai_unstable_array_to_arrow`, `CAI_ERR_VALUE` for a `count` below 1 and for
/// arrays of another length, or `CAI_ERR_CONVERT_DEVICE` for another device. `error->field` begins
/// with `columns[1].` for the second array.
/// Thread safety: any thread. Allocates. Source: Arrow, "The Arrow C Device data interface", "Struct
/// arrays".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_arrays_to_arrow(
    arrays: *const *const cai_array,
    names: *const *const c_char,
    count: i64,
    flags: u32,
    out_batch: *mut ArrowDeviceArray,
    out_schema: *mut ArrowSchema,
    error: *mut cai_error,
) -> cai_status {
    let size = usize::try_from(count).unwrap_or(0);
    arguments!(arrays: List(arrays, size), names: List(names, size));
    arguments!(to: Out(out_batch.cast()), schema_to: Out(out_schema.cast()), error: Out);
    guard(error, || {
        if count < 1 {
            return fail!(CAI_ERR_VALUE, "count"; found "{count}"; expected "at least 1");
        }
        let (arrays, names) = (arrays.given("arrays")?, names.given("names")?);
        let to = to.given("out_batch")?;
        arrow::check_flags(flags)?;
        // SAFETY: the addresses are NULL or those of texts and arrays (this function's contract).
        let (arrays, names) = unsafe { columns_of(arrays, names) }?;
        let (batch, schema) = arrow::batch(&arrays, &names, flags)?;
        to.write(batch.into_raw());
        if let Some(to) = schema_to.optional() {
            to.write(schema.into_raw());
        }
        Ok(())
    })
}

/// Creates a capsule with a stream of record batches, as the Python methods `__arrow_c_device_stream__`
/// and, with `CAI_UNSTABLE_ARROW_HOST`, `__arrow_c_stream__` return it.
///
/// Each array becomes a column as by `cai_unstable_array_to_arrow`, with a reference of its own to the
/// owner. All arrays of a batch have the same first extent and are on one device. Its `sync_event` is
/// that of the first array with pending work; the host waits for work of arrays that have another
/// stream.
///
/// `arrays`: `columns` times `batches` addresses of arrays, batch by batch.
/// `names`: `columns` names in UTF-8, which are copied.
/// `flags`: 0, or any of `CAI_UNSTABLE_ARROW_TENSOR` and `CAI_UNSTABLE_ARROW_HOST`.
/// `out`: a new reference to a `PyObject`. Written on success only.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns a status of `cai_unstable_array_to_arrow`, `CAI_ERR_VALUE` for a number of columns or
/// batches below 1, and for arrays of another length, `CAI_ERR_CONVERT_DEVICE` for another device,
/// `CAI_ERR_CONVERT_TYPE` for a column whose type or shape changes, `CAI_ERR_NO_PYTHON`,
/// `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK` or `CAI_ERR_PYTHON_EXCEPTION`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates. Source: Arrow, "The Arrow
/// PyCapsule Interface".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_arrow_stream_to_python(
    arrays: *const *const cai_array,
    names: *const *const c_char,
    columns: i64,
    batches: i64,
    flags: u32,
    out: *mut *mut _object,
    error: *mut cai_error,
) -> cai_status {
    let count = usize::try_from(columns).unwrap_or(0);
    let all = usize::try_from(batches).unwrap_or(0).saturating_mul(count);
    arguments!(arrays: List(arrays, all), names: List(names, count), out: Out, error: Out);
    with_exception(error, &mut true, |_| {
        for (name, value) in [("columns", columns), ("batches", batches)] {
            if value < 1 {
                return fail!(CAI_ERR_VALUE, "{name}"; found "{value}"; expected "at least 1");
            }
        }
        let (arrays, names) = (arrays.given("arrays")?, names.given("names")?);
        let out = out.given("out")?;
        arrow::check_flags(flags & !CAI_UNSTABLE_ARROW_HOST)?;
        // SAFETY: the addresses are NULL or those of texts and arrays (this function's contract).
        let (valid, texts) = unsafe { columns_of(arrays, names) }?;
        let object = Py::with(|py| {
            let is_host = flags & CAI_UNSTABLE_ARROW_HOST != 0;
            let flags = flags & !CAI_UNSTABLE_ARROW_HOST;
            python::arrow_stream(py, &valid, &texts, flags, is_host).map(Owned::into_raw)
        })?;
        out.write(object);
        Ok(())
    })
}
