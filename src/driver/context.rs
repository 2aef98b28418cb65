//! Contexts: queries the calling thread's current one, and makes another one current for a moment.
//!
//! May use: `driver::load`, `driver::result`, `error`.
//! Unsafe: none.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr;

use cudarc::driver::sys::{CUcontext, CUstream};

use crate::driver::load::Driver;
use crate::driver::result::Call;
use crate::error::{Result, fail};

/// The driver during one operation of the calling thread, which queries its current context at most
/// once. It must not live longer than the operation: other code may make another context current.
pub struct CallingThread {
    driver: &'static Driver,
    /// The current context, once it is known.
    current: Cell<Option<CUcontext>>,
}

impl Deref for CallingThread {
    type Target = Driver;

    #[inline]
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
        if thread.context_pop(&raw mut out).is_ok() || thread.is_current(before) {
            return;
        }
        // The caller must find its own context again, even at the cost of an entry of the stack.
        // Where that fails as well, the driver is going away.
        let _ = thread.context_set(before);
    }
}

impl CallingThread {
    /// Begins an operation.
    #[inline]
    pub fn new(driver: &'static Driver) -> CallingThread {
        CallingThread { driver, current: Cell::new(None) }
    }

    /// Returns the driver.
    #[inline]
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Returns the current context, or NULL.
    #[inline]
    pub fn current(&self) -> Result<CUcontext> {
        self.try_current().map_err(Call::failure)
    }

    #[inline]
    fn try_current(&self) -> std::result::Result<CUcontext, Call> {
        if let Some(known) = self.current.get() {
            return Ok(known);
        }
        let mut context = ptr::null_mut();
        self.context_current(&raw mut context).or_call()?;
        self.current.set(Some(context));
        Ok(context)
    }

    /// Whether this context is the current one, as far as the driver can say.
    #[cold]
    fn is_current(&self, context: CUcontext) -> bool {
        let mut current = ptr::null_mut();
        self.context_current(&raw mut current).is_ok() && current == context
    }

    /// Returns the current context, or fails if there is none.
    #[inline]
    pub fn some_current(&self) -> Result<CUcontext> {
        let context = self.current()?;
        if context.is_null() {
            return fail!(
                CAI_ERR_NO_CONTEXT,
                "stream",
                found = "no current context in this thread",
                expected = "a context for the default stream: call cuCtxSetCurrent or \
                     cudaSetDevice in this thread first"
            );
        }
        Ok(context)
    }

    /// Makes a context current unless it is already.
    #[inline]
    pub fn enter(&self, context: CUcontext) -> Result<Entered<'_>> {
        self.try_enter(context).map_err(Call::failure)
    }

    /// Makes a context current unless it is already; fails with the driver's code.
    #[inline]
    pub fn try_enter(&self, context: CUcontext) -> std::result::Result<Entered<'_>, Call> {
        let before = self.try_current()?;
        if before == context {
            return Ok(Entered { thread: self, before: None });
        }
        let pushed = self.context_push(context);
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

    /// Returns the context that a stream's events must be created in. For streams of green contexts
    /// that is the green context's own. [cuStreamGetCtx, cuEventRecord]
    #[inline]
    pub fn context_of(&self, stream: CUstream) -> Result<CUcontext> {
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

impl Driver {
    /// Retains the primary context of a device; `release_primary` releases it. It already exists if
    /// there is memory on the device.
    pub fn primary(&self, device: i32) -> Result<CUcontext> {
        let mut context = ptr::null_mut();
        self.primary_retain(&raw mut context, device).ok()?;
        Ok(context)
    }

    /// Releases the primary context.
    pub fn release_primary(&self, device: i32) {
        // Nothing is lost if the driver is shutting down.
        let _ = self.primary_release(device);
    }
}
