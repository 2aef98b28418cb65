//! Arrays between processes at scale: one handle for each allocation, one event for each exporting
//! stream, and one for each importer, whatever the number of arrays.
//!
//! An exporter gives each array a slot and writes a record, which the caller carries anywhere. The
//! first import of a record connects to the exporter, and sends it a page of shared memory. In the
//! page, the importer counts its arrays of each slot, and the exporter writes the generation of each
//! slot: whichever of a claim and a withdrawal comes first, the other process sees it.
//!
//! ```text
//! exporter's stream -> shared stream, ready event -> importer's shared stream -> consumer's stream
//! exporter's stream <- shared stream <- done event,  importer's shared stream <- consumer's stream
//! ```
//!
//! Where processes share no events, streams write and wait for numbers in memory of the exporter
//! instead: one for each of its ready events, and one for each importer and device.
//!
//! A record is this head, little-endian, and the bytes of `cai_unstable_ipc_export`:
//!
//! | from | bytes | content |
//! |---|---|---|
//! | 0 | 8 | `CAI CHN\0` |
//! | 8 | 4, 4 | version 1, length of all |
//! | 16 | 16, 8 | boot id, network namespace |
//! | 40 | 16, 4, 4, 8 | nonce, pid, number of slots, start time of the exporter |
//! | 72 | 4, 4 | slot, generation |
//! | 80 | 2, 2, 4 | index of the ready event, 1 for numbers, number of allocations |
//! | 88 | 8 | number of the record of the ready event |
//! | 96 | 8 | number of the pool that memory is of, or 0 |
//! | 104 | 8 each | numbers of the allocations |
//!
//! Memory of pools and of `cuMemCreate` needs a descriptor: an importer asks for that of a pool, or
//! of an allocation, by its number, and the exporter sends it when it polls.

mod exporter;
mod importer;
mod ready;
mod system;

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::CAI_ERR_IPC_PEER;
use crate::argument::Buffer;
use crate::driver;
use crate::error::{Failure, Result, fail, failure};
use crate::ipc::bytes::{ARRAYS, Reader, malformed, put};
use crate::memory;
use crate::observer;
use crate::owner::Array;
use crate::sync::release_queue;
use crate::validate::Valid;
use exporter::{Due, Exports};
use importer::Link;
use system::{Identity, Socket, Watch};

/// Slots of a channel, by default and at most.
const DEFAULT_SLOTS: u32 = 1 << 17;
const MOST_SLOTS: u32 = 1 << 20;
/// Ready events of an exporter: one for each stream, or for several if there are more streams.
const READY: usize = 64;
/// Those that are recorded on a stream of the exporter itself; the others on one of the library.
const DIRECT: usize = 48;
/// Devices of an importer that have a done event.
const DEVICES: usize = 16;
/// Importers of a channel, one for each bit of a mask.
const PEERS: usize = 64;
/// Numbers of a device.
const NUMBERS: usize = READY + PEERS * DEVICES;
/// More records than a process ever makes.
const MOST_RECORDS: u64 = 1 << 62;

/// Returns the index of the number that an importer writes when it is done.
fn done(importer: usize, device: usize) -> usize {
    READY + importer * DEVICES + device
}

const MAGIC: [u8; 8] = *b"CAI CHN\0";
const VERSION: u32 = 1;
const HEAD: usize = 104;

/// Words of the head of a page.
mod word {
    /// Written by the exporter: 1 once the slots' generations are there.
    pub const ACCEPTED: usize = 0;
    /// Written by the exporter, before: the importer's place in its table, and the first number of
    /// each done event.
    pub const PLACE: usize = 1;
    /// Written by the exporter: number of the newest record of each ready event.
    pub const READY: usize = 8;
    /// Written by the importer, for each device: number of the newest record of its done event, the
    /// device's UUID, and the event's handle.
    pub const DONE: usize = 128;
    pub const DONE_SIZE: usize = 11;
}

/// Messages of a connection: a word of 8 bytes and a number. The importer's first message is longer.
mod said {
    /// From the exporter: it has accepted the connection.
    pub const WELCOME: u64 = 1;
    /// From the exporter: an allocation may be freed once the importer has closed it.
    pub const RETIRE: u64 = 2;
    /// From the importer: it has closed an allocation.
    pub const CLOSED: u64 = 3;
    /// From the importer: it needs the descriptor of a pool or an allocation.
    pub const WANTED: u64 = 4;
    /// From the exporter, with the descriptor.
    pub const DESCRIPTOR: u64 = 5;
}

/// A message other than the first: what is said, of which allocation or pool.
fn message(word: u64, number: u64) -> [u8; 16] {
    ((u128::from(number) << 64) | u128::from(word)).to_le_bytes()
}

fn parse(bytes: &[u8]) -> Option<(u64, u64)> {
    let all = u128::from_le_bytes(bytes.try_into().ok()?);
    Some((all as u64, (all >> 64) as u64))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock under which the driver is called: its calls by one thread happen before those by the next.
/// An observer sees only locks for which a thread sleeps, so it is notified.
struct Observed<'a, T>(MutexGuard<'a, T>);

impl<'a, T> Observed<'a, T> {
    fn lock(mutex: &'a Mutex<T>) -> Observed<'a, T> {
        let guard = lock(mutex);
        observer::notify_after((&raw const *guard).cast());
        Observed(guard)
    }
}

impl<T> Deref for Observed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Observed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for Observed<'_, T> {
    fn drop(&mut self) {
        // Before the guard, a field, unlocks.
        observer::notify_before((&raw const *self.0).cast());
    }
}

/// Head of a record.
struct Record {
    identity: Identity,
    capacity: u32,
    slot: u32,
    generation: u32,
    ready: u32,
    sequence: u64,
    has_numbers: bool,
    /// Number of the pool, or 0.
    pool: u64,
    allocations: Allocations,
}

/// Numbers of the allocations of an array and its masks.
#[derive(Clone, Copy, Default, PartialEq)]
struct Allocations([u64; ARRAYS], usize);

impl Allocations {
    fn push(&mut self, number: u64) -> Result<()> {
        *self.0.get_mut(self.1).ok_or_else(Failure::internal)? = number;
        self.1 += 1;
        Ok(())
    }

    fn all(&self) -> &[u64] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

impl Record {
    /// Writes the head. `rest`: number of the bytes that follow.
    fn write(&self, rest: usize, out: &mut Buffer<u8>) {
        let Identity { boot, network, nonce, pid, start } = self.identity;
        out.append(&MAGIC);
        put(out, &[VERSION, (HEAD + 8 * self.allocations.1 + rest) as u32]);
        out.append(&boot);
        out.append(&network.to_le_bytes());
        out.append(&nonce);
        put(out, &[pid, self.capacity]);
        out.append(&start.to_le_bytes());
        let count = self.allocations.1 as u32;
        let ready = self.ready | (u32::from(self.has_numbers) << 16);
        put(out, &[self.slot, self.generation, ready, count]);
        out.append(&self.sequence.to_le_bytes());
        out.append(&self.pool.to_le_bytes());
        self.allocations.all().iter().for_each(|number| out.append(&number.to_le_bytes()));
    }

    /// Reads a head that comes from anywhere, and returns the bytes behind it.
    fn read(bytes: &[u8]) -> Result<(Record, &[u8])> {
        let mut reader = Reader::begin(bytes, MAGIC, VERSION)?;
        let (boot, network, nonce) = (reader.take()?, reader.u64()?, reader.take()?);
        let pid = reader.u32()?;
        let capacity = reader.up_to(MOST_SLOTS as usize, "too many slots")? as u32;
        let start = reader.u64()?;
        let slot = reader.u32()?;
        if slot >= capacity {
            return malformed("bytes", "a slot that the channel does not have");
        }
        let generation = reader.u32()?;
        let ready = reader.up_to((READY - 1) | (1 << 16), "an unknown ready event")? as u32;
        let (ready, has_numbers) = (ready & 0xffff, ready >> 16 == 1);
        if ready as usize >= READY {
            return malformed("bytes", "an unknown ready event");
        }
        let count = reader.up_to(ARRAYS, "too many allocations")?;
        let (sequence, pool) = (reader.u64()?, reader.u64()?);
        let mut allocations = Allocations::default();
        for _ in 0..count {
            allocations.push(reader.u64()?)?;
        }
        let identity = Identity { boot, network, nonce, pid, start };
        let record = Record {
            identity,
            capacity,
            slot,
            generation,
            ready,
            sequence,
            has_numbers,
            pool,
            allocations,
        };
        Ok((record, reader.0))
    }
}

/// A channel of this process: its exports, and its connections to other exporters.
pub struct Channel {
    number: u64,
    identity: Identity,
    listener: Socket,
    watch: Watch,
    exports: Mutex<Exports>,
    links: Mutex<Vec<Arc<Link>>>,
    /// Set before the lists are emptied. A thread that has locked one and finds false is before that.
    is_released: AtomicBool,
}

static CHANNELS: Mutex<Vec<Arc<Channel>>> = Mutex::new(Vec::new());
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Makes a channel, and returns its number.
pub fn create(slots: u32, has_numbers: bool) -> Result<u64> {
    if slots > MOST_SLOTS {
        return fail!(CAI_ERR_ARGUMENT, "slots"; found "{slots}"; expected "at most {MOST_SLOTS}");
    }
    let slots = if slots == 0 { DEFAULT_SLOTS } else { slots };
    let identity = Identity::own()?;
    let listener = system::listen(&identity.nonce)?;
    let watch = Watch::new()?;
    watch.add(&listener)?;
    let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
    let exports = Mutex::new(Exports::new(identity, slots, has_numbers));
    let (links, is_released) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let channel = Channel { number, identity, listener, watch, exports, links, is_released };
    memory::push(&mut lock(&CHANNELS), Arc::new(channel))?;
    Ok(number)
}

/// Returns a channel of this process.
pub fn find(number: u64) -> Result<Arc<Channel>> {
    let all = lock(&CHANNELS);
    let found = all.iter().find(|channel| channel.number == number).cloned();
    drop(all);
    let Some(channel) = found else { return unknown(number) };
    if driver::is_forked() { forked() } else { Ok(channel) }
}

#[cold]
fn forked<T>() -> Result<T> {
    fail!(CAI_ERR_FORKED, "channel";
        found "a channel of the parent process"; expected "a channel that this process made")
}

#[cold]
fn unknown<T>(number: u64) -> Result<T> {
    fail!(CAI_ERR_ARGUMENT, "channel";
        found "{number}"; expected "a channel that was created and not released")
}

/// Withdraws all exports of a channel and closes its connections.
pub fn release(number: u64) -> Result<()> {
    let channel = find(number)?;
    lock(&CHANNELS).retain(|other| other.number != number);
    if channel.is_released.swap(true, Ordering::SeqCst) {
        return unknown(number);
    }
    // Refuses those that wait and those to come.
    channel.listener.end();
    while let Ok(Some(_)) = system::accept(&channel.listener) {}
    let mut due = Due::default();
    Observed::lock(&channel.exports).end(&channel.watch, &mut due);
    due.release();
    let links = std::mem::take(&mut *lock(&channel.links));
    links.iter().for_each(Link::release);
    Ok(())
}

impl Channel {
    /// Fails if another thread has released the channel since this one found it.
    fn check_in_use(&self) -> Result<()> {
        if self.is_released.load(Ordering::SeqCst) { unknown(self.number) } else { Ok(()) }
    }

    /// Returns a descriptor that is readable while `poll` has something to do.
    pub fn descriptor(&self) -> i32 {
        self.watch.as_raw()
    }

    /// Writes the record of an array. Returns the number of the export and the number of bytes.
    pub fn export(&self, key: u64, array: Valid, out: &mut Buffer<u8>) -> Result<(u64, usize)> {
        let mut due = Due::default();
        let mut exports = Observed::lock(&self.exports);
        let done = self.check_in_use();
        let done = done.and_then(|()| exports.export(key, array, out, &self.watch, &mut due));
        drop(exports);
        due.release();
        done
    }

    pub fn withdraw(&self, export: u64) -> Result<()> {
        let mut due = Due::default();
        let done = Observed::lock(&self.exports).withdraw(export, &mut due);
        due.release();
        done
    }

    /// Accepts connections, notices processes that ended, and releases what nobody uses any more.
    /// Returns the number of exports that are left.
    pub fn poll(&self) -> Result<u64> {
        let mut due = Due::default();
        let mut exports = Observed::lock(&self.exports);
        let accepted = exports.accept(&self.listener, &self.watch);
        exports.collect(&self.watch, &mut due);
        let left = exports.left();
        drop(exports);
        due.release();
        release_queue::progress();
        // Without the lock, and without memory for a copy of the list.
        let link = |index: usize| lock(&self.links).get(index).cloned();
        (0..).map_while(link).for_each(|link| link.poll(&self.watch));
        // Those to processes that ended, once nothing uses them.
        let mut kept = lock(&self.links);
        let mut ended = Vec::new();
        while let Some(place) = kept.iter().position(Link::is_over) {
            ended.push(kept.swap_remove(place));
        }
        drop(kept);
        drop(ended);
        accepted?;
        Ok(left)
    }

    /// Makes an array of a record.
    pub fn import(&self, bytes: &[u8]) -> Result<Array> {
        let (record, rest) = Record::read(bytes)?;
        let link = self.link(&record)?;
        link.import(&record, rest)
    }

    /// Returns the connection to the exporter of a record, which is made the first time.
    fn link(&self, record: &Record) -> Result<Arc<Link>> {
        let mut links = lock(&self.links);
        self.check_in_use()?;
        // A forged record must not decide how this process connects for others of its exporter.
        if let Some(known) = links.iter().find(|link| link.is_to(record)) {
            return Ok(known.clone());
        }
        self.check_location(&record.identity)?;
        self.identity.check_process()?;
        memory::reserve(&mut links)?;
        let link = Link::connect(&self.identity, record, &self.watch)?;
        links.push(link.clone());
        Ok(link)
    }

    /// Fails for an exporter that no connection can reach.
    fn check_location(&self, exporter: &Identity) -> Result<()> {
        let own = &self.identity;
        let id = u128::from_be_bytes;
        if exporter.boot != own.boot {
            return fail!(CAI_ERR_IPC_NODE, "bytes";
                found "an array of the machine with boot id {:032x}", id(exporter.boot);
                expected "this machine, {:032x}: copy the array there", id(own.boot));
        }
        if exporter.nonce == own.nonce {
            return fail!(CAI_ERR_IPC_MEMORY, "bytes";
                found "an array of this process itself";
                expected "one of another process: use the array that was exported");
        }
        if exporter.network != own.network {
            return fail!(CAI_ERR_IPC_NODE, "bytes";
                found "an array of network namespace {}", exporter.network;
                expected "{}, this one: share it between the containers", own.network);
        }
        Ok(())
    }
}

/// The failure for a process that has ended.
#[cold]
fn ended(exporter: &Identity) -> Failure {
    let Identity { pid, start, .. } = exporter;
    failure!(CAI_ERR_IPC_PEER, "bytes";
        found "an array of process {pid}, started at tick {start}, which has ended";
        expected "a process that runs: let its successor export the array again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{self, CAI_ERR_ARGUMENT};
    use crate::read::{Given, NOTHING};

    /// As in a thread that found the channel before another one released it.
    #[test]
    fn nothing_begins_in_a_channel_that_was_released() {
        let number = create(1, false).ok().unwrap();
        let channel = find(number).ok().unwrap();
        assert!(release(number).is_ok());
        let mut array = NOTHING;
        array.typestr[..3].copy_from_slice(&[b'|', b'u', b'1'].map(|byte| byte as _));
        let shape = [0];
        (array.shape, array.ndim) = (shape.as_ptr(), 1);
        // SAFETY: it has no pointers but the shape, which lives as long.
        let given = unsafe { Given::new(&raw const array) };
        let array = given.valid(abi::CAI_CHECK_LAYOUT).ok().unwrap();
        let mut bytes = [0; 1 << 12];
        // SAFETY: the bytes live as long, and nothing else uses them.
        let mut out = unsafe { Buffer::new(bytes.as_mut_ptr(), bytes.len()) };
        let exported = channel.export(0, array, &mut out);
        assert_eq!(exported.err().unwrap().status(), CAI_ERR_ARGUMENT);
        let identity = Identity { nonce: [7; 16], ..channel.identity };
        let record = Record {
            identity,
            capacity: 1,
            slot: 0,
            generation: 1,
            ready: 0,
            sequence: 0,
            has_numbers: false,
            pool: 0,
            allocations: Allocations::default(),
        };
        assert_eq!(channel.link(&record).err().unwrap().status(), CAI_ERR_ARGUMENT);
    }
}
