//! Copies of arrays in host memory, in C order.
//!
//! May use: `abi`, `copy::plan`, `device`, `driver`, `error`, `memory`, `owner`,
//! `owner::description`, `sync::consume`, `validate`.
//! Unsafe: writes into a block that it allocated, and reads the data of arrays in host memory.

mod plan;

use std::alloc::{Layout as MemoryLayout, dealloc};
use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, cai_array, cai_device, cai_stream};
use crate::device::Name;
use crate::driver::{self, CallingThread, Capture, Stream, ToHost};
use crate::error::{Failure, Result, fail};
use crate::memory::Memory;
use crate::owner::{self, description};
use crate::sync::consume::{self, Phase};
use crate::validate;
use plan::{Plan, too_large};

/// Alignment of the data.
const ALIGNMENT: usize = 64;

/// What a block begins with; the data follows at the next multiple of [`ALIGNMENT`].
#[repr(C)]
struct Head {
    size: usize,
}

const _: () = assert!(size_of::<Head>() <= ALIGNMENT);

fn layout_of(size: usize) -> Result<MemoryLayout> {
    MemoryLayout::from_size_align(size, ALIGNMENT).map_err(|_| Failure::no_memory(size))
}

/// Allocates a block with a head for `bytes` bytes of data. [`free`] frees it.
fn allocate(bytes: usize) -> Result<Memory> {
    let size = bytes.checked_add(ALIGNMENT).ok_or(()).or_else(|()| too_large())?;
    let memory = Memory::new(layout_of(size)?)?;
    // SAFETY: the block is aligned for the head and has space for it.
    unsafe { memory.start().cast::<Head>().write(Head { size }) };
    Ok(memory)
}

/// The destructor of a copy's owner.
unsafe extern "C-unwind" fn free(start: *mut c_void) {
    // SAFETY: `allocate` wrote the head and allocated the block with this layout.
    unsafe {
        let size = start.cast::<Head>().read().size;
        dealloc(start.cast(), MemoryLayout::from_size_align_unchecked(size, ALIGNMENT));
    }
}

/// The description of a copy in host memory, without an owner.
fn copy_of(array: &cai_array, data: *mut c_void) -> cai_array {
    cai_array {
        flags: 0,
        owner: ptr::null_mut(),
        data: if array.data.is_null() { ptr::null_mut() } else { data },
        strides: ptr::null(),
        stream: abi::CAI_STREAM_NONE,
        stream_id: 0,
        event: ptr::null_mut(),
        context: ptr::null_mut(),
        device: cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 },
        byte_offset: 0,
        version: abi::CAI_INTERFACE_VERSION,
        ..*array
    }
}

/// A copy of an array in host memory, whose data is not written yet.
pub struct HostCopy {
    array: cai_array,
}

impl Drop for HostCopy {
    fn drop(&mut self) {
        // SAFETY: `new` made the owner, and this holds one reference.
        unsafe { owner::release(self.array.owner) };
    }
}

impl HostCopy {
    /// Allocates the memory for a copy.
    ///
    /// # Safety
    /// `array` was validated, and is readable as [`validate::array`] requires.
    pub unsafe fn new(array: &cai_array) -> Result<Self> {
        // SAFETY: the array was validated (this function's contract).
        let memory = allocate(Plan::new(&unsafe { validate::describe(array) }?.layout)?.bytes)?;
        let owner = owner::new(memory.start().cast(), Some(free))?;
        let data = memory.into_raw().wrapping_add(ALIGNMENT);
        Ok(HostCopy { array: cai_array { owner, ..copy_of(array, data.cast()) } })
    }

    /// The array, with an owner of its own and the shape of the original. A mask stays that of the
    /// original: it is not copied.
    pub fn array(&self) -> &cai_array {
        &self.array
    }

    /// Waits for the work that is pending on the original, and copies its data. Blocks the host.
    ///
    /// # Safety
    /// `from` is the array that this was made for, and its data is alive; `device_type` is the type
    /// of its device.
    pub unsafe fn fill(&self, from: &cai_array, device_type: i32) -> Result<()> {
        // SAFETY: the array was validated (this function's contract).
        let plan = Plan::new(&unsafe { validate::describe(from) }?.layout)?;
        let unknown =
            if from.stream == abi::CAI_STREAM_UNKNOWN { abi::CAI_SYNC_CONSERVATIVE } else { 0 };
        let to = self.array.data.cast();
        // SAFETY: `new` allocated as many bytes as the plan copies; the rest is this function's
        // contract.
        unsafe { fill(&plan, from, device_type, unknown, to) }
    }
}

/// Waits for the work that is pending on an array, and copies its data. Blocks the host.
///
/// # Safety
/// `from` was validated, and its data is alive; `plan` is that of its layout, `device_type` the
/// type of its device; `plan.bytes` bytes at `to` are writable.
unsafe fn fill(
    plan: &Plan,
    from: &cai_array,
    device_type: i32,
    flags: u32,
    to: *mut u8,
) -> Result<()> {
    // SAFETY: the array was validated (this function's contract).
    unsafe { consume::synchronize(from, abi::CAI_ACCESS_READ | flags) }?;
    if from.data.is_null() {
        return Ok(());
    }
    let stage = Stage::new(plan, to)?;
    let lowest = (from.data as u64).wrapping_add_signed(plan.lowest);
    match device_type {
        abi::CAI_DEVICE_CPU | abi::CAI_DEVICE_CUDA_HOST => {
            plan.for_each_rows(|offset, at, rows| {
                for row in 0..rows.height {
                    // SAFETY: the array's data is alive (this function's contract), the rows are
                    // inside its span, and the stage has space for `plan.staged` bytes.
                    unsafe {
                        let from = (lowest as *const u8).add(offset + row * rows.pitch);
                        ptr::copy_nonoverlapping(
                            from,
                            stage.start.add(at + row * rows.width),
                            rows.width,
                        );
                    }
                }
                Ok(())
            })
        }
        abi::CAI_DEVICE_CUDA | abi::CAI_DEVICE_CUDA_MANAGED => {
            consume::in_context(from, |driver| {
                let copies = ToHost::begin(driver)?;
                enqueue(plan, lowest, &copies, stage.start)?;
                copies.finish()
            })
        }
        other => fail!(
            CAI_ERR_CONVERT_DEVICE,
            "dl_device",
            found = ("a copy to the host from device {}", Name(other)),
            expected = "a CUDA device, whose memory this library can copy"
        ),
    }?;
    // SAFETY: every byte of the stage was written above, and `to` has space for the copy.
    unsafe { stage.gather(plan, to) };
    Ok(())
}

/// Enqueues the copies of a plan.
fn enqueue(plan: &Plan, lowest: u64, copies: &ToHost, to: *mut u8) -> Result<()> {
    plan.for_each_rows(|offset, at, rows| {
        copies.rows(to.wrapping_add(at).cast(), lowest + offset as u64, rows)
    })
}

/// Where a plan's rows are copied to: the result itself, or memory of its own.
struct Stage {
    start: *mut u8,
    own: Option<Memory>,
}

impl Stage {
    fn new(plan: &Plan, to: *mut u8) -> Result<Stage> {
        let own = if plan.direct { None } else { Some(Memory::new(layout_of(plan.staged)?)?) };
        Ok(Stage { start: own.as_ref().map_or(to, Memory::start), own })
    }

    /// Copies the elements into C order, unless they are already.
    ///
    /// # Safety
    /// All rows of the plan were copied to `start`; `plan.bytes` bytes at `to` are writable.
    unsafe fn gather(&self, plan: &Plan, to: *mut u8) {
        if self.own.is_some() {
            // SAFETY: `new` allocated `plan.staged` bytes; the rest is this function's contract.
            unsafe { plan.gather(self.start, to) };
        }
    }
}

/// Copies an array to the caller's buffer, or to a new one if `buffer` is NULL. Returns an array
/// with an owner, and with the stream that the copies are pending on, if they are.
///
/// # Safety
/// `array` was validated, and its data is alive; `buffer` is NULL or has `size` writable bytes.
pub unsafe fn to_host(
    array: &cai_array,
    stream: cai_stream,
    flags: u32,
    buffer: *mut c_void,
    size: usize,
) -> Result<cai_array> {
    if !array.mask.is_null() {
        return fail!(
            CAI_ERR_CONVERT_MASK,
            "mask",
            found = "a mask",
            expected = "an array without a mask: copy the mask as an array of its own"
        );
    }
    if stream == 0 {
        return fail!(
            CAI_ERR_STREAM_ZERO,
            "stream",
            found = "0",
            expected = "CAI_STREAM_NONE, or the stream to copy on: 1, 2 or a CUstream"
        );
    }
    if stream == abi::CAI_STREAM_UNKNOWN {
        return fail!(
            CAI_ERR_ARGUMENT,
            "stream",
            found = "CAI_STREAM_UNKNOWN",
            expected = "CAI_STREAM_NONE, or the stream to copy on: 1, 2 or a CUstream"
        );
    }
    // SAFETY: the array was validated (this function's contract).
    let plan = Plan::new(&unsafe { validate::describe(array) }?.layout)?;
    if !buffer.is_null() && size < plan.bytes {
        return fail!(
            CAI_ERR_BUFFER_SIZE,
            "size",
            found = "{size}",
            expected = ("at least {}", plan.bytes)
        );
    }
    let device_type = type_of(array)?;
    let memory = if buffer.is_null() { Some(allocate(plan.bytes)?) } else { None };
    let start = memory.as_ref().map_or(ptr::null_mut(), Memory::start);
    let data = if memory.is_some() { start.wrapping_add(ALIGNMENT).cast() } else { buffer };
    let destroy: Option<owner::Destroy> = if memory.is_some() { Some(free) } else { None };
    // The owner is made first, so that a failure copies nothing.
    // SAFETY: the shape is that of a validated array; owner, strides and mask are NULL.
    let made = unsafe { description::new(&copy_of(array, data), start.cast(), destroy) }?;
    let mut copy = HostCopy { array: made };
    if let Some(memory) = memory {
        // `copy` frees it from now on.
        memory.into_raw();
    }
    let is_on_device = matches!(device_type, abi::CAI_DEVICE_CUDA | abi::CAI_DEVICE_CUDA_MANAGED);
    if stream == abi::CAI_STREAM_NONE || !is_on_device || array.data.is_null() {
        // SAFETY: the data is alive, and `data` has space (this function's contract, or allocated
        // above).
        unsafe { fill(&plan, array, device_type, flags, data.cast()) }.map_err(|failure| {
            match failure.status() {
                abi::CAI_ERR_CONVERT_DEVICE => failure.at("device.type"),
                _ => failure,
            }
        })?;
    } else {
        // SAFETY: as above.
        unsafe { copy.fill_on(&plan, array, stream, flags, !buffer.is_null()) }?;
    }
    let made = copy.array;
    // The caller holds the reference from now on.
    std::mem::forget(copy);
    Ok(made)
}

/// Returns the type of an array's device; the driver knows that of an unknown one.
fn type_of(array: &cai_array) -> Result<i32> {
    if array.device.r#type != abi::CAI_DEVICE_UNKNOWN || array.data.is_null() {
        return Ok(array.device.r#type);
    }
    Ok(driver::location(driver::driver()?, array.data)?.0.r#type)
}

impl HostCopy {
    /// Copies an array on the device on a stream, which waits for the work that is pending on it.
    /// If the copies can be left to the stream, writes the stream into this array; otherwise blocks
    /// the host until they are done. `may_return` is true if the memory outlives a failure.
    ///
    /// # Safety
    /// As for [`fill`], to the data of this array.
    unsafe fn fill_on(
        &mut self,
        plan: &Plan,
        from: &cai_array,
        stream: cai_stream,
        flags: u32,
        may_return: bool,
    ) -> Result<()> {
        let thread = &CallingThread::new(driver::driver()?);
        let to = Stream::from_current_context(thread, stream)?;
        let state = to.capture(thread).map_err(|failure| failure.at("stream"))?;
        // The driver copies to page-locked memory without the host.
        let returns = may_return && plan.direct && {
            let (device, _) = driver::location(thread, self.array.data)?;
            device.r#type == abi::CAI_DEVICE_CUDA_HOST
        };
        if state != Capture::None && !returns {
            return fail!(
                CAI_ERR_CAPTURE_HOST,
                "stream",
                found = "a stream that is being captured",
                expected = "page-locked memory and rows in C order, which need no host"
            );
        }
        let read = flags | abi::CAI_ACCESS_READ;
        // SAFETY: the array was validated (this function's contract).
        unsafe { consume::exchange(Phase::Begin, from, stream, read) }?;
        let stage = Stage::new(plan, self.array.data.cast())?;
        let lowest = (from.data as u64).wrapping_add_signed(plan.lowest);
        thread.relaxed(|| {
            let _entered = thread.enter(to.context(thread)?)?;
            let (context, id) = to.identity(thread, state)?;
            // A wait would invalidate a capture, in which nothing is pending.
            let copies = ToHost::on(thread.driver(), stream, state == Capture::None);
            enqueue(plan, lowest, &copies, stage.start)?;
            if !returns {
                return copies.finish();
            }
            // SAFETY: as above.
            unsafe { consume::exchange(Phase::End, from, stream, read) }?;
            copies.leave();
            self.array.device.r#type = abi::CAI_DEVICE_CUDA_HOST;
            self.array.stream = stream;
            self.array.stream_id = id;
            self.array.context = context.cast();
            Ok(())
        })?;
        // SAFETY: every byte of the stage was written above if there is one: then the copies are
        // done.
        unsafe { stage.gather(plan, self.array.data.cast()) };
        Ok(())
    }
}
