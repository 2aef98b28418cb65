//! Copies of arrays to and from host memory, in C order.

mod plan;

use std::alloc::{Layout as MemoryLayout, dealloc};
use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, cai_array, cai_device, cai_stream};
use crate::device::Name;
use crate::driver::{self, CUcontext, CallingThread, Capture, Copies, Stream, To};
use crate::error::{Failure, Result, fail};
use crate::memory::Memory;
use crate::owner::{self, Array, Destructor, description};
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
    array: Array,
}

impl HostCopy {
    /// Allocates the memory for a copy.
    ///
    /// # Safety
    /// `array` was validated, and is readable as [`validate::array`] requires.
    pub unsafe fn new(array: &cai_array) -> Result<Self> {
        // SAFETY: the array was validated (this function's contract).
        let memory = allocate(Plan::new(&unsafe { validate::describe(array) }?.layout)?.bytes)?;
        // SAFETY: `free` takes what `allocate` made, which is given away below.
        let owner = owner::new(unsafe { Destructor::new(Some(free), memory.start().cast()) })?;
        let data = memory.into_raw().wrapping_add(ALIGNMENT);
        Ok(HostCopy { array: Array::new(copy_of(array, data.cast()), owner) })
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
        let work = Work {
            to: To::Host,
            memory: self.array.data.cast(),
            device_type,
            stream: abi::CAI_STREAM_NONE,
            flags: unknown,
            may_return: false,
        };
        // SAFETY: `new` allocated as many bytes as the plan copies; the rest is this function's
        // contract.
        unsafe { transfer(&plan, from, &work) }.map_err(|failure| match failure.status() {
            abi::CAI_ERR_CONVERT_DEVICE => failure.at(format_args!("dl_device")),
            _ => failure,
        })?;
        Ok(())
    }
}

/// A copy between an array and the host's memory, in C order.
struct Work {
    to: To,
    /// Only read if the copy leads to the device.
    memory: *mut u8,
    /// The type of the array's device.
    device_type: i32,
    /// The stream to copy on; `CAI_STREAM_NONE` for one of its own.
    stream: cai_stream,
    /// `CAI_SYNC_` bits.
    flags: u32,
    /// The memory outlives the copies.
    may_return: bool,
}

/// Copies that are left to a stream: its context and its number.
type Pending = (CUcontext, u64);

/// Copies between an array and the host, after the work that is pending on the array. Blocks the
/// host unless the copies can be left to the stream.
///
/// # Safety
/// `array` was validated, and its data is alive; `plan` is that of its layout; `plan.bytes` bytes
/// at `work.memory` are readable, and writable if the copy leads to the host.
unsafe fn transfer(plan: &Plan, array: &cai_array, work: &Work) -> Result<Option<Pending>> {
    let access = match work.to {
        To::Host => abi::CAI_ACCESS_READ,
        To::Device => abi::CAI_ACCESS_WRITE,
    };
    let flags = work.flags | access;
    let lowest = (array.data as u64).wrapping_add_signed(plan.lowest);
    let on_device = matches!(work.device_type, abi::CAI_DEVICE_CUDA | abi::CAI_DEVICE_CUDA_MANAGED);
    if work.stream != abi::CAI_STREAM_NONE && on_device && !array.data.is_null() {
        // SAFETY: this function's contract.
        return unsafe { transfer_on(plan, array, lowest, flags, work) };
    }
    // SAFETY: the array was validated (this function's contract).
    unsafe { consume::synchronize(array, flags) }?;
    if array.data.is_null() {
        return Ok(None);
    }
    // SAFETY: the memory has `plan.bytes` bytes (this function's contract).
    let stage = unsafe { Stage::new(plan, work) }?;
    match work.device_type {
        abi::CAI_DEVICE_CPU | abi::CAI_DEVICE_CUDA_HOST => {
            plan.for_each_rows(|offset, at, rows| {
                for row in 0..rows.height {
                    // SAFETY: the array's data is alive (this function's contract), the rows are
                    // inside its span, and the stage has space for `plan.staged` bytes.
                    unsafe {
                        let theirs = (lowest as *mut u8).add(offset + row * rows.pitch);
                        let ours = stage.start.add(at + row * rows.width);
                        let (from, to) = match work.to {
                            To::Host => (theirs, ours),
                            To::Device => (ours, theirs),
                        };
                        ptr::copy_nonoverlapping(from, to, rows.width);
                    }
                }
                Ok(())
            })
        }
        _ if on_device => consume::Inside::of(array)?.run(|driver| {
            let copies = Copies::begin(driver)?;
            enqueue(plan, lowest, &copies, work.to, stage.start)?;
            copies.finish()
        }),
        other => fail!(
            CAI_ERR_CONVERT_DEVICE,
            "device.type",
            found = ("a copy between the host and device {}", Name(other)),
            expected = "a CUDA device, whose memory this library can copy"
        ),
    }?;
    // SAFETY: every byte of the stage was copied above; the memory has space for the copy.
    unsafe { stage.gather(plan, work) };
    Ok(None)
}

/// Copies between an array on the device and the host on a stream, which waits for the work that is
/// pending on the array.
///
/// # Safety
/// As for [`transfer`].
unsafe fn transfer_on(
    plan: &Plan,
    array: &cai_array,
    lowest: u64,
    flags: u32,
    work: &Work,
) -> Result<Option<Pending>> {
    let stream = work.stream;
    let thread = &CallingThread::new(driver::driver()?);
    let on = Stream::from_current_context(thread, stream)?;
    let state = on.capture(thread).map_err(|failure| failure.at(format_args!("stream")))?;
    // The driver copies to and from page-locked memory without the host.
    let returns = work.may_return && plan.direct && {
        let (device, _) = driver::location(thread, work.memory.cast())?;
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
    // SAFETY: the array was validated (this function's contract).
    unsafe { consume::exchange(Phase::Begin, array, stream, flags) }?;
    // SAFETY: the memory has `plan.bytes` bytes (this function's contract).
    let stage = unsafe { Stage::new(plan, work) }?;
    let pending = thread.relaxed(|| {
        // A wait would invalidate a capture, in which nothing is pending.
        let copies = Copies::on(thread.driver(), stream, state == Capture::None);
        let identity = {
            let _entered = thread.enter(on.context(thread)?)?;
            let identity = on.identity(thread, state)?;
            enqueue(plan, lowest, &copies, work.to, stage.start)?;
            if !returns {
                copies.finish()?;
                return Ok(None);
            }
            identity
        };
        // In the caller's context again, which a default stream of the array may be of.
        // SAFETY: as above.
        unsafe { consume::exchange(Phase::End, array, stream, flags) }?;
        copies.leave();
        Ok(Some(identity))
    })?;
    // SAFETY: every byte of the stage was copied above if there is one: then the copies are done.
    unsafe { stage.gather(plan, work) };
    Ok(pending)
}

/// Enqueues the copies of a plan.
fn enqueue(plan: &Plan, lowest: u64, copies: &Copies, to: To, host: *mut u8) -> Result<()> {
    plan.for_each_rows(|offset, at, rows| {
        copies.rows(to, host.wrapping_add(at).cast(), lowest + offset as u64, rows)
    })
}

/// Where a plan's rows are copied to or from: the caller's memory itself, or memory of its own.
struct Stage {
    start: *mut u8,
    own: Option<Memory>,
}

impl Stage {
    /// Makes the stage, and copies the elements to it if they lead to the device.
    ///
    /// # Safety
    /// `plan.bytes` bytes at `work.memory` are readable.
    unsafe fn new(plan: &Plan, work: &Work) -> Result<Stage> {
        if plan.direct {
            return Ok(Stage { start: work.memory, own: None });
        }
        let own = Memory::new(layout_of(plan.staged)?)?;
        let start = own.start();
        if work.to == To::Device {
            // SAFETY: `plan.staged` bytes were allocated; the rest is this function's contract.
            unsafe { plan.scatter(work.memory, start) };
        }
        Ok(Stage { start, own: Some(own) })
    }

    /// Copies the elements into C order if they lead to the host, unless they are already.
    ///
    /// # Safety
    /// All rows of the plan were copied to `start`; `plan.bytes` bytes at `work.memory` are
    /// writable.
    unsafe fn gather(&self, plan: &Plan, work: &Work) {
        if self.own.is_some() && work.to == To::Host {
            // SAFETY: `new` allocated `plan.staged` bytes; the rest is this function's contract.
            unsafe { plan.gather(self.start, work.memory) };
        }
    }
}

/// Refuses what neither direction copies: an array with a mask, and what is not a stream.
fn check(array: &cai_array, stream: cai_stream) -> Result<()> {
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
    Ok(())
}

fn large_enough(size: usize, plan: &Plan) -> Result<()> {
    if size < plan.bytes {
        return fail!(
            CAI_ERR_BUFFER_SIZE,
            "size",
            found = "{size}",
            expected = ("at least {}", plan.bytes)
        );
    }
    Ok(())
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
) -> Result<Array> {
    check(array, stream)?;
    // SAFETY: the array was validated (this function's contract).
    let plan = Plan::new(&unsafe { validate::describe(array) }?.layout)?;
    if !buffer.is_null() {
        large_enough(size, &plan)?;
    }
    let device_type = type_of(array)?;
    let memory = if buffer.is_null() { Some(allocate(plan.bytes)?) } else { None };
    let start = memory.as_ref().map_or(ptr::null_mut(), Memory::start);
    let data = if memory.is_some() { start.wrapping_add(ALIGNMENT).cast() } else { buffer };
    // The owner is made first, so that a failure copies nothing.
    // SAFETY: the shape is that of a validated array; owner, strides and mask are NULL.
    let prepared = unsafe { description::prepare(&copy_of(array, data)) }?;
    let mut copy = prepared.finish(match memory {
        // SAFETY: `free` takes what `allocate` made, which is given away here.
        Some(memory) => unsafe { Destructor::new(Some(free), memory.into_raw().cast()) },
        None => Destructor::NONE,
    });
    let work = Work {
        to: To::Host,
        memory: data.cast(),
        device_type,
        stream,
        flags,
        may_return: !buffer.is_null(),
    };
    // SAFETY: the data is alive, and `data` has space (this function's contract, or allocated
    // above).
    if let Some((context, id)) = unsafe { transfer(&plan, array, &work) }? {
        copy.change(|copy| {
            copy.device.r#type = abi::CAI_DEVICE_CUDA_HOST;
            copy.stream = stream;
            copy.stream_id = id;
            copy.context = context.cast();
        });
    }
    Ok(copy)
}

/// Returns the type of an array's device; the driver knows that of an unknown one.
fn type_of(array: &cai_array) -> Result<i32> {
    if array.device.r#type != abi::CAI_DEVICE_UNKNOWN || array.data.is_null() {
        return Ok(array.device.r#type);
    }
    Ok(driver::location(driver::driver()?, array.data)?.0.r#type)
}

/// Copies the caller's buffer, in C order, to an array. Returns before the copies are done only if
/// they can be left to the stream.
///
/// # Safety
/// `array` was validated, and its data is alive; `size` bytes at `buffer` are readable. It is NULL
/// only if `size` is 0.
pub unsafe fn from_host(
    array: &cai_array,
    stream: cai_stream,
    flags: u32,
    buffer: *const c_void,
    size: usize,
) -> Result<()> {
    check(array, stream)?;
    // SAFETY: the array was validated (this function's contract).
    let plan = Plan::new(&unsafe { validate::describe(array) }?.layout)?;
    if array.flags & abi::CAI_ARRAY_READONLY != 0 {
        return fail!(
            CAI_ERR_READONLY,
            "flags",
            found = "CAI_ARRAY_READONLY",
            expected = "a writable array"
        );
    }
    if plan.repeats {
        return fail!(
            CAI_ERR_ARGUMENT,
            "strides",
            found = "elements that share bytes",
            expected = "bytes of its own for each element that is written"
        );
    }
    large_enough(size, &plan)?;
    let device_type = type_of(array)?;
    let memory = buffer.cast_mut().cast();
    let work = Work { to: To::Device, memory, device_type, stream, flags, may_return: true };
    // SAFETY: the buffer has `plan.bytes` readable bytes: `size` was checked above. The rest is
    // this function's contract.
    unsafe { transfer(&plan, array, &work) }?;
    Ok(())
}
