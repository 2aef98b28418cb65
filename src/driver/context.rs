//! Contexts: which one is current, and making another one current for a moment.

use std::ptr;

use cudarc::driver::sys::{CUcontext, CUstream};

use crate::driver::load::Driver;
use crate::driver::result::Call;
use crate::error::{Result, fail};

/// A context is current while this lives. Afterwards the one from before is current again.
pub struct Entered<'a> {
    driver: &'a Driver,
    /// What was current before, if something had to be pushed.
    before: Option<CUcontext>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let mut out = ptr::null_mut();
        if !self.driver.context_pop(&raw mut out).is_ok() {
            // The caller must find its own context again, and if it costs a place on the stack.
            // Where that fails as well, the driver is going away.
            let _ = self.driver.context_set(before);
        }
    }
}

impl Driver {
    /// The calling thread's current context; NULL if it has none.
    #[inline]
    pub fn current(&self) -> Result<CUcontext> {
        let mut context = ptr::null_mut();
        self.context_current(&raw mut context).ok()?;
        Ok(context)
    }

    /// The same, for those who need one.
    pub fn some_current(&self) -> Result<CUcontext> {
        let context = self.current()?;
        if context.is_null() {
            return fail!(
                CAI_ERR_NO_CONTEXT,
                "stream",
                found = "no current context in this thread",
                expected = "one that gives a default stream its meaning"
            );
        }
        Ok(context)
    }

    /// Makes a context current if it is not already.
    #[inline]
    pub fn enter(&self, context: CUcontext) -> Result<Entered<'_>> {
        self.try_enter(context).map_err(Call::failure)
    }

    /// The same, for those who look at the code.
    #[inline]
    pub fn try_enter(&self, context: CUcontext) -> std::result::Result<Entered<'_>, Call> {
        let mut before = ptr::null_mut();
        self.context_current(&raw mut before).or_call()?;
        if before == context {
            return Ok(Entered { driver: self, before: None });
        }
        self.context_push(context).or_call()?;
        Ok(Entered { driver: self, before: Some(before) })
    }

    /// The context that a stream's events must be made in. For streams of green contexts that is
    /// the green context's own. [cuStreamGetCtx, cuEventRecord]
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

    /// The primary context of a device, with a reference that `release_primary` gives back. It
    /// exists already where there is memory on the device.
    pub fn primary(&self, device: i32) -> Result<CUcontext> {
        let mut context = ptr::null_mut();
        self.primary_retain(&raw mut context, device).ok()?;
        Ok(context)
    }

    /// Gives up the reference.
    pub fn release_primary(&self, device: i32) {
        // Nothing is lost if the driver is going away.
        let _ = self.primary_release(device);
    }
}
