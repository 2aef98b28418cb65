//! The real driver beside which the checker runs. The front end that passes calls on describes it;
//! there is none where this crate is the driver itself.

use crate::clock::Clock;
use crate::cudasim::Api;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub struct RealDriver {
    /// The functions of the driver, in the order of `functions::NAMES`. Those that it does not have
    /// are replaced by one that reads no argument and returns an error.
    pub functions: &'static [AtomicPtr<c_void>],
    /// Returns the current context and its device. The argument is the last result, whose device is
    /// reused for the same context.
    pub current_context: fn((u64, i32)) -> (u64, i32),
    /// Returns the table of cudasim.h, if the driver is a simulated one.
    pub simulated: fn() -> Option<&'static Api>,
    /// Records what happened before a host function of a graph that is launched, by the data that
    /// its node has.
    pub record_launch: fn(usize, Option<Clock>),
}

/// An atomic pointer that nothing stores to is a constant for the optimizer, which removes all code
/// for a real driver from the simulated one.
static DRIVER: AtomicPtr<RealDriver> = AtomicPtr::new(ptr::null_mut());

/// Declares that a real driver is present. Must be called before any other function of this crate.
pub fn set(driver: &'static RealDriver) {
    DRIVER.store(ptr::from_ref(driver).cast_mut(), Ordering::Release);
}

pub fn get() -> Option<&'static RealDriver> {
    // SAFETY: the pointer is NULL or comes from a `&'static RealDriver` in `set`, the only function
    // that stores one. It is only read.
    unsafe { DRIVER.load(Ordering::Acquire).as_ref() }
}

pub fn is_present() -> bool {
    get().is_some()
}

/// Returns the table of cudasim.h of a real driver that is a simulated one.
pub fn simulated() -> Option<&'static Api> {
    (get()?.simulated)()
}
