//! The values that decide which body of a conditional node runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A condition. It exists as long as a graph that it was created for, or an executable graph with
/// a node that depends on it.
#[derive(Debug)]
pub struct Condition {
    pub handle: u64,
    value: AtomicU32,
    /// The value that each launch assigns first. Without it, that of the last launch remains.
    default: Option<u32>,
}

/// All conditions, by handle. Kernels set them while the state of the simulator is not locked.
static ALL: Mutex<BTreeMap<u64, Weak<Condition>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

fn all() -> MutexGuard<'static, BTreeMap<u64, Weak<Condition>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Condition {
    pub fn new(value: u32, is_default: bool) -> Arc<Condition> {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        let default = is_default.then_some(value);
        let condition = Arc::new(Condition { handle, value: AtomicU32::new(0), default });
        all().insert(handle, Arc::downgrade(&condition));
        condition
    }

    pub fn find(handle: u64) -> Option<Arc<Condition>> {
        all().get(&handle)?.upgrade()
    }

    pub fn get(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    pub fn set(&self, value: u32) {
        self.value.store(value, Ordering::Release);
    }

    pub fn assign_default(&self) {
        self.default.into_iter().for_each(|value| self.set(value));
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        all().remove(&self.handle);
    }
}
