//! Events.

use crate::api::macros::api;
use crate::capture;
use crate::ffi::put;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Event, Locked, Recorded, Sim};
use crate::work::StreamRef;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

fn find(sim: &Locked, event: u64) -> Result<&Event> {
    sim.events.get(event).ok_or(Code::INVALID_HANDLE)
}

/// Refuses events that a capture recorded: they have no time.
fn refuse_captured(sim: &mut Locked, event: u64) -> Result {
    if let Recorded::Captured { capture, .. } = find(sim, event)?.recorded {
        sim.invalidate(capture);
        return Err(Code::CAPTURED_EVENT);
    }
    sim.forbid_while_capturing()
}

/// Returns whether an event is reached. If so, everything before it happens before the next work of
/// the calling thread.
fn reached(sim: &mut Locked, event: u64, wait: bool) -> Result<bool> {
    refuse_captured(sim, event)?;
    let found = find(sim, event)?;
    let (recorded, shared, foreign, context) =
        (found.recorded.clone(), found.shared.clone(), found.is_foreign(), found.context);
    sim.context_error(context)?;
    if let Some(shared) = shared.filter(|_| foreign) {
        let (known, number) = (shared.known(), shared.newest());
        while wait && !shared.reached(number) {
            sim.unlocked(|| std::thread::sleep(std::time::Duration::from_micros(200)));
        }
        let reached = shared.reached(number);
        let host = sim.host_actor();
        if let (true, Some(checker)) = (reached, &mut sim.checker) {
            checker.learn_counts(host, &known);
        }
        return Ok(reached);
    }
    let Recorded::Live { stream, position, .. } = recorded else { return Ok(true) };
    let call = if wait { "cuEventSynchronize" } else { "cuEventQuery" };
    let clock = sim.counted(event, call, None);
    if wait {
        Sim::wait_done(sim, stream, position);
    } else if !Sim::poll(sim, stream, position) {
        return Ok(false);
    }
    sim.this_thread_learns(clock.as_ref());
    sim.context_error(context)?;
    Ok(true)
}

fn record(sim: &mut Locked, event: u64, stream: StreamRef, flags: u32) -> Result {
    if crate::real_driver::is_present() && sim.events.get(event).is_none() {
        // The real driver created it in a call that is not followed.
        let (context, device) = (sim.stream_mut(stream).context, sim.stream_mut(stream).device);
        crate::handles::GIVEN.set(event);
        sim.events.insert(Event::new(context, device, 0, None));
    }
    refuse_if(flags > 1, Code::INVALID_VALUE)?;
    capture::record(sim, event, stream, flags == 1)
}

fn elapsed(sim: &mut Locked, milliseconds: *mut f32, start: u64, end: u64) -> Result {
    // Both events must be able to measure before either must be done. [cuEventElapsedTime]
    for event in [start, end] {
        let found = find(sim, event)?;
        if found.flags & DISABLE_TIMING != 0 || !matches!(found.recorded, Recorded::Live { .. }) {
            return Err(Code::INVALID_HANDLE);
        }
    }
    let mut times = [0; 2];
    for (time, event) in times.iter_mut().zip([start, end]) {
        if let Recorded::Live { reached, .. } = &find(sim, event)?.recorded {
            refuse_if(!reached.done.load(Ordering::Acquire), Code::NOT_READY)?;
            *time = reached.nanoseconds.load(Ordering::Relaxed);
        }
    }
    put(milliseconds, (times[1] as f64 - times[0] as f64) as f32 / 1e6)
}

api! {
    fn cuEventCreate(to: *mut u64, flags: u32) |sim| {
        let context = sim.current_context()?;
        // Flags 0, 1, 2 and 4; an event for several processes has no timing. [cuEventCreate]
        if to.is_null()
            || flags & !7 != 0
            || (flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0)
        {
            return Err(Code::INVALID_VALUE);
        }
        let device = sim.context(context)?.device;
        let shared = if flags & INTERPROCESS != 0 {
            Some(Arc::new(crate::ipc::SharedEvent::new()?))
        } else {
            None
        };
        let event = Event::new(context, device, flags, shared);
        put(to, sim.events.insert(event))
    }
    fn cuEventDestroy_v2(event: u64) |sim| {
        // Pending waits keep what they need. [cuEventDestroy]
        sim.events.remove(event).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }
    fn cuEventRecord / cuEventRecord_ptsz(event: u64, stream: u64) |sim, default, stream| {
        record(sim, event, stream, 0)
    }
    fn cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz(
        event: u64, stream: u64, flags: u32,
    ) |sim, default, stream| {
        record(sim, event, stream, flags)
    }
    fn cuEventQuery(event: u64) |sim| { if reached(sim, event, false)? { Ok(()) } else { Err(Code::NOT_READY) } }
    fn cuEventSynchronize(event: u64) |sim| {
        reached(sim, event, true)?;
        sim.pools_synchronized();
        Ok(())
    }
    fn cuEventElapsedTime, cuEventElapsedTime_v2(milliseconds: *mut f32, start: u64, end: u64) |sim| {
        elapsed(sim, milliseconds, start, end)
    }
}
