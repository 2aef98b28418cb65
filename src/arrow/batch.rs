//! Record batches, which are structures of columns, and streams of them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::vec;

use crate::abi;
use crate::arrow::abi::{Array, Batch, DeviceArray, Schema, Stream, Structure};
use crate::arrow::export::{Description, Type, describe, device_of, schema_of};
use crate::arrow::structures::{Owned, OwnedDeviceArray};
use crate::driver::OwnedEvent;
use crate::error::{Failure, Result, fail};
use crate::memory;
use crate::owner::Ref;
use crate::sync::consume;
use crate::sync::mark;
use crate::unwind;
use crate::validate::Valid;

/// What a structure of columns points to.
struct Root<T: Structure> {
    children: Vec<Owned<T>>,
    places: Vec<*mut T>,
    buffers: [*const c_void; 1],
    /// The target of `sync_event`.
    event: *mut c_void,
    /// Dropped before the owner of the array that states the event.
    kept: Option<OwnedEvent>,
    owner: Option<Ref>,
}

fn root<T: Structure>(children: Vec<Owned<T>>) -> Result<Box<Root<T>>> {
    let count = children.len();
    let mut root = memory::boxed(Root {
        children,
        places: memory::with_capacity(count)?,
        buffers: [ptr::null()],
        event: ptr::null_mut(),
        kept: None,
        owner: None,
    })?;
    // A consumer may move a child out of its place.
    let first = root.children.as_mut_ptr().cast::<T>();
    root.places.extend((0..count).map(|index| first.wrapping_add(index)));
    Ok(root)
}

/// The release callback. Does nothing for a structure that was released or moved.
unsafe extern "C-unwind" fn release<T: Structure>(structure: *mut T) {
    // SAFETY: NULL, or a structure that the caller owns.
    let Some(structure) = (unsafe { structure.as_mut() }) else { return };
    if structure.release().take().is_some() {
        // SAFETY: only `schema` and `array` make structures with this callback, from such a box,
        // which is given up once: the callback was still set. Children that were moved have none.
        drop(unsafe { Box::from_raw(structure.private_data().cast::<Root<T>>()) });
    }
}

/// The columns of one batch.
pub struct Column {
    r#type: Type,
    /// With its NUL.
    name: Vec<u8>,
}

fn schema(columns: &[Column]) -> Result<Owned<Schema>> {
    let mut children = Vec::new();
    for column in columns {
        memory::push(&mut children, schema_of(&column.r#type, &column.name)?)?;
    }
    let root = Box::into_raw(root(children)?);
    // SAFETY: made above. The structure owns it from now on.
    let places = unsafe { (*root).places.as_mut_ptr() };
    let schema = Schema {
        format: c"+s".as_ptr(),
        name: c"".as_ptr(),
        metadata: ptr::null(),
        flags: 0,
        n_children: columns.len() as i64,
        children: places,
        dictionary: ptr::null_mut(),
        release: Some(release::<Schema>),
        private_data: root.cast(),
    };
    // SAFETY: nothing else owns the structure.
    Ok(unsafe { Owned::new(schema) })
}

/// Adds the number of a column to the field of a failure.
pub fn in_column(index: usize) -> impl Fn(Failure) -> Failure {
    move |failure| failure.within(format_args!("columns[{index}]."))
}

/// Makes an Arrow array of the columns. The device is that of all of them, and the event that of the
/// first one with pending work. The host waits for work on columns that have another stream.
fn array(columns: &[Description], arrays: &[Valid]) -> Result<OwnedDeviceArray> {
    let Some(first) = arrays.first() else { return Err(Failure::internal()) };
    let length = |array: &Valid| array.layout().shape.first().copied().unwrap_or_default();
    let device = device_of(first).map_err(in_column(0))?;
    let (mut children, mut pending): (_, Option<(usize, &Valid)>) = (Vec::new(), None);
    for (index, (column, array)) in columns.iter().zip(arrays).enumerate() {
        let mut add = || {
            if device_of(array)? != device {
                return fail!(CAI_ERR_CONVERT_DEVICE, "device";
                    found "another device than that of the first column"; expected "the same");
            }
            if length(array) != length(first) {
                return fail!(CAI_ERR_VALUE, "shape[0]";
                    found "{}", length(array);
                    expected "{}, as in the first column", length(first));
            }
            memory::push(&mut children, column.part()?)?;
            if array.stream == abi::CAI_STREAM_NONE || array.data.is_null() {
                return mark::wait_for_masks(array);
            }
            match pending {
                None => pending = Some((index, array)),
                Some((_, of)) if mark::has_work_of(array, of)? => mark::wait_for_masks(array)?,
                Some(_) => consume::synchronize(array.unchecked(), abi::CAI_ACCESS_READ)?,
            }
            Ok(())
        };
        add().map_err(in_column(index))?;
    }
    let mut root = root(children)?;
    if let Some((index, pending)) = pending {
        let mark = mark::of(pending).map_err(in_column(index))?;
        (root.event, root.kept) = mark.keep()?;
        root.owner = Some(pending.retain()?);
    }
    let root = Box::into_raw(root);
    // SAFETY: made above. The structure owns it from now on.
    let (places, buffers, event, has_event) = unsafe {
        let event = &raw mut (*root).event;
        ((*root).places.as_mut_ptr(), (*root).buffers.as_mut_ptr(), event, !(*event).is_null())
    };
    let array = Array {
        length: length(first),
        null_count: 0,
        offset: 0,
        n_buffers: 1,
        n_children: columns.len() as i64,
        buffers,
        children: places,
        dictionary: ptr::null_mut(),
        release: Some(release::<Array>),
        private_data: root.cast(),
    };
    let (device_type, device_id) = device;
    let sync_event = if has_event { event.cast() } else { ptr::null_mut() };
    let reserved = [MaybeUninit::new(0); 3];
    // SAFETY: nothing else owns the structure.
    Ok(unsafe {
        OwnedDeviceArray::new(DeviceArray { array, device_id, device_type, sync_event, reserved })
    })
}

/// Batches of the same columns.
pub struct Batches {
    columns: Vec<Column>,
    batches: vec::IntoIter<OwnedDeviceArray>,
    device_type: i32,
    has_failed: bool,
}

/// Makes batches of arrays that passed [`CHECKS`](super::CHECKS): those of each batch follow each
/// other, in the order of the names.
pub fn batches(arrays: &[Valid], names: &[&CStr], flags: u32) -> Result<Batches> {
    let (mut columns, mut batches, mut device_type): (Vec<Column>, _, _) =
        (Vec::new(), Vec::new(), 0);
    for (number, arrays) in arrays.chunks_exact(names.len().max(1)).enumerate() {
        let mut described = Vec::new();
        for (index, array) in arrays.iter().enumerate() {
            let description = describe(*array, flags).map_err(in_column(index))?;
            memory::push(&mut described, description)?;
        }
        let made = self::array(&described, arrays)?;
        let found = made.device_type();
        if number > 0 && device_type != found {
            return fail!(CAI_ERR_CONVERT_DEVICE, "batches[{number}]";
                found "another kind of device than that of the first batch"; expected "the same");
        }
        device_type = found;
        for (index, (description, name)) in described.into_iter().zip(names).enumerate() {
            match columns.get(index) {
                Some(first) if number > 0 && first.r#type != description.r#type => {
                    return fail!(CAI_ERR_CONVERT_TYPE, "batches[{number}].columns[{index}]";
                        found "another type or shape than in the first batch"; expected "the same");
                }
                Some(_) if number > 0 => {}
                _ => {
                    let name = memory::copied(name.to_bytes_with_nul())?;
                    memory::push(&mut columns, Column { r#type: description.r#type, name })?;
                }
            }
        }
        memory::push(&mut batches, made)?;
    }
    Ok(Batches { columns, batches: batches.into_iter(), device_type, has_failed: false })
}

/// Makes one batch, and its schema, of arrays that passed [`CHECKS`](super::CHECKS).
pub fn batch(
    arrays: &[Valid],
    names: &[&CStr],
    flags: u32,
) -> Result<(OwnedDeviceArray, Owned<Schema>)> {
    let Batches { columns, mut batches, .. } = batches(arrays, names, flags)?;
    let batch = batches.next().ok_or_else(Failure::internal)?;
    Ok((batch, schema(&columns)?))
}

/// A batch in a stream.
pub trait InStream: Batch {
    /// The end of the stream.
    const END: Self;
    fn device(r#type: i32) -> Self::Device;
    fn new(of: OwnedDeviceArray) -> Self;
}

impl InStream for DeviceArray {
    const END: Self = DeviceArray {
        array: RELEASED,
        device_id: -1,
        device_type: abi::CAI_DEVICE_CPU,
        sync_event: ptr::null_mut(),
        reserved: [MaybeUninit::new(0); 3],
    };

    fn device(r#type: i32) -> i32 {
        r#type
    }

    fn new(of: OwnedDeviceArray) -> Self {
        of.into_raw()
    }
}

impl InStream for Array {
    const END: Self = RELEASED;

    fn device(_: i32) -> [i32; 0] {
        []
    }

    fn new(of: OwnedDeviceArray) -> Self {
        of.into_array().into_raw()
    }
}

/// A number without elements, as an array that was released.
const RELEASED: Array = Array {
    length: 0,
    null_count: 0,
    offset: 0,
    n_buffers: 0,
    n_children: 0,
    buffers: ptr::null_mut(),
    children: ptr::null_mut(),
    dictionary: ptr::null_mut(),
    release: None,
    private_data: ptr::null_mut(),
};

/// `ENOMEM`.
const NO_MEMORY: c_int = 12;

/// The batches of a stream.
///
/// # Safety
/// A live stream of `into_stream`, which one thread uses at a time: "The Arrow C stream interface",
/// "Thread safety".
unsafe fn batches_of<'a, B: Batch>(stream: *mut Stream<B>) -> &'a mut Batches {
    // SAFETY: `into_stream` gave a box to the stream (this function's contract).
    unsafe { &mut *(*stream).private_data.cast() }
}

unsafe extern "C-unwind" fn get_schema<B: Batch>(
    stream: *mut Stream<B>,
    out: *mut Schema,
) -> c_int {
    // SAFETY: a consumer calls this so.
    let batches = unsafe { batches_of(stream) };
    match unwind::catch(|| schema(&batches.columns)) {
        Ok(Ok(made)) => {
            // SAFETY: the caller's structure.
            unsafe { out.write(made.into_raw()) };
            0
        }
        _ => {
            batches.has_failed = true;
            NO_MEMORY
        }
    }
}

unsafe extern "C-unwind" fn get_next<B: InStream>(stream: *mut Stream<B>, out: *mut B) -> c_int {
    // SAFETY: a consumer calls this so, with a structure of its own.
    unsafe { out.write(batches_of(stream).batches.next().map_or(B::END, B::new)) };
    0
}

unsafe extern "C-unwind" fn get_last_error<B: Batch>(stream: *mut Stream<B>) -> *const c_char {
    // SAFETY: a consumer calls this so.
    let has_failed = unsafe { batches_of(stream) }.has_failed;
    if has_failed { c"out of memory".as_ptr() } else { ptr::null() }
}

unsafe extern "C-unwind" fn release_stream<B: Batch>(stream: *mut Stream<B>) {
    // SAFETY: NULL, or a stream that the caller owns.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    if stream.release.take().is_some() {
        // SAFETY: `into_stream` gave the box to this stream, which was live until now.
        drop(unsafe { Box::from_raw(stream.private_data.cast::<Batches>()) });
    }
}

/// A stream that this value owns: dropping it releases the stream, unless it was moved out.
#[repr(transparent)]
pub struct OwnedStream<B: Batch>(Stream<B>);

impl<B: Batch> Drop for OwnedStream<B> {
    fn drop(&mut self) {
        // SAFETY: a live stream that this value owns, or one that was moved out.
        unsafe { release_stream(&raw mut self.0) };
    }
}

/// Makes a stream of batches.
pub fn into_stream<B: InStream>(batches: Batches) -> Result<OwnedStream<B>> {
    let device = B::device(batches.device_type);
    Ok(OwnedStream(Stream {
        device,
        get_schema: get_schema::<B>,
        get_next: get_next::<B>,
        get_last_error: get_last_error::<B>,
        release: Some(release_stream::<B>),
        private_data: Box::into_raw(memory::boxed(batches)?).cast(),
    }))
}

/// Fails for batches that are not in host memory.
pub fn in_host_memory(batches: &Batches) -> Result<()> {
    if batches.device_type != abi::CAI_DEVICE_CPU {
        return fail!(CAI_ERR_CONVERT_DEVICE, "device";
            found "{}", crate::device::Name(batches.device_type);
            expected "host memory: others have __arrow_c_device_stream__");
    }
    Ok(())
}
