//! Handles: numbers that look like pointers to a program, and must not be dereferenced. No other room is used;
//! no `unsafe`.
//!
//! Each kind has a range of its own, so a handle of the wrong kind is never taken for a right one. A freed
//! number is handed out again at once, newest first, as drivers tend to do: what keeps a handle too long finds
//! somebody else's object, not an error.

/// Kinds of handles, each a range of a terabyte far above what programs map.
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

pub struct Table<T> {
    kind: Kind,
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Table<T> {
    pub fn new(kind: Kind) -> Table<T> {
        Table { kind, slots: Vec::new(), free: Vec::new() }
    }

    fn base(&self) -> u64 {
        FIRST + self.kind as u64 * RANGE
    }

    fn slot(&self, handle: u64) -> Option<usize> {
        let offset = handle.checked_sub(self.base() + STEP)?;
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
        self.slots[slot] = Some(value);
        self.base() + STEP * (slot as u64 + 1)
    }

    pub fn get(&self, handle: u64) -> Option<&T> {
        self.slots.get(self.slot(handle)?)?.as_ref()
    }

    pub fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let slot = self.slot(handle)?;
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Whether there was ever an object of this handle.
    pub fn was_made(&self, handle: u64) -> bool {
        self.slot(handle).is_some_and(|slot| slot < self.slots.len())
    }

    pub fn remove(&mut self, handle: u64) -> Option<T> {
        let slot = self.slot(handle)?;
        let value = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(value)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let base = self.base();
        self.slots
            .iter_mut()
            .enumerate()
            .filter_map(move |(slot, value)| Some((base + STEP * (slot as u64 + 1), value.as_mut()?)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let base = self.base();
        self.slots
            .iter()
            .enumerate()
            .filter_map(move |(slot, value)| Some((base + STEP * (slot as u64 + 1), value.as_ref()?)))
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
}
