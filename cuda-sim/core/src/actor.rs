//! Actors perform operations one after another: streams, host threads, or branches of a graph.
//!
//! An actor has a number, its place in vector clocks. A number that nothing refers to any more (no
//! actor, no recorded access, no snapshot of a clock) is given to a later actor: so clocks are as
//! long as there are actors that matter, however many there were.

use std::sync::{Arc, Mutex, PoisonError};

pub type Actor = usize;

/// The numbers that are free.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    free: Arc<Mutex<Vec<Actor>>>,
    given: Actor,
}

impl Numbers {
    /// Returns a number that nothing refers to.
    pub fn take(&mut self) -> Arc<Number> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let value = free.unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        });
        Arc::new(Number { value, free: self.free.clone() })
    }
}

/// A number that is in use. The last reference makes it free.
#[derive(Debug)]
pub struct Number {
    value: Actor,
    free: Arc<Mutex<Vec<Actor>>>,
}

impl Number {
    pub fn value(&self) -> Actor {
        self.value
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.value);
    }
}

/// The kind of an actor, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    Host {
        thread: u64,
    },
    Stream {
        id: u64,
        device: i32,
        kind: &'static str,
    },
    Branch {
        stream: u64,
        graph: u64,
    },
    /// An actor of another process, with its description there.
    Foreign {
        pid: u32,
        who: String,
    },
    /// Stands for the work of destroyed streams of a context.
    Destroyed,
    /// Stands for the work of a context before a call that synchronized its streams.
    Earlier,
}

pub const LEGACY: &str = "legacy default stream";

/// The identity of one actor, which its recorded accesses keep beyond its end.
#[derive(Debug)]
pub struct Identity {
    pub number: Arc<Number>,
    pub who: Who,
    name: Mutex<Option<String>>,
}

impl Identity {
    pub fn new(number: Arc<Number>, who: Who) -> Arc<Identity> {
        Arc::new(Identity { number, who, name: Mutex::new(None) })
    }

    pub fn actor(&self) -> Actor {
        self.number.value
    }

    pub fn set_name(&self, name: &str) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
    }

    /// Returns how a report names it.
    pub fn describe(&self) -> String {
        let name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        let name = name.as_ref().map_or_else(String::new, |name| format!(" \"{name}\""));
        match &self.who {
            Who::Host { thread } => format!("host thread {thread}{name}"),
            Who::Stream { id, device, kind } => format!("{kind} {id}{name} of device {device}"),
            Who::Foreign { pid, who } => format!("{who} of process {pid}"),
            Who::Destroyed => "a destroyed stream".to_owned(),
            Who::Earlier => "earlier work of its context".to_owned(),
            Who::Branch { stream, graph } => {
                format!("a branch of graph {graph} on stream {stream}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_once_nothing_refers_to_it() {
        let mut numbers = Numbers::default();
        let (first, second) = (numbers.take(), numbers.take());
        assert_eq!([first.value(), second.value()], [0, 1]);
        let kept = first.clone();
        drop(first);
        assert_eq!(numbers.take().value(), 2);
        drop(kept);
        assert_eq!(numbers.take().value(), 0);
    }
}
