//! Record batches, which are structures of columns, and streams of them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::vec;

use crate::abi;
use crate::arrow::abi::{Array, DeviceArray, DeviceStream, HostStream, Schema, Structure};
use crate::arrow::export::{Description, Type, describe, device_of, schema_of};
use crate::arrow::structures::{Owned, OwnedDeviceArray};
use crate::error::{Failure, Result, fail};
use crate::memory;
use crate::owner::Ref;
use crate::sync::consume;
use crate::sync::mark::{self, OwnedEvent};
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
    let mut root = memory::boxed(Root {
        children,
        places: Vec::new(),
        buffers: [ptr::null()],
        event: ptr::null_mut(),
        kept: None,
        owner: None,
    })?;
    let count = root.children.len();
    root.places.try_reserve_exact(count).map_err(|_| Failure::no_memory(count))?;
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
    let (places, buffers, event) = unsafe {
        let event = &raw mut (*root).event;
        ((*root).places.as_mut_ptr(), (*root).buffers.as_mut_ptr(), event)
    };
    // SAFETY: as above.
    let has_event = unsafe { !(*event).is_null() };
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
                    let mut copy = Vec::new();
                    let text = name.to_bytes_with_nul();
                    copy.try_reserve_exact(text.len())
                        .map_err(|_| Failure::no_memory(text.len()))?;
                    copy.extend_from_slice(text);
                    memory::push(&mut columns, Column { r#type: description.r#type, name: copy })?;
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

/// A stream of Arrow's.
pub trait Stream: Sized + 'static {
    /// The structure of a batch.
    type Batch;
    fn of(batches: *mut Batches, device_type: i32) -> Self;
    fn batches(&self) -> *mut Batches;
    fn is_live(&self) -> bool;
    fn clear(&mut self);
    fn batch(of: OwnedDeviceArray) -> Self::Batch;
    /// The end of the stream.
    fn end() -> Self::Batch;
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

unsafe extern "C-unwind" fn get_schema<S: Stream>(stream: *mut S, out: *mut Schema) -> c_int {
    // SAFETY: a live stream of `into_stream`, which one thread uses at a time. [Arrow, "The Arrow C
    // stream interface", "Thread safety"]
    let batches = unsafe { &mut *(*stream).batches() };
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

unsafe extern "C-unwind" fn get_next<S: Stream>(stream: *mut S, out: *mut S::Batch) -> c_int {
    // SAFETY: as in `get_schema`.
    let next = unsafe { &mut *(*stream).batches() }.batches.next();
    // SAFETY: the caller's structure.
    unsafe { out.write(next.map_or_else(S::end, S::batch)) };
    0
}

unsafe extern "C-unwind" fn get_last_error<S: Stream>(stream: *mut S) -> *const c_char {
    // SAFETY: as in `get_schema`.
    let has_failed = unsafe { &*(*stream).batches() }.has_failed;
    if has_failed { c"out of memory".as_ptr() } else { ptr::null() }
}

unsafe extern "C-unwind" fn release_stream<S: Stream>(stream: *mut S) {
    // SAFETY: NULL, or a stream that the caller owns.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    if stream.is_live() {
        stream.clear();
        // SAFETY: `into_stream` gave the box to this stream, which was live until now.
        drop(unsafe { Box::from_raw(stream.batches()) });
    }
}

macro_rules! stream {
    ($name:ident, $batch:ty, { $($member:ident: $value:expr),* }, $device:ident, $of:ident => $made:expr, $end:expr) => {
        impl Stream for $name {
            type Batch = $batch;

            fn of(batches: *mut Batches, $device: i32) -> Self {
                $name {
                    $($member: $value,)*
                    get_schema: get_schema::<Self>,
                    get_next: get_next::<Self>,
                    get_last_error: get_last_error::<Self>,
                    release: Some(release_stream::<Self>),
                    private_data: batches.cast(),
                }
            }

            fn batches(&self) -> *mut Batches {
                self.private_data.cast()
            }

            fn is_live(&self) -> bool {
                self.release.is_some()
            }

            fn clear(&mut self) {
                self.release = None;
            }

            fn batch($of: OwnedDeviceArray) -> $batch {
                $made
            }

            fn end() -> $batch {
                $end
            }
        }
    };
}

stream!(DeviceStream, DeviceArray, { device_type: device }, device, of => of.into_raw(), DeviceArray {
    array: RELEASED,
    device_id: -1,
    device_type: abi::CAI_DEVICE_CPU,
    sync_event: ptr::null_mut(),
    reserved: [MaybeUninit::new(0); 3],
});
stream!(HostStream, Array, {}, _device, of => of.into_array().into_raw(), RELEASED);

/// A stream that this value owns: dropping it releases the stream, unless it was moved out.
#[repr(transparent)]
pub struct OwnedStream<S: Stream>(S);

impl<S: Stream> Drop for OwnedStream<S> {
    fn drop(&mut self) {
        // SAFETY: a live stream that this value owns, or one that was moved out.
        unsafe { release_stream(&raw mut self.0) };
    }
}

/// Makes a stream of batches.
pub fn into_stream<S: Stream>(batches: Batches) -> Result<OwnedStream<S>> {
    let device_type = batches.device_type;
    let batches = Box::into_raw(memory::boxed(batches)?);
    Ok(OwnedStream(S::of(batches, device_type)))
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
