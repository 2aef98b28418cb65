//! The context that is current in the real driver.

use crate::handles::{CURRENT, GIVEN};
use crate::real_driver;
use crate::sim::{Locked, new_context};

/// Queries the current context, if there is a real driver. Must be called before the state is
/// locked: the driver has locks of its own.
pub fn look_around() {
    if let Some(real) = real_driver::get() {
        CURRENT.set((real.current_context)(CURRENT.get()));
    }
}

/// Adopts the current context, at the first call in it.
pub fn adopt_current(sim: &mut Locked) {
    if real_driver::is_present() {
        let (context, device) = CURRENT.get();
        adopt(sim, context, device);
    }
}

pub fn adopt(sim: &mut Locked, context: u64, device: i32) {
    if context != 0 && sim.contexts.get(context).is_none() {
        let given = GIVEN.replace(context);
        new_context(sim, device, 0, false, 3020, None);
        GIVEN.set(given);
    }
}
