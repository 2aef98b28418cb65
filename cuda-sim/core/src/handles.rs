//! Handles: numbers that look like pointers to a program and must not be dereferenced.
//!
//! Each kind has a range of its own, so a handle of the wrong kind is never mistaken for a valid
//! one. A freed number is reused at once, newest first, as drivers tend to do: code that keeps a
//! handle too long finds another object, not an error.
//!
//! Beside a real driver, its handles name the objects that were created here to follow its own.

use crate::real_driver;
use std::cell::Cell;
use std::collections::HashMap;

thread_local! {
    /// The handle or address of the object that a real driver just created; 0 for none.
    pub static GIVEN: Cell<u64> = const { Cell::new(0) };
    /// Beside a real driver: the current context of the calling thread, and its device.
    pub static CURRENT: Cell<(u64, i32)> = const { Cell::new((0, -1)) };
}

/// Kinds of handles, each with a range of a terabyte far above the addresses that programs map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kind {
    Context = 1,
    Stream,
    Event,
    Module,
    Function,
    Graph,
    Node,
    Exec,
    Pool,
    Physical,
    UserObject,
    Library,
    Green,
    Descriptor,
}

const STEP: u64 = 64;
const RANGE: u64 = 1 << 40;
const FIRST: u64 = 0x7000_0000_0000_0000;
/// Beside a real driver. It may be a simulated one, whose numbers must differ.
const FIRST_BESIDE: u64 = 0x6000_0000_0000_0000;

pub struct Table<T> {
    base: u64,
    slots: Vec<Option<(u64, T)>>,
    free: Vec<usize>,
    /// Handles of a real driver.
    given: HashMap<u64, usize>,
}

impl<T> Table<T> {
    pub fn new(kind: Kind) -> Table<T> {
        let first = if real_driver::is_present() { FIRST_BESIDE } else { FIRST };
        let base = first + kind as u64 * RANGE;
        Table { base, slots: Vec::new(), free: Vec::new(), given: HashMap::new() }
    }

    fn slot(&self, handle: u64) -> Option<usize> {
        if let Some(slot) = self.given.get(&handle) {
            return Some(*slot);
        }
        let offset = handle.checked_sub(self.base + STEP)?;
        (offset % STEP == 0 && offset < RANGE).then_some((offset / STEP) as usize)
    }

    pub fn insert(&mut self, value: T) -> u64 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        let own = self.base + STEP * (slot as u64 + 1);
        let handle = match GIVEN.take() {
            0 => own,
            given => {
                self.given.insert(given, slot);
                given
            }
        };
        self.slots[slot] = Some((handle, value));
        handle
    }

    /// Gives an object another handle, a number of this table if `to` is `None`, and returns it.
    pub fn rename(&mut self, handle: u64, to: Option<u64>) -> Option<u64> {
        let slot = self.slot(handle)?;
        let new = to.unwrap_or(self.base + STEP * (slot as u64 + 1));
        self.slots[slot].as_mut()?.0 = new;
        self.given.remove(&handle);
        if to.is_some() {
            self.given.insert(new, slot);
        }
        Some(new)
    }

    pub fn get(&self, handle: u64) -> Option<&T> {
        self.slots.get(self.slot(handle)?)?.as_ref().map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let slot = self.slot(handle)?;
        self.slots.get_mut(slot)?.as_mut().map(|(_, value)| value)
    }

    /// Returns whether there was ever an object with this handle.
    pub fn was_made(&self, handle: u64) -> bool {
        self.slot(handle).is_some_and(|slot| slot < self.slots.len())
    }

    pub fn remove(&mut self, handle: u64) -> Option<T> {
        let slot = self.slot(handle)?;
        let (handle, value) = self.slots.get_mut(slot)?.take()?;
        self.given.remove(&handle);
        self.free.push(slot);
        Some(value)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.slots.iter_mut().flatten().map(|(handle, value)| (*handle, value))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().flatten().map(|(handle, value)| (*handle, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_newest_first_and_never_mixed_up() {
        let mut streams = Table::new(Kind::Stream);
        let events: Table<u8> = Table::new(Kind::Event);
        let (a, b) = (streams.insert('a'), streams.insert('b'));
        assert!(a != b && events.get(a).is_none());
        assert_eq!((streams.get(a), streams.get(a + 1), streams.get(0)), (Some(&'a'), None, None));
        assert_eq!(streams.remove(b), Some('b'));
        assert_eq!(streams.remove(b), None);
        assert_eq!(streams.insert('c'), b);
        assert_eq!(streams.iter().map(|(handle, _)| handle).collect::<Vec<_>>(), [a, b]);
    }

    #[test]
    fn handles_of_a_real_driver() {
        let mut streams = Table::new(Kind::Stream);
        GIVEN.set(0x5555);
        assert_eq!((streams.insert('a'), streams.get(0x5555)), (0x5555, Some(&'a')));
        let own = streams.insert('b');
        assert_eq!((GIVEN.get(), streams.get(own)), (0, Some(&'b')));
        // Set aside, and restored.
        let aside = streams.rename(0x5555, None).unwrap();
        assert_eq!((streams.get(0x5555), streams.get(aside)), (None, Some(&'a')));
        streams.rename(aside, Some(0x5555));
        assert_eq!(streams.iter().map(|(handle, _)| handle).collect::<Vec<_>>(), [0x5555, own]);
        assert_eq!((streams.remove(0x5555), streams.get(0x5555)), (Some('a'), None));
    }
}
