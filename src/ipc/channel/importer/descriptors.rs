//! Descriptors of pools and of memory of `cuMemCreate`, which the exporter sends when it is asked.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

use super::super::system::{self, Identity, Received};
use super::super::{Record, message, parse, said};
use super::{Link, State, pending};
use crate::driver::{Allocation, CallingThread, MemoryKind, SharedMemory, SharedPool};
use crate::error::{Failure, Result, fail};
use crate::memory;

/// Descriptors of an exporter that are kept until an import uses them.
const MOST: usize = 64;
const MISSING: &str = "sent the memory's file descriptor";

enum Descriptor {
    Wanted,
    AskedFor,
    Here(OwnedFd),
    /// The system could not make it in this process.
    Lost,
}

/// A descriptor that an import needs.
struct Wanted {
    number: u64,
    /// The allocation of the import.
    allocation: u64,
    descriptor: Descriptor,
}

#[derive(Default)]
pub struct Descriptors {
    /// The oldest first.
    wanted: Vec<Wanted>,
    /// Those that memory is open of.
    pools: Vec<(u64, Weak<SharedPool>)>,
}

impl Descriptors {
    fn pool(&self, number: u64) -> Option<Arc<SharedPool>> {
        self.pools.iter().find(|pool| pool.0 == number).and_then(|pool| pool.1.upgrade())
    }

    /// Asks for what is needed, as far as the connection takes it.
    pub fn ask(&mut self, connection: &OwnedFd) {
        for Wanted { number, descriptor, .. } in &mut self.wanted {
            if !matches!(descriptor, Descriptor::Wanted) {
                continue;
            }
            if system::send(connection, &message(said::WANTED, *number), None).is_err() {
                return;
            }
            *descriptor = Descriptor::AskedFor;
        }
    }

    /// Keeps a descriptor if an import needs it.
    fn arrived(&mut self, number: u64, descriptor: Option<OwnedFd>) {
        let wanted = self.wanted.iter_mut().find(|wanted| wanted.number == number);
        if let Some(Wanted { descriptor: place @ Descriptor::AskedFor, .. }) = wanted {
            *place = descriptor.map_or(Descriptor::Lost, Descriptor::Here);
        }
    }

    /// Forgets what imports of an allocation need. Those of other memory of its pool ask again.
    pub fn forget(&mut self, allocation: u64) {
        self.wanted.retain(|wanted| wanted.allocation != allocation);
    }

    /// Opens memory in a pool that is open, or with a descriptor. If neither is there, this fails, and
    /// [`ask`](Self::ask) asks for the descriptor. The numbers are those of the descriptor and of the
    /// allocation.
    pub fn open(
        &mut self,
        thread: &CallingThread,
        device: i32,
        from: &Allocation,
        (number, allocation): (u64, u64),
        exporter: &Identity,
    ) -> Result<SharedMemory> {
        let mut pool = self.pool(number).filter(|_| from.kind == MemoryKind::Pool);
        if pool.is_some() {
            return SharedMemory::open(thread, device, from, -1, &mut pool);
        }
        self.pools.retain(|pool| pool.1.strong_count() > 0);
        self.pools.try_reserve(1).map_err(|_| Failure::no_memory(size_of::<Weak<SharedPool>>()))?;
        let place = self.wanted.iter().position(|wanted| wanted.number == number);
        let known = place.and_then(|place| self.wanted.get(place)).map(|wanted| &wanted.descriptor);
        if let Some(Descriptor::Wanted | Descriptor::AskedFor) = known {
            return pending(exporter, MISSING);
        }
        match place.map(|place| self.wanted.remove(place).descriptor) {
            Some(Descriptor::Here(fd)) => {
                let fd = fd.as_raw_fd();
                let memory = SharedMemory::open(thread, device, from, fd, &mut pool)?;
                self.pools.extend(pool.iter().map(|pool| (number, Arc::downgrade(pool))));
                Ok(memory)
            }
            Some(_) => fail!(CAI_ERR_IPC_SYSTEM, "channel";
                found "a message of the exporter whose file descriptor is missing";
                expected "a free file descriptor: raise `ulimit -n`"),
            None => {
                if self.wanted.len() == MOST {
                    // Not the oldest: imports that take turns would never find theirs.
                    self.wanted.pop();
                }
                let descriptor = Descriptor::Wanted;
                memory::push(&mut self.wanted, Wanted { number, allocation, descriptor })?;
                pending(exporter, MISSING)
            }
        }
    }
}

/// Returns the number of the descriptor that an allocation needs.
pub fn number(record: &Record, allocation: u64, from: &Allocation) -> Option<u64> {
    match from.kind {
        MemoryKind::Plain => None,
        MemoryKind::Pool => Some(record.pool),
        MemoryKind::Mapped => Some(allocation),
    }
}

impl Link {
    /// Reads the exporter's messages. Returns true if it has closed the connection.
    pub(super) fn listen(self: &Arc<Self>, state: &mut State) -> bool {
        loop {
            let mut bytes = [0; 16];
            match system::receive(&self.connection, &mut bytes) {
                Received::Nothing => return false,
                Received::End => return true,
                Received::Message(size, descriptor) => match bytes.get(..size).and_then(parse) {
                    Some((said::RETIRE, number)) => self.retire(state, number),
                    Some((said::DESCRIPTOR, number)) => {
                        state.descriptors.arrived(number, descriptor);
                    }
                    _ => {}
                },
            }
        }
    }
}
