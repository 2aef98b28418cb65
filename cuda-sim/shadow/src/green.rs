//! Green contexts: each has a context of its own, by which it is followed.

use super::{adopt, follow, outside, watched};
use crate::api::contexts::{record_all, wait_all};
use crate::handles::CURRENT;
use crate::sim::CoreKind;

/// The context of a green one, which need not be current.
fn context_of(green: u64) -> u64 {
    let mut context = 0;
    let of = super::real::function!(cuCtxFromGreenCtx(*mut u64, u64));
    if outside(|| of(&mut context, green)) == 0 { context } else { 0 }
}

watched! {
    fn cuGreenCtxStreamCreate(to: *mut u64, green: u64, flags: u32, priority: i32) |real| {
        let context = context_of(green);
        follow("cuGreenCtxStreamCreate", 1, || real(to, green, flags, priority), to, |sim, _| {
            let device = CURRENT.get().1.max(0);
            adopt(sim, context, device);
            // CU_STREAM_NON_BLOCKING is compulsory. [cuGreenCtxStreamCreate]
            let core = sim.new_core(CoreKind::NonBlocking, context, device, flags, priority);
            let handle = sim.streams.insert(core);
            sim.core_mut(core).handle = handle;
            Ok(())
        })
    }
    fn cuGreenCtxRecordEvent(green: u64, event: u64) |real| {
        let context = context_of(green);
        follow("cuGreenCtxRecordEvent", 1, || real(green, event), std::ptr::null(), |sim, _| {
            record_all(sim, context, event)
        })
    }
    fn cuGreenCtxWaitEvent(green: u64, event: u64) |real| {
        let context = context_of(green);
        follow("cuGreenCtxWaitEvent", 1, || real(green, event), std::ptr::null(), |sim, _| {
            wait_all(sim, context, event)
        })
    }
}
