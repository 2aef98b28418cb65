//! Streams of processes that wait for each other: by events, or by numbers in memory.

use std::ffi::c_void;
use std::{mem, ptr};

use cudarc::driver::sys::{CUcontext, CUipcEventHandle, CUipcMemHandle, CUstream};

use crate::abi;
use crate::driver::context::CallingThread;
use crate::driver::events::OwnedEvent;
use crate::driver::load::{self, Driver};
use crate::driver::result::INVALID_CONTEXT;
use crate::driver::share::{DeviceContext, bytes, chars, opened};
use crate::driver::stream::Stream;
use crate::driver::table::Call;
use crate::error::{Failure, Result, fail};

/// `CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS`
const INTERPROCESS: u32 = 6;
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;
/// `CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS`
const NUMBERS_IN_MEMORY: i32 = 122;

/// An event that other processes can open, or one of another process.
pub struct SharedEvent(OwnedEvent);

impl SharedEvent {
    /// Makes an event of the current context.
    pub fn new(driver: &'static Driver) -> Result<SharedEvent> {
        let mut event = ptr::null_mut();
        driver.event_create(&raw mut event, INTERPROCESS).ok()?;
        Ok(SharedEvent(OwnedEvent::of_current(driver, event)))
    }

    /// Opens an event of another process in the current context. [cuIpcOpenEventHandle]
    fn open(driver: &'static Driver, handle: [u8; 64]) -> Result<SharedEvent> {
        let mut event = ptr::null_mut();
        let handle = CUipcEventHandle { reserved: chars(handle) };
        opened(driver.ipc_open_event(&raw mut event, handle))?;
        Ok(SharedEvent(OwnedEvent::of_current(driver, event)))
    }

    pub fn as_ptr(&self) -> *mut c_void {
        self.0.handle().cast()
    }

    /// Returns its name for other processes. [cuIpcGetEventHandle]
    pub fn handle(&self) -> Result<[u8; 64]> {
        let mut handle = CUipcEventHandle { reserved: [0; 64] };
        self.0.driver().ipc_event_handle(&raw mut handle, self.0.handle()).ok()?;
        Ok(bytes(handle.reserved))
    }
}

/// A stream, and an event on it that other processes can wait for, unless they wait for numbers.
pub struct SharedStream {
    value: abi::cai_stream,
    /// That of the driver, or 0.
    id: u64,
    /// Destroyed with this, unless the stream is a caller's, or the context was destroyed.
    own: Option<TemporaryStream>,
    event: Option<SharedEvent>,
    /// The event's name for other processes.
    pub handle: [u8; 64],
    /// Dropped after both.
    context: DeviceContext,
}

// SAFETY: handles of the driver are those of the process, and no method depends on the thread.
unsafe impl Send for SharedStream {}

impl SharedStream {
    /// Makes a stream in a context of the device, or, for NULL, in the current or primary one.
    pub fn new(
        thread: &CallingThread,
        device: i32,
        context: CUcontext,
        has_event: bool,
    ) -> Result<SharedStream> {
        let driver = thread.driver();
        let context = match context.is_null() {
            true => DeviceContext::of(thread, device)?,
            false => DeviceContext::borrowed(driver, context, device),
        };
        let own = {
            let _entered = thread.enter(context.handle())?;
            TemporaryStream::new(driver)?
        };
        SharedStream::with(thread, own.value(), Some(own), context, has_event)
    }

    /// Takes a stream of a caller, which is a handle and not a default stream.
    pub fn of(
        thread: &CallingThread,
        device: i32,
        stream: &Stream,
        has_event: bool,
    ) -> Result<SharedStream> {
        let context = DeviceContext::borrowed(thread.driver(), stream.context(thread)?, device);
        SharedStream::with(thread, stream.value(), None, context, has_event)
    }

    fn with(
        thread: &CallingThread,
        value: abi::cai_stream,
        own: Option<TemporaryStream>,
        context: DeviceContext,
        has_event: bool,
    ) -> Result<SharedStream> {
        let _entered = thread.enter(context.handle())?;
        // That of a caller may be captured, in which it may not be asked for its id.
        let id = match own {
            Some(_) => Stream::from_handle(value, 0).id(thread)?,
            None => 0,
        };
        let event = if has_event { Some(SharedEvent::new(thread.driver())?) } else { None };
        let handle = event.as_ref().map_or(Ok([0; 64]), SharedEvent::handle)?;
        Ok(SharedStream { value, id, own, event, handle, context })
    }

    /// Returns the stream as the functions of `sync` take it.
    pub fn value(&self) -> abi::cai_stream {
        self.value
    }

    /// Returns the driver's id of a stream of the library, or 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn device(&self) -> i32 {
        self.context.device
    }

    /// Records the event, again. [cuEventRecord]
    pub fn record(&self, thread: &CallingThread) -> Result<()> {
        let event = self.event.as_ref().ok_or_else(Failure::internal)?;
        self.call(thread, || thread.event_record(event.0.handle(), self.value as CUstream))
    }

    pub fn context(&self) -> CUcontext {
        self.context.handle()
    }

    /// Returns true if its context was not destroyed.
    pub fn exists(&self) -> bool {
        self.context.exists()
    }

    /// Makes the stream write a number after its work. [cuStreamWriteValue64]
    pub fn write(&self, thread: &CallingThread, address: u64, number: u64) -> Result<()> {
        self.call(thread, || thread.stream_write(self.value as CUstream, address, number, 0))
    }

    /// Makes the stream wait until memory has this number or a higher one. [cuStreamWaitValue64]
    pub fn wait_for(&self, thread: &CallingThread, address: u64, number: u64) -> Result<()> {
        self.call(thread, || thread.stream_wait_value(self.value as CUstream, address, number, 0))
    }

    /// Makes a call for which some drivers need a current context.
    fn call(&self, thread: &CallingThread, call: impl Fn() -> Call) -> Result<()> {
        self.context.check_exists()?;
        let first = call();
        if first.code != INVALID_CONTEXT {
            return first.ok();
        }
        let _entered = thread.enter(self.context.handle())?;
        call().ok()
    }

    /// Opens an event of a stream of another process on the same device.
    pub fn open(&self, thread: &CallingThread, handle: [u8; 64]) -> Result<SharedEvent> {
        let _entered = thread.enter(self.context.handle())?;
        SharedEvent::open(thread.driver(), handle)
    }

    /// Makes the stream wait for the newest record of an event. [cuStreamWaitEvent]
    pub fn wait(&self, thread: &CallingThread, event: &SharedEvent) -> Result<()> {
        self.call(thread, || thread.stream_wait(self.value as CUstream, event.0.handle(), 0))
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        let own = self.own.take();
        if !self.exists() {
            mem::forget(own);
        }
    }
}

/// A stream of the current context. Dropping it does not wait for its work.
pub struct TemporaryStream {
    driver: &'static Driver,
    stream: CUstream,
}

impl TemporaryStream {
    /// Makes a stream that neither default stream waits for.
    pub fn new(driver: &'static Driver) -> Result<TemporaryStream> {
        let mut stream = ptr::null_mut();
        driver.stream_create(&raw mut stream, NON_BLOCKING).ok()?;
        Ok(TemporaryStream { driver, stream })
    }

    /// Returns the stream as the functions of `sync` take it.
    pub fn value(&self) -> abi::cai_stream {
        self.stream as u64
    }

    /// Records an event of the current context. [cuEventRecord]
    pub fn record(&self, event: &SharedEvent) -> Result<()> {
        self.driver.event_record(event.0.handle(), self.stream).ok()
    }
}

impl Drop for TemporaryStream {
    fn drop(&mut self) {
        let _ = self.driver.stream_destroy(self.stream);
    }
}

/// Numbers in memory of a device, which other processes can open. They begin as 0.
pub struct Numbers {
    address: u64,
    /// The memory's name for other processes.
    pub handle: [u8; 64],
    context: DeviceContext,
}

// SAFETY: handles and addresses of the driver are those of the process.
unsafe impl Send for Numbers {}

impl Numbers {
    /// Allocates memory for some numbers, in a context of the device.
    pub fn new(
        thread: &CallingThread,
        device: i32,
        context: CUcontext,
        count: usize,
    ) -> Result<Numbers> {
        let driver = thread.driver();
        let mut has_numbers = 0;
        driver.device_attribute(&raw mut has_numbers, NUMBERS_IN_MEMORY, device).ok()?;
        if has_numbers == 0 {
            return fail!(CAI_ERR_DRIVER_FUNCTION, "channel";
                found "device {device}, whose streams do not wait for numbers in memory";
                expected "a device with CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS");
        }
        let context = DeviceContext::borrowed(driver, context, device);
        let _entered = thread.enter(context.handle())?;
        let mut address = 0;
        driver.memory_allocate(&raw mut address, 8 * count).ok()?;
        let mut numbers = Numbers { address, handle: [0; 64], context };
        let stream = TemporaryStream::new(driver)?;
        // Nothing else is in this stream, and nobody may find another number.
        let done = || driver.stream_synchronize(stream.stream).ok();
        let filled = driver.memory_fill(address, 0, 8 * count, stream.stream).ok();
        if let Err(failure) = filled.and_then(|()| done()) {
            // The fill may be running: the memory is not freed before it is done.
            if done().is_err() {
                mem::forget(numbers);
            }
            return Err(failure);
        }
        let mut handle = CUipcMemHandle { reserved: [0; 64] };
        driver.ipc_memory_handle(&raw mut handle, address).ok()?;
        numbers.handle = bytes(handle.reserved);
        Ok(numbers)
    }

    pub fn device(&self) -> i32 {
        self.context.device
    }

    /// Returns the address of a number.
    pub fn address(&self, index: usize) -> u64 {
        self.address + 8 * index as u64
    }

    /// Writes a number that streams wait for and nobody else will write.
    pub fn write(&self, index: usize, number: u64) -> Result<()> {
        self.context.write_number(self.address(index), number)
    }
}

impl DeviceContext {
    /// Fails if the context was destroyed: the handles and addresses in it may be those of others.
    fn check_exists(&self) -> Result<()> {
        if self.exists() {
            return Ok(());
        }
        fail!(CAI_ERR_CONTEXT_DESTROYED, "channel";
            found "a stream or memory whose context was destroyed";
            expected "a context that lives as long as the arrays")
    }

    /// Writes a number in memory of the context, on a stream of its own, and waits until it is there:
    /// the next one to write it must not be overtaken.
    pub fn write_number(&self, address: u64, number: u64) -> Result<()> {
        self.check_exists()?;
        let (driver, thread) = (self.driver, &CallingThread::new(self.driver));
        thread.relaxed(|| {
            let _entered = thread.enter(self.handle())?;
            let stream = TemporaryStream::new(driver)?;
            driver.stream_write(stream.stream, address, number, 0).ok()?;
            driver.stream_synchronize(stream.stream).ok()
        })
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        if load::is_forked() || !self.context.exists() {
            return;
        }
        let thread = &CallingThread::new(self.context.driver);
        let _ = thread.relaxed(|| {
            let _entered = thread.enter(self.context.handle())?;
            thread.memory_free(self.address).ok()
        });
    }
}
