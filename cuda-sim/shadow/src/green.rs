//! Green contexts: each has a context of its own, by which it is followed.

use crate::passed_on::passed_on;
use cudasim_core::api::contexts::record_all;
use cudasim_core::capture::wait_in_context;
use cudasim_core::context::adopt;
use cudasim_core::follow::{follow, outside};
use cudasim_core::handles::{CURRENT, GIVEN};
use cudasim_core::resources::Sms;
use cudasim_core::sim::{Green, StreamKind, new_context};

/// Returns the context of a green one. It need not be current.
fn context_of(green: u64) -> u64 {
    let mut context = 0;
    let of = crate::real::function!(cuCtxFromGreenCtx(*mut u64, u64));
    if outside(|| of(&mut context, green)) == 0 { context } else { 0 }
}

/// Returns the primary context of a device. It lives at least as long as the green ones over it.
fn primary_of(device: i32) -> u64 {
    let mut context = 0;
    let retain = crate::real::function!(cuDevicePrimaryCtxRetain(*mut u64, i32));
    let release = crate::real::function!(cuDevicePrimaryCtxRelease_v2(i32));
    outside(|| {
        if retain(&mut context, device) == 0 {
            release(device);
        }
    });
    context
}

passed_on! {
    fn cuGreenCtxCreate(to: *mut u64, descriptor: u64, device: i32, flags: u32) |real| {
        follow_made(to, device, flags, || real(to, descriptor, device, flags))
    }
    fn cuGreenCtxDestroy(green: u64) |real| {
        let context = context_of(green);
        follow("cuGreenCtxDestroy", 1, || real(green), std::ptr::null(), |sim, _| {
            sim.detach(context);
            Ok(())
        })
    }
    fn cuGreenCtxStreamCreate(to: *mut u64, green: u64, flags: u32, priority: i32) |real| {
        let context = context_of(green);
        follow("cuGreenCtxStreamCreate", 1, || real(to, green, flags, priority), to, |sim, _| {
            let device = CURRENT.get().1.max(0);
            adopt(sim, context, device);
            // CU_STREAM_NON_BLOCKING is required. [cuGreenCtxStreamCreate]
            let stream = sim.new_stream(StreamKind::NonBlocking, context, device, flags, priority);
            let handle = sim.streams.insert(stream);
            sim.stream_mut(stream).handle = handle;
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
            wait_in_context(sim, context, event)
        })
    }
}

fn follow_made(to: *mut u64, device: i32, flags: u32, real: impl FnOnce() -> i32) -> i32 {
    const DEFAULT_STREAM: u32 = 1;
    let result = outside(real);
    let handle = cudasim_core::ffi::get(to).unwrap_or(0);
    if result != 0 || handle == 0 {
        return result;
    }
    let (context, base) = (context_of(handle), primary_of(device));
    follow(
        "cuGreenCtxCreate",
        1,
        || result,
        std::ptr::null(),
        |sim, _| {
            adopt(sim, base, device);
            GIVEN.set(handle);
            sim.greens.insert(context);
            GIVEN.set(context);
            let default_stream = flags & DEFAULT_STREAM != 0;
            let green = Green { handle, base, sms: Sms::default(), default_stream };
            new_context(sim, device, 0, false, 3020, Some(green));
            Ok(())
        },
    )
}
