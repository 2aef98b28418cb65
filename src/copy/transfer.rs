//! A copy between an array and the host's memory.

use std::mem::MaybeUninit;
use std::ptr;

use super::plan::{Plan, too_large};
use crate::abi::{self, cai_stream};
use crate::device::Name;
use crate::driver::{self, CUcontext, CallingThread, Capture, Copies, Stream, To};
use crate::error::{Result, fail};
use crate::memory::Extended;
use crate::sync::consume::{self, Phase};
use crate::validate::Valid;

/// Bytes at the alignment of the data.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Chunk([u8; 64]);

pub type Block = Extended<(), MaybeUninit<Chunk>>;

pub fn allocate(bytes: usize) -> Result<Block> {
    if bytes > isize::MAX as usize - 2 * size_of::<Chunk>() {
        return too_large();
    }
    Block::new((), bytes.div_ceil(size_of::<Chunk>()), MaybeUninit::uninit())
}

pub fn data_of(block: &mut Block) -> *mut u8 {
    block.parts().1.as_mut_ptr().cast()
}

/// A copy between an array and the host's memory, in C order.
pub struct Transfer<'a> {
    /// That of the array's layout.
    plan: &'a Plan<'a>,
    array: &'a Valid<'a>,
    device_type: i32,
    host: Host,
}

pub struct Host {
    pub to: To,
    /// Only read if the copy leads to the device.
    pub memory: *mut u8,
    /// The stream to copy on; `CAI_STREAM_NONE` for one of its own.
    pub stream: cai_stream,
    pub flags: u32,
    /// The memory outlives the copies.
    pub may_return: bool,
}

/// Copies that are left to a stream: its context and its number.
pub type Pending = (CUcontext, u64);

impl<'a> Transfer<'a> {
    /// # Safety
    /// The array's data is alive as long as the array; `plan.bytes` bytes at the address in `host`
    /// are readable, and writable if the copy leads to the host.
    pub unsafe fn new(
        plan: &'a Plan<'a>,
        array: &'a Valid<'a>,
        device_type: i32,
        host: Host,
    ) -> Self {
        Transfer { plan, array, device_type, host }
    }

    /// Copies after the array's pending work. Blocks the host unless the stream can copy.
    pub fn run(&self) -> Result<Option<Pending>> {
        let &Transfer { plan, array, device_type, host: Host { to, stream, .. } } = self;
        let access = match to {
            To::Host => abi::CAI_ACCESS_READ,
            To::Device => abi::CAI_ACCESS_WRITE,
        };
        let flags = self.host.flags | access;
        let lowest = (array.data as u64).wrapping_add_signed(plan.lowest);
        let on_device = matches!(device_type, abi::CAI_DEVICE_CUDA | abi::CAI_DEVICE_CUDA_MANAGED);
        if stream != abi::CAI_STREAM_NONE && on_device && !array.data.is_null() {
            return self.run_on_stream(lowest, flags);
        }
        consume::synchronize(array.unchecked(), flags)?;
        if array.data.is_null() {
            return Ok(None);
        }
        let stage = self.stage()?;
        match device_type {
            abi::CAI_DEVICE_CPU | abi::CAI_DEVICE_CUDA_HOST => {
                plan.for_each_rows(|offset, at, rows| {
                    for row in 0..rows.height {
                        // SAFETY: the array's data is alive (the contract of `new`), the rows are
                        // inside its span, and the stage has space for `plan.staged` bytes.
                        unsafe {
                            let theirs = (lowest as *mut u8).add(offset + row * rows.pitch);
                            let ours = stage.start.add(at + row * rows.width);
                            let (from, to) = match to {
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
                enqueue(plan, lowest, &copies, to, stage.start)?;
                copies.finish()
            }),
            other => fail!(CAI_ERR_CONVERT_DEVICE, "device.type";
                found "a copy between the host and device {}", Name(other);
                expected "a CUDA device, whose memory this library can copy"),
        }?;
        self.gather(&stage);
        Ok(None)
    }

    /// Copies between an array on the device and the host on the stream, which waits for the work
    /// that is pending on the array.
    fn run_on_stream(&self, lowest: u64, flags: u32) -> Result<Option<Pending>> {
        let &Transfer { plan, array, host: Host { to, memory, stream, .. }, .. } = self;
        let thread = &CallingThread::new(driver::driver()?);
        let on = Stream::from_current_context(thread, stream)?;
        let state = on.capture(thread).map_err(|failure| failure.at(format_args!("stream")))?;
        // The driver copies to and from page-locked memory without the host.
        let returns = self.host.may_return && plan.direct && {
            let (device, _) = driver::location(thread, memory.cast())?;
            device.r#type == abi::CAI_DEVICE_CUDA_HOST
        };
        if state != Capture::None && !returns {
            return fail!(CAI_ERR_CAPTURE_HOST, "stream";
                found "a stream that is being captured";
                expected "page-locked memory and rows in C order, which need no host");
        }
        // A capture forbids to wait for the context of an unknown stream.
        let exchange = match state {
            Capture::None => consume::exchange_all_work,
            _ => consume::exchange,
        };
        exchange(Phase::Begin, array.unchecked(), stream, flags)?;
        let stage = self.stage()?;
        let pending = thread.relaxed(|| {
            // A wait would invalidate a capture, in which nothing is pending.
            let copies = Copies::on(thread.driver(), stream, state == Capture::None);
            let identity = {
                let _entered = thread.enter(on.context(thread)?)?;
                let identity = on.identity(thread, state)?;
                enqueue(plan, lowest, &copies, to, stage.start)?;
                if !returns {
                    copies.finish()?;
                    return Ok(None);
                }
                identity
            };
            // In the caller's context again, which a default stream of the array may be of.
            exchange(Phase::End, array.unchecked(), stream, flags)?;
            copies.leave();
            Ok(Some(identity))
        })?;
        // If there is a stage, the copies are done.
        self.gather(&stage);
        Ok(pending)
    }

    /// Makes the stage, and copies the elements to it if they lead to the device.
    fn stage(&self) -> Result<Stage> {
        if self.plan.direct {
            return Ok(Stage { start: self.host.memory, own: None });
        }
        let mut own = allocate(self.plan.staged)?;
        let start = data_of(&mut own);
        if self.host.to == To::Device {
            // SAFETY: `plan.staged` bytes were allocated; the rest is the contract of `new`.
            unsafe { self.plan.scatter(self.host.memory, start) };
        }
        Ok(Stage { start, own: Some(own) })
    }

    /// Copies the elements into C order if they lead to the host, unless they are already. All rows
    /// of the plan were copied to the stage.
    fn gather(&self, stage: &Stage) {
        if stage.own.is_some() && self.host.to == To::Host {
            // SAFETY: `stage` allocated `plan.staged` bytes; the rest is the contract of `new`.
            unsafe { self.plan.gather(stage.start, self.host.memory) };
        }
    }
}

/// Memory that a plan's rows are copied to or from: the caller's, or memory of its own.
struct Stage {
    start: *mut u8,
    own: Option<Block>,
}

fn enqueue(plan: &Plan, lowest: u64, copies: &Copies, to: To, host: *mut u8) -> Result<()> {
    plan.for_each_rows(|offset, at, rows| {
        copies.rows(to, host.wrapping_add(at).cast(), lowest + offset as u64, rows)
    })
}
