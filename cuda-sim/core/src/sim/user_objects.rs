//! References to the user objects of graphs.
//!
//! May use: `clock`, `sim::state`, `work`. Unsafe: none.

use crate::clock::{Clock, Knowledge};
use crate::sim::state::{Locked, Sim, lock};
use crate::work::HostCall;

pub fn retain_objects(sim: &mut Locked, objects: &[(u64, u32)]) {
    for (object, count) in objects {
        if let Some(object) = sim.user_objects.get_mut(*object) {
            object.refs += u64::from(*count);
        }
    }
}

/// Releases references in a call of the program. `work`: the last work that used the objects.
pub fn release_objects(sim: &mut Sim, objects: &[(u64, u32)], work: Option<Clock>) {
    if !objects.is_empty() {
        let known = known_at_release(sim, work);
        release_after(sim, objects, &known);
    }
}

/// Returns what happens before the end of objects that the calling thread releases.
pub fn known_at_release(sim: &mut Sim, work: Option<Clock>) -> Vec<Clock> {
    let host = sim.host_actor();
    let here = sim.checker.as_mut().map(|checker| checker.snapshot(host));
    here.into_iter().chain(work).collect()
}

/// Releases references, each after what a clock knows. An object without references is destroyed
/// on a thread of the driver.
pub fn release_after(sim: &mut Sim, objects: &[(u64, u32)], known: &[Clock]) {
    for (handle, count) in objects {
        let Some(object) = sim.user_objects.get_mut(*handle) else { continue };
        object.refs = object.refs.saturating_sub(u64::from(*count));
        known.iter().for_each(|clock| object.known.include(clock.clone()));
        if object.refs == 0 {
            let Some(object) = sim.user_objects.remove(*handle) else { continue };
            let call =
                HostCall { function: object.destroy, data: object.data, callback_stream: None };
            let _ = std::thread::Builder::new()
                .name("cuda-sim user objects".to_owned())
                .spawn(move || destroy(call, &object.known));
        }
    }
}

/// Calls the destructor. It happens after the work that used the object. It must not call the
/// driver, so it passes what it frees to another thread: one that acquires the address of the
/// object's data happens after that work too.
fn destroy(call: HostCall, known: &Knowledge) {
    if let Some(mut sim) = lock() {
        let (host, seen) = (sim.host_actor(), sim.config.threads_seen);
        if let Some(checker) = &mut sim.checker {
            checker.learn_all(host, known);
            if seen {
                checker.hb_before(host, call.data);
            }
        }
    }
    call.run(0);
}
