//! Arrays as bytes for other processes.
//!
//! May use: `abi`, `device`, `driver`, `dtype`, `error`, `ipc::bytes`, `layout`, `memory`, `owner`,
//! `owner::description`, `sync::consume`, `validate`.
//! Unsafe: follows the pointers of an array, and makes owners.
//!
//! The exporter describes the allocation, and where the array lies in it; an address has no meaning
//! in another process. The work that is pending on the array becomes an event that the importer can
//! wait for. The importer trusts no byte: what the bytes claim is compared with what the driver
//! maps.

mod bytes;

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, CAI_IPC_SIZE, cai_array, cai_device, cai_owner, cai_pointer_info};
use crate::device::{Name, may_be_cuda};
use crate::driver::{
    self, CallingThread, Descriptor, MemoryKind, SharedEvent, SharedMemory, TemporaryStream,
};
use crate::error::{Result, fail};
use crate::layout::Span;
use crate::owner::{self, description};
use crate::sync::consume::{self, Phase};
use crate::{dtype, memory, validate};
use bytes::Message;

const DIMENSIONS: usize = abi::CAI_MAX_NDIM as usize;

/// An array that was checked, ready to be exported.
pub struct Source<'a> {
    array: &'a cai_array,
    /// `None` without elements.
    info: Option<cai_pointer_info>,
    /// Number of bytes that describe it.
    pub length: usize,
}

/// What another process needs, and what keeps it valid.
pub struct Export {
    pub bytes: [u8; CAI_IPC_SIZE],
    pub descriptor: Option<Descriptor>,
    owner: *mut cai_owner,
}

impl Export {
    /// Returns the owner with its reference, and the descriptor, or -1.
    pub fn into_parts(mut self) -> (*mut cai_owner, i32) {
        let owner = std::mem::replace(&mut self.owner, ptr::null_mut());
        (owner, self.descriptor.take().map_or(-1, Descriptor::into_raw))
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if !self.owner.is_null() {
            // SAFETY: `Source::export` made the reference.
            unsafe { owner::release(self.owner) };
        }
    }
}

impl<'a> Source<'a> {
    /// Checks an array, and asks the driver about its memory.
    ///
    /// # Safety
    /// `array` was validated and stays unchanged; its owner is NULL or alive.
    pub unsafe fn new(array: &'a cai_array) -> Result<Self> {
        owner::not_borrowed(array.owner)?;
        if !array.mask.is_null() {
            return fail!(
                CAI_ERR_CONVERT_MASK,
                "mask",
                found = "a mask",
                expected = "an array without a mask: export the mask as an array of its own"
            );
        }
        if dtype::has_fields(array) {
            return fail!(
                CAI_ERR_CONVERT_TYPE,
                "descr",
                found = "fields",
                expected = "a type that typestr and dtype_code describe"
            );
        }
        if !may_be_cuda(array.device.r#type) {
            return fail!(
                CAI_ERR_CONVERT_DEVICE,
                "device.type",
                found = ("{}", Name(array.device.r#type)),
                expected = "a CUDA device"
            );
        }
        // SAFETY: the array was validated (this function's contract).
        let layout = unsafe { validate::describe(array) }?.layout;
        let span = layout.span()?;
        let length = bytes::length(layout.shape.len(), layout.strides.is_some());
        let info = if array.data.is_null() { None } else { Some(allocation(array, span)?) };
        Ok(Source { array, info, length })
    }

    /// Returns true if a file descriptor goes with the bytes.
    pub fn needs_descriptor(&self) -> bool {
        self.info.as_ref().is_some_and(|info| MemoryKind::of(info).needs_descriptor())
    }

    /// Makes the bytes, and an owner that keeps the array and the event alive.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn export(&self) -> Result<Export> {
        let array = self.array;
        // SAFETY: the array was validated (the contract of `new`).
        let layout = unsafe { validate::describe(array) }?.layout;
        let copy = |values: &[i64]| {
            let mut all = [0; DIMENSIONS];
            all.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
            all
        };
        let mut message = Message {
            kind: None,
            is_readonly: array.flags & abi::CAI_ARRAY_READONLY != 0,
            ndim: layout.shape.len(),
            dtype_code: array.dtype_code,
            typestr: array.typestr,
            uuid: [0; 16],
            size: 0,
            offset: 0,
            memory: [0; 64],
            event: None,
            shape: copy(layout.shape),
            strides: layout.strides.map(copy),
        };
        let (mut descriptor, mut event) = (None, None);
        if let Some(info) = &self.info {
            let thread = &CallingThread::new(driver::driver()?);
            thread.relaxed(|| {
                message.kind = Some(MemoryKind::of(info));
                message.uuid = driver::uuid_of(thread, info.device.id)?;
                message.size = info.size;
                message.offset = (array.data as u64).wrapping_sub(info.base as u64);
                (message.memory, descriptor) = driver::export_memory(thread, info)?;
                Ok(())
            })?;
            if array.stream != abi::CAI_STREAM_NONE {
                // SAFETY: the array was validated (the contract of `new`).
                let made = unsafe { record(array) }?;
                message.event = Some(made.handle()?);
                event = Some(made);
            }
        }
        // SAFETY: alive (the contract of `new`), and not NULL: checked there.
        unsafe { owner::retain(array.owner) }?;
        let owner = match event {
            None => array.owner,
            Some(event) => {
                let raw = event.into_raw();
                // SAFETY: retained above; the reference moves into the new owner.
                unsafe { owner::both(array.owner, raw, Some(destroy_event)) }.inspect_err(|_| {
                    drop(SharedEvent::from_raw(raw));
                    // SAFETY: retained above.
                    unsafe { owner::release(array.owner) };
                })?
            }
        };
        Ok(Export { bytes: message.write(), descriptor, owner })
    }
}

/// Returns the allocation that an array lies in, which must be device memory.
fn allocation(array: &cai_array, span: Span) -> Result<cai_pointer_info> {
    let thread = &CallingThread::new(driver::driver()?);
    let info = thread.relaxed(|| driver::attributes(thread, array.data))?;
    if info.device.r#type != abi::CAI_DEVICE_CUDA || info.size == 0 || !info.mapped {
        return fail!(
            CAI_ERR_IPC_MEMORY,
            "data",
            found = ("{:p}, {}", array.data, Name(info.device.r#type)),
            expected = "an allocation of device memory"
        );
    }
    let low = (array.data as u64).wrapping_add_signed(span.lower);
    let high = (array.data as u64).wrapping_add_signed(span.upper);
    let (start, end) = (info.base as u64, (info.base as u64).saturating_add(info.size));
    if low < start || high > end {
        return fail!(
            CAI_ERR_OUT_OF_ALLOCATION,
            "data",
            found = "bytes from {low:#x} up to {high:#x}",
            expected = "bytes of one allocation, from {start:#x} up to {end:#x}"
        );
    }
    Ok(info)
}

/// Records an event after the work that is pending on an array.
///
/// # Safety
/// The array was validated.
unsafe fn record(array: &cai_array) -> Result<SharedEvent> {
    let unknown =
        if array.stream == abi::CAI_STREAM_UNKNOWN { abi::CAI_SYNC_CONSERVATIVE } else { 0 };
    consume::in_context(array, |driver| {
        let event = SharedEvent::new(driver)?;
        // The array's stream may be one that this context cannot record events on.
        let stream = TemporaryStream::new(driver)?;
        let flags = abi::CAI_ACCESS_READ | unknown;
        // SAFETY: the array was validated (this function's contract).
        unsafe { consume::exchange(Phase::Begin, array, stream.value(), flags) }?;
        stream.record(&event)?;
        Ok(event)
    })
}

unsafe extern "C-unwind" fn destroy_event(event: *mut c_void) {
    let Some(event) = SharedEvent::from_raw(event) else { return };
    drop(event);
}

/// Makes an array of bytes that come from anywhere. `descriptor` is not closed.
pub fn import(bytes: &[u8], descriptor: i32) -> Result<cai_array> {
    let message = Message::read(bytes)?;
    let mut array = described(&message);
    // SAFETY: shape and strides refer to `message`, which has more values than dimensions.
    let layout = unsafe { validate::describe(&array) }?.layout;
    let is_empty = layout.shape.contains(&0);
    let span = layout.span()?;
    let Some(kind) = message.kind else {
        if !is_empty {
            return mismatch("an array with elements, and no memory");
        }
        // SAFETY: as above.
        unsafe { validate::array(&raw const array, abi::CAI_CHECK_LAYOUT) }?;
        // SAFETY: validated above, without owner.
        return unsafe { description::new(&array, ptr::null_mut(), None) };
    };
    if is_empty {
        return mismatch("memory for an array without elements");
    }
    // The bytes must not contradict themselves, whatever the driver maps.
    let offset = i128::from(message.offset);
    let (low, high) = (offset + i128::from(span.lower), offset + i128::from(span.upper));
    let size = usize::try_from(message.size).unwrap_or(0);
    if low < 0 || high > size as i128 {
        return fail!(
            CAI_ERR_OUT_OF_ALLOCATION,
            "bytes",
            found = "bytes from {low} up to {high} of an allocation",
            expected = "bytes from 0 up to {size}"
        );
    }
    if kind.needs_descriptor() && descriptor < 0 {
        return fail!(
            CAI_ERR_ARGUMENT,
            "fd",
            found = "{descriptor}",
            expected = "the file descriptor that cai_ipc_export returned with the bytes"
        );
    }
    let thread = &CallingThread::new(driver::driver()?);
    thread.relaxed(|| {
        let device = driver::device_of(thread, &message.uuid)?;
        let mut shared =
            SharedMemory::open(thread, device, kind, message.memory, descriptor, size)?;
        let at = |distance: i128| u64::try_from(i128::from(shared.base()) + distance).ok();
        let info = driver::attributes(thread, shared.base() as *const c_void)?;
        if info.device != (cai_device { r#type: abi::CAI_DEVICE_CUDA, id: device }) {
            return fail!(
                CAI_ERR_IPC_DEVICE,
                "bytes",
                found = ("device {device}, by its UUID"),
                expected = ("device {}, where the memory is", info.device.id)
            );
        }
        let is_inside = match (at(low), at(high)) {
            (Some(low), Some(high)) => driver::is_inside(thread, &info, low, high)?,
            _ => false,
        };
        if !is_inside {
            return fail!(
                CAI_ERR_OUT_OF_ALLOCATION,
                "bytes",
                found = "bytes up to {high} of an allocation",
                expected = ("at most {}, which the driver has mapped", info.size)
            );
        }
        array.data = at(offset).unwrap_or(0) as *mut c_void;
        array.device = info.device;
        array.context = shared.context().cast();
        if let Some(handle) = message.event {
            array.event = shared.open_event(thread, handle)?.cast();
            array.stream = abi::CAI_STREAM_UNKNOWN;
        }
        // SAFETY: shape and strides refer to `message`, as above.
        unsafe { validate::array(&raw const array, abi::CAI_CHECK_LAYOUT) }?;
        let shared = Box::into_raw(memory::boxed(shared)?);
        // SAFETY: validated above, without owner.
        unsafe { description::new(&array, shared.cast(), Some(close)) }.inspect_err(|_| {
            // SAFETY: `into_raw` above; nothing else took it.
            drop(unsafe { Box::from_raw(shared) });
        })
    })
}

unsafe extern "C-unwind" fn close(shared: *mut c_void) {
    // SAFETY: `import` passes this function together with a box of this type.
    drop(unsafe { Box::from_raw(shared.cast::<SharedMemory>()) });
}

/// The array of a message, without its memory. Shape and strides are those of the message.
fn described(message: &Message) -> cai_array {
    cai_array {
        struct_size: size_of::<cai_array>() as u32,
        flags: if message.is_readonly { abi::CAI_ARRAY_READONLY } else { 0 },
        owner: ptr::null_mut(),
        data: ptr::null_mut(),
        shape: message.shape.as_ptr(),
        strides: message.strides.as_ref().map_or(ptr::null(), |strides| strides.as_ptr()),
        ndim: message.ndim as i32,
        version: abi::CAI_INTERFACE_VERSION,
        dtype_code: message.dtype_code,
        typestr: message.typestr,
        descr: ptr::null(),
        mask: ptr::null(),
        stream: abi::CAI_STREAM_NONE,
        stream_id: 0,
        event: ptr::null_mut(),
        device: cai_device { r#type: abi::CAI_DEVICE_UNKNOWN, id: 0 },
        context: ptr::null_mut(),
        byte_offset: 0,
    }
}

fn mismatch<T>(found: &str) -> Result<T> {
    fail!(
        CAI_ERR_IPC_BYTES,
        "bytes",
        found = "{found}",
        expected = "the bytes that cai_ipc_export wrote, unchanged"
    )
}
