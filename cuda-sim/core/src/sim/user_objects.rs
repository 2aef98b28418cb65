//! References to the user objects of graphs.

use crate::clock::Clock;
use crate::sim::state::{Locked, Sim};
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
            Sim::destroy_user_object(call, object.known);
        }
    }
}
