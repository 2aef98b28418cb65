//! References to the user objects of graphs.
//!
//! May use: `sim::state`, `work`. Unsafe: none.

use crate::sim::state::{Locked, Sim};
use crate::work::HostCall;

pub fn retain_objects(sim: &mut Locked, objects: &[(u64, u32)]) {
    for (object, count) in objects {
        if let Some(object) = sim.user_objects.get_mut(*object) {
            object.refs += u64::from(*count);
        }
    }
}

/// Releases references. An object without references is destroyed on a thread of the driver.
pub fn release_objects(sim: &mut Sim, objects: &[(u64, u32)]) {
    for (handle, count) in objects {
        let Some(object) = sim.user_objects.get_mut(*handle) else { continue };
        object.refs = object.refs.saturating_sub(u64::from(*count));
        if object.refs == 0 {
            let (destroy, data) = (object.destroy, object.data);
            sim.user_objects.remove(*handle);
            let call = HostCall { function: destroy, data, callback_stream: None };
            let _ = std::thread::Builder::new()
                .name("cuda-sim user objects".to_owned())
                .spawn(move || call.run(0));
        }
    }
}
