//! Contexts: queries the calling thread's current one, and makes another one current for a moment.
//!
//! HIP's contexts are deprecated, and there is one for each device. There, the number of a device
//! plus one stands for a context, so that none is NULL.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr;

use cudarc::driver::sys::{CUcontext, CUstream};

use crate::abi::CAI_STREAM_LEGACY;
use crate::driver::load::Driver;
use crate::driver::table::Call;
use crate::error::{Result, fail};

/// The driver during one operation of the calling thread, which queries its current context at most
/// once. It must not live longer than the operation: other code may make another context current.
pub struct CallingThread {
    driver: &'static Driver,
    /// The current context, once it is known.
    current: Cell<Option<CUcontext>>,
    /// A context that was pushed could not be popped: no later pop ends at the one before its push.
    is_stuck: Cell<bool>,
}

impl Deref for CallingThread {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver
    }
}

/// Keeps a context current as long as it lives. Dropping it restores the previous one.
pub struct Entered<'a> {
    thread: &'a CallingThread,
    /// The previous context, if one was pushed.
    before: Option<CUcontext>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let thread = self.thread;
        thread.current.set(Some(before));
        let mut out = ptr::null_mut();
        let left = match thread.is_hip() || thread.is_stuck.get() {
            true => thread.driver.set_current(before),
            false => thread.context_pop(&raw mut out),
        };
        if left.is_ok() || thread.is_current(before) {
            return;
        }
        thread.is_stuck.set(true);
        // The caller must find its own context again, even at the cost of an entry of the stack.
        // Where that fails as well, the driver is going away.
        let _ = thread.driver.set_current(before);
    }
}

impl CallingThread {
    pub fn new(driver: &'static Driver) -> CallingThread {
        CallingThread { driver, current: Cell::new(None), is_stuck: Cell::new(false) }
    }

    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Returns the current context, or NULL.
    #[inline]
    pub fn current(&self) -> Result<CUcontext> {
        self.try_current().map_err(Call::failure)
    }

    fn try_current(&self) -> std::result::Result<CUcontext, Call> {
        if let Some(known) = self.current.get() {
            return Ok(known);
        }
        let context = self.driver.query_current()?;
        self.current.set(Some(context));
        Ok(context)
    }

    /// Returns true if this context is the current one, as far as the driver can tell.
    #[cold]
    fn is_current(&self, context: CUcontext) -> bool {
        self.driver.query_current() == Ok(context)
    }

    pub fn some_current(&self) -> Result<CUcontext> {
        let context = self.current()?;
        if context.is_null() {
            return fail!(CAI_ERR_NO_CONTEXT, "stream";
                found "no current context in this thread";
                expected "a context for the default stream: call cuCtxSetCurrent or cudaSetDevice \
                    in this thread first");
        }
        Ok(context)
    }

    #[inline]
    pub fn enter(&self, context: CUcontext) -> Result<Entered<'_>> {
        self.try_enter(context).map_err(Call::failure)
    }

    /// Makes a context current unless it is already; fails with the driver's code.
    pub fn try_enter(&self, context: CUcontext) -> std::result::Result<Entered<'_>, Call> {
        let before = self.try_current()?;
        if before == context {
            return Ok(Entered { thread: self, before: None });
        }
        let pushed = match self.is_hip() {
            true => self.driver.set_current(context),
            false => self.context_push(context),
        };
        let entered = Entered { thread: self, before: Some(before) };
        if let Err(call) = pushed.or_call() {
            // A call may report the failure of earlier work although it did its own. Then the
            // context from before is made current again.
            if !self.is_current(context) {
                std::mem::forget(entered);
            }
            return Err(call);
        }
        self.current.set(Some(context));
        Ok(entered)
    }

    /// Returns true if the current context is that of a green context. [cuStreamGetCtx]
    #[cold]
    pub fn is_green(&self) -> Result<bool> {
        let (mut context, mut green) = (ptr::null_mut(), ptr::null_mut());
        let legacy = CAI_STREAM_LEGACY as CUstream;
        let found = self.stream_contexts(legacy, &raw mut context, &raw mut green);
        if !found.is_missing() {
            found.ok()?;
        }
        Ok(!green.is_null())
    }

    /// Returns the context that a stream's events must be created in. For streams of green contexts
    /// that is the green context's own. [cuStreamGetCtx, cuEventRecord]
    pub fn context_of(&self, stream: CUstream) -> Result<CUcontext> {
        if self.is_hip() {
            let mut device = 0;
            let found = self.stream_device(stream, &raw mut device);
            // HIP refuses an event of another device than the stream's.
            return if found.is_missing() {
                self.current()
            } else {
                found.ok().map(|()| of(device))
            };
        }
        let (mut context, mut green) = (ptr::null_mut(), ptr::null_mut());
        let both = self.stream_contexts(stream, &raw mut context, &raw mut green);
        if both.is_missing() {
            self.stream_context(stream, &raw mut context).ok()?;
        } else {
            both.ok()?;
            if !green.is_null() {
                self.context_of_green(&raw mut context, green).ok()?;
            }
        }
        Ok(context)
    }
}

/// A context, with what tells it from a later one that has the same handle.
#[derive(Clone, Copy)]
pub struct KnownContext {
    pub handle: CUcontext,
    /// 0 if the driver has none, which HIP does not.
    pub id: u64,
}

impl KnownContext {
    pub fn new(driver: &Driver, handle: CUcontext) -> KnownContext {
        KnownContext::with_id(handle, KnownContext::id_of(driver, handle).unwrap_or(0))
    }

    /// A context whose id is known, or 0.
    pub fn with_id(handle: CUcontext, id: u64) -> KnownContext {
        KnownContext { handle, id }
    }

    fn id_of(driver: &Driver, handle: CUcontext) -> Option<u64> {
        let mut id = 0;
        driver.context_id(handle, &raw mut id).is_ok().then_some(id)
    }

    /// Returns true if the context was not destroyed, as far as the driver has ids. Otherwise what
    /// belonged to it is gone, and its handles and addresses may be those of others by now.
    pub fn exists(&self, driver: &Driver) -> bool {
        // A call may report the failure of another one, once.
        let asked = || KnownContext::id_of(driver, self.handle);
        self.id == 0 || asked().or_else(asked) == Some(self.id)
    }
}

/// HIP's context of a device.
fn of(device: i32) -> CUcontext {
    ptr::without_provenance_mut(device as usize + 1)
}

impl Driver {
    pub(super) fn query_current(&self) -> std::result::Result<CUcontext, Call> {
        if self.is_hip() {
            let mut device = 0;
            return self.device_current(&raw mut device).or_call().map(|()| of(device));
        }
        let mut context = ptr::null_mut();
        self.context_current(&raw mut context).or_call().map(|()| context)
    }

    fn set_current(&self, context: CUcontext) -> Call {
        if self.is_hip() {
            // An address that stands for no device is that of none.
            let device = i32::try_from(context.addr().wrapping_sub(1)).unwrap_or(-1);
            return self.device_set(device);
        }
        self.context_set(context)
    }

    /// Retains the primary context of a device; `release_primary` releases it. It already exists if
    /// there is memory on the device.
    pub fn primary(&self, device: i32) -> Result<CUcontext> {
        if self.is_hip() {
            return Ok(of(device));
        }
        let mut context = ptr::null_mut();
        self.primary_retain(&raw mut context, device).ok()?;
        Ok(context)
    }

    pub fn release_primary(&self, device: i32) {
        // Nothing is lost if the driver is shutting down. HIP's devices are not retained.
        let _ = self.primary_release(device);
    }
}
