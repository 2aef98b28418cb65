//! The importer's side: mappings of an exporter's allocations, and claims to its slots.

mod descriptors;
mod device;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::system::{self, Identity, Page, Process, Socket, Watch};
use super::{
    Allocations, DEVICES, MOST_RECORDS, NUMBERS, Observed, PEERS, READY, Record, done, ended,
    message, said, word,
};
use crate::abi;
use crate::driver::{
    self, Allocation, CallingThread, MemoryKind, SharedEvent, SharedMemory, SharedStream,
};
use crate::error::{Failure, Result, fail};
use crate::ipc::bytes::{List, Message, Raw, malformed};
use crate::ipc::{Opened, Place, assemble, explained};
use crate::memory;
use crate::observer;
use crate::owner::{self, Array, Destructor, Ref};
use crate::sync::lost_streams;
use crate::sync::release_in_order::WorkOn;
use descriptors::Descriptors;
use device::{Device, Ready, number};

/// An allocation of the exporter.
struct Mapping {
    memory: SharedMemory,
    place: Place,
    size: u64,
    /// Arrays in it.
    arrays: u32,
    /// The work on the arrays that were given back.
    work: Option<WorkOn>,
    is_retiring: bool,
}

/// Claims to give back, once the stream is not being captured any more.
#[derive(Clone, Copy)]
struct Claim {
    slot: u32,
    device: Option<usize>,
    allocations: Allocations,
}

struct State {
    mappings: HashMap<u64, Mapping>,
    descriptors: Descriptors,
    devices: Vec<Device>,
    late: Vec<Claim>,
    /// Allocations to close after the work on a stream.
    closing: Vec<(Ref, Option<WorkOn>)>,
    /// Numbers of allocations whose end the exporter does not know yet.
    closed: Vec<u64>,
    /// Without memory, something was not closed.
    is_short: bool,
    /// The channel was released: what becomes idle is closed.
    is_released: bool,
}

impl State {
    /// Returns an allocation of the exporter, which is opened the first time.
    fn mapping(
        &mut self,
        thread: &CallingThread,
        record: &Record,
        number: u64,
        from: &Allocation,
    ) -> Result<&mut Mapping> {
        let no_memory = |_| Failure::no_memory(size_of::<Mapping>());
        self.mappings.try_reserve(1).map_err(no_memory)?;
        let vacant = match self.mappings.entry(number) {
            Entry::Occupied(known) => return Ok(known.into_mut()),
            Entry::Vacant(vacant) => vacant,
        };
        let descriptors = &mut self.descriptors;
        let (memory, place) = thread.relaxed(|| {
            let device = driver::device_of(thread, &from.uuid)?;
            let memory = match descriptors::number(record, number, from) {
                None => SharedMemory::open(thread, device, from, -1, &mut None)?,
                Some(of) => {
                    descriptors.open(thread, device, from, (of, number), &record.identity)?
                }
            };
            let place = Place::of(thread, &memory)?;
            Ok((memory, place))
        })?;
        let (size, work) = (from.size, None);
        let new = Mapping { memory, place, size, arrays: 0, work, is_retiring: false };
        Ok(vacant.insert(new))
    }
}

/// A connection to an exporter.
pub struct Link {
    exporter: Identity,
    capacity: u32,
    has_numbers: bool,
    process: Process,
    has_ended: AtomicBool,
    page: Page,
    /// Closed last: the exporter may then free what was open.
    state: Mutex<State>,
    connection: Socket,
}

impl Link {
    /// Connects to the exporter of a record.
    pub fn connect(own: &Identity, record: &Record, watch: &Watch) -> Result<Arc<Link>> {
        let exporter = record.identity;
        let connection = match system::connect(&exporter.nonce)? {
            Ok(connection) => connection,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(ended(&exporter));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return pending(&exporter, "accepted the connection");
            }
            Err(error) => return system::refused("connect", &error),
        };
        let Some(pid) = system::peer_of(&connection) else {
            return fail!(CAI_ERR_IPC_PEER, "bytes";
                found "an exporter of another user"; expected "one of the same user");
        };
        let (page, descriptor) = Page::create(record.capacity)?;
        let process = Process::watch(pid, exporter.start);
        // A child of it may have the socket.
        if process.has_ended(false) {
            return Err(ended(&exporter));
        }
        let hello = message(said::WELCOME, own.start);
        if let Err(error) = system::send(&connection, &hello, Some(descriptor.as_fd())) {
            return system::refused("sendmsg", &error);
        }
        watch.add(&connection)?;
        let added = process.descriptor().map_or(Ok(()), |fd| watch.add(fd));
        added.inspect_err(|_| watch.remove(&connection))?;
        let state = State {
            mappings: HashMap::new(),
            descriptors: Descriptors::default(),
            devices: Vec::new(),
            late: Vec::new(),
            closing: Vec::new(),
            closed: Vec::new(),
            is_short: false,
            is_released: false,
        };
        Ok(Arc::new(Link {
            exporter,
            capacity: record.capacity,
            has_numbers: record.has_numbers,
            process,
            has_ended: AtomicBool::new(false),
            page,
            state: Mutex::new(state),
            connection,
        }))
    }

    pub fn is_to(&self, record: &Record) -> bool {
        (self.exporter, self.capacity, self.has_numbers)
            == (record.identity, record.capacity, record.has_numbers)
    }

    /// Returns true once the exporter has written the generations of its slots.
    fn is_accepted(&self) -> bool {
        // Acquire: the generations were written before.
        let accepted = self.page.head().get(word::ACCEPTED);
        accepted.is_some_and(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Makes an array of a record, whose bytes behind the head are `rest`.
    pub fn import(self: &Arc<Self>, record: &Record, rest: &[u8]) -> Result<Array> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Err(ended(&self.exporter));
        }
        let (message, text) = &Message::read(rest)?;
        if record.allocations.1 != message.allocations.len() {
            return malformed("bytes", "another number of allocations");
        }
        if !self.is_accepted() {
            return pending(&self.exporter, "accepted the connection");
        }
        let claimed = self.claim(record)?;
        assemble(message, text, |is_readonly| {
            self.open(claimed, record, message, is_readonly).map_err(|failure| self.reason(failure))
        })
    }

    /// Replaces the driver's failure by its reason if the exporter ended after the last poll.
    #[cold]
    fn reason(&self, failure: Failure) -> Failure {
        let code = failure.details().map_or(0, |details| details.driver_code);
        if code != 0 && self.process.has_ended(false) {
            return ended(&self.exporter).driver(code);
        }
        explained(failure)
    }

    /// Claims the slot of a record, unless the export was withdrawn.
    fn claim(self: &Arc<Self>, record: &Record) -> Result<Claimed> {
        let slot = record.slot as usize;
        let words = (self.page.claims().get(slot), self.page.generations().get(slot));
        let (Some(claims), Some(generation)) = words else {
            return malformed("bytes", "a slot that the channel does not have");
        };
        claims.fetch_add(1, Ordering::Relaxed);
        let claim = Claim { slot: record.slot, device: None, allocations: Allocations::default() };
        let claimed = Claimed { link: self.clone(), claim };
        // The exporter writes the generation and then looks at the claims; this does the reverse.
        fence(Ordering::SeqCst);
        let found = generation.load(Ordering::Acquire);
        if found != record.generation || found == 0 {
            return fail!(CAI_ERR_IPC_SLOT, "bytes";
                found "export {} of slot {slot}", record.generation;
                expected "one that is not withdrawn, and the bytes that its exporter wrote");
        }
        Ok(claimed)
    }

    /// Opens the memory of a record, and lets the stream wait for the exporter's.
    fn open(
        &self,
        mut claimed: Claimed,
        record: &Record,
        message: &Message<Raw>,
        is_readonly: bool,
    ) -> Result<Opened<Claimed>> {
        let mut places = List::new();
        let claim = &mut claimed.claim;
        let (mut stream, mut event) = (abi::CAI_STREAM_NONE, ptr::null_mut());
        let mut state = Observed::lock(&self.state);
        let state = &mut *state;
        if record.allocations.1 > 0 {
            let thread = &CallingThread::new(driver::driver()?);
            let mut first = None;
            for (number, from) in record.allocations.all().iter().zip(message.allocations.iter()) {
                let mapping = state.mapping(thread, record, *number, from)?;
                if mapping.size != from.size {
                    return malformed("bytes", "an allocation of another size");
                }
                places.push(mapping.place)?;
                first.get_or_insert(mapping.place.device);
                mapping.arrays += 1;
                claim.allocations.push(*number)?;
            }
            let id = first.ok_or_else(Failure::internal)?;
            let index = self.device(thread, &mut state.devices, id, message.event)?;
            claim.device = Some(index);
            let device = state.devices.get_mut(index).ok_or_else(Failure::internal)?;
            stream = device.shared.value();
            if let Some(handle) = message.event {
                let waited = self.wait(thread, device, record, handle)?;
                // Readers of a read-only array need not wait for each other.
                event = if is_readonly { waited } else { event };
            }
        }
        Ok(Opened { places, stream, event, keep: claimed })
    }

    /// Returns the index of a device, which gets a stream and a done event the first time.
    fn device(
        &self,
        thread: &CallingThread,
        devices: &mut Vec<Device>,
        id: i32,
        handle: Option<[u8; 64]>,
    ) -> Result<usize> {
        if let Some(known) = devices.iter().position(|device| device.shared.device() == id) {
            return Ok(known);
        }
        let index = devices.len();
        let from = word::DONE + index * word::DONE_SIZE;
        let words = self.page.head().get(from + 3..from + word::DONE_SIZE);
        let Some(words) = words.filter(|_| index < DEVICES) else {
            return fail!(CAI_ERR_IPC_FULL, "bytes";
                found "memory of more than {DEVICES} devices"; expected "{DEVICES} at most");
        };
        let (shared, numbers) = thread.relaxed(|| {
            let shared = SharedStream::new(thread, id, ptr::null_mut(), !self.has_numbers)?;
            let numbers = if self.has_numbers {
                Some(self.numbers(thread, id, index, handle)?)
            } else {
                None
            };
            Ok((shared, numbers))
        })?;
        let name = handle.filter(|_| self.has_numbers).unwrap_or(shared.handle);
        // Events begin with 0, which nobody has written.
        let first = self.page.head().get(from);
        let sequence = first.map_or(0, |word| word.load(Ordering::Relaxed));
        if sequence >= MOST_RECORDS {
            return malformed("bytes", "an impossible number");
        }
        for (to, from) in words.iter().zip(name.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(from);
            // Relaxed: the number of the first record is written later, with Release.
            to.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        let new = Device { shared, numbers, sequence, ready: [const { None }; READY] };
        memory::push(devices, new)?;
        Ok(index)
    }

    /// Opens the memory with numbers of a device, and returns the index of the one that is written
    /// here when a device's work is done.
    fn numbers(
        &self,
        thread: &CallingThread,
        id: i32,
        device: usize,
        handle: Option<[u8; 64]>,
    ) -> Result<(SharedMemory, usize)> {
        let Some(handle) = handle else { return malformed("bytes", "no handle of numbers") };
        let place = self.page.head().get(word::PLACE);
        let place = place.map_or(0, |word| word.load(Ordering::Relaxed)) as usize;
        let size = 8 * NUMBERS as u64;
        let from = Allocation { kind: MemoryKind::Plain, uuid: [0; 16], size, handle };
        let memory = SharedMemory::open(thread, id, &from, -1, &mut None)?;
        if Place::of(thread, &memory)?.size < size || place >= PEERS {
            return malformed("bytes", "numbers in another allocation");
        }
        Ok((memory, done(place, device)))
    }

    /// Lets the stream of a device wait for a ready event, unless it has. Returns the event.
    fn wait(
        &self,
        thread: &CallingThread,
        device: &mut Device,
        record: &Record,
        handle: [u8; 64],
    ) -> Result<*mut c_void> {
        let index = record.ready as usize;
        let Some(place) = device.ready.get_mut(index) else { return Err(Failure::internal()) };
        if place.is_none() {
            let event = match device.numbers {
                Some(_) => None,
                None => Some(thread.relaxed(|| device.shared.open(thread, handle))?),
            };
            *place = Some(Ready { handle, event, waited: 0 });
        }
        let Some(ready) = place else { return Err(Failure::internal()) };
        if ready.handle != handle {
            return malformed("bytes", "another ready event");
        }
        if ready.waited < record.sequence {
            // Acquire: the record that the number is of was made, so the wait includes it.
            let newest = self.page.head().get(word::READY + index);
            let newest = newest.map_or(0, |word| word.load(Ordering::Acquire));
            match (&ready.event, &device.numbers) {
                (Some(event), _) => device.shared.wait(thread, event)?,
                (None, Some((memory, _))) if newest < MOST_RECORDS => {
                    // The stream would wait for ever.
                    if self.process.has_ended(false) {
                        return Err(ended(&self.exporter));
                    }
                    device.shared.wait_for(thread, number(memory, index), newest)?;
                }
                _ => return malformed("bytes", "an impossible number"),
            }
            ready.waited = newest;
        }
        Ok(ready.event.as_ref().map_or(ptr::null_mut(), SharedEvent::as_ptr))
    }

    /// Gives a claim back, after the work on the stream. Returns it if the stream is being captured,
    /// or if the event cannot be recorded.
    fn give_back(self: &Arc<Self>, state: &mut State, claim: Claim) -> Option<Claim> {
        let device = claim.device.and_then(|index| state.devices.get_mut(index));
        let mut work = None;
        if let (Some(device), Some(index)) = (device, claim.device) {
            work = Some(WorkOn::new(&device.shared));
            if !self.has_ended.load(Ordering::Relaxed) {
                if device.record().is_err() {
                    return Some(claim);
                }
                device.sequence += 1;
                let word = self.page.head().get(word::DONE + index * word::DONE_SIZE);
                // Release: who reads the number finds the record.
                word.into_iter().for_each(|word| word.store(device.sequence, Ordering::Release));
            }
        }
        for number in claim.allocations.all() {
            let Some(mapping) = state.mappings.get_mut(number) else { continue };
            mapping.arrays -= 1;
            mapping.work = work.or(mapping.work);
            self.close(state, *number);
        }
        if let Some(claims) = self.page.claims().get(claim.slot as usize) {
            // Release: the exporter finds the number of the done event's record.
            claims.fetch_sub(1, Ordering::Release);
        }
        None
    }

    /// Closes an allocation that no array needs any more, which [`finish`](Self::finish) does after the
    /// work on it. Without memory, the next poll tries again.
    fn close(self: &Arc<Self>, state: &mut State, number: u64) {
        let Some(mapping) = state.mappings.get(&number) else { return };
        if mapping.arrays > 0 || !(mapping.is_retiring || state.is_released) {
            return;
        }
        let reserved = state.closing.try_reserve(1);
        let (Ok(()), Ok(mut place), Ok(prepared)) =
            (reserved, memory::boxed(None), owner::prepare())
        else {
            state.is_short = true;
            return;
        };
        let Some(Mapping { memory, work, .. }) = state.mappings.remove(&number) else { return };
        // Not dropped here, where the state is locked.
        *place = Some(Closing { memory: Some(memory), link: self.clone(), number });
        let owner = prepared.finish(None, Destructor::drops(place)).owner;
        state.closing.push((owner, work));
    }

    /// Closes all allocations that no array needs any more.
    fn close_idle(self: &Arc<Self>, state: &mut State) {
        state.is_short = false;
        let idle = |state: &State| {
            let is_idle = |it: &Mapping| it.arrays == 0 && (it.is_retiring || state.is_released);
            state.mappings.iter().find(|(_, it)| is_idle(it)).map(|(number, _)| *number)
        };
        while let Some(number) = idle(state).filter(|_| !state.is_short) {
            self.close(state, number);
        }
    }

    /// Does what must be done without the lock.
    fn finish(&self, mut state: Observed<State>) {
        self.tell(&mut state);
        let closing = std::mem::take(&mut state.closing);
        drop(state);
        for (owner, work) in closing {
            match work {
                None => drop(owner),
                Some(work) => work.release(owner),
            }
        }
    }

    /// Closes what no array uses, now and later.
    pub fn release(self: &Arc<Self>) {
        let mut state = Observed::lock(&self.state);
        self.retire_all(&mut state);
        self.finish(state);
    }

    fn retire_all(self: &Arc<Self>, state: &mut State) {
        state.is_released = true;
        state.descriptors = Descriptors::default();
        self.close_idle(state);
    }

    /// Reads the exporter's messages, and notices its end.
    pub fn poll(self: &Arc<Self>, watch: &Watch) {
        let mut state = Observed::lock(&self.state);
        let is_closed = self.listen(&mut state);
        if state.is_short {
            self.close_idle(&mut state);
        }
        if is_closed {
            watch.remove(&self.connection);
        }
        for claim in std::mem::take(&mut state.late) {
            if let Some(claim) = self.give_back(&mut state, claim) {
                keep_late(&mut state, claim);
            }
        }
        // A connection that was refused is made again by the next import.
        let is_refused = is_closed && !self.is_accepted();
        let has_ended = is_refused || self.process.has_ended(is_closed);
        if has_ended && !self.has_ended.load(Ordering::Relaxed) {
            self.process.descriptor().into_iter().for_each(|fd| watch.remove(fd));
            watch.remove(&self.connection);
            self.has_ended.store(true, Ordering::Relaxed);
            state.devices.iter().for_each(|device| lost_streams::add(device.shared.value()));
            state.devices.iter().for_each(Device::let_go);
            self.retire_all(&mut state);
        }
        self.finish(state);
    }

    fn retire(self: &Arc<Self>, state: &mut State, number: u64) {
        state.descriptors.forget(number);
        let Some(mapping) = state.mappings.get_mut(&number) else {
            return note_closed(state, number);
        };
        mapping.is_retiring = true;
        self.close(state, number);
    }

    /// Tells the exporter what was closed and what is needed, as far as the connection takes it.
    fn tell(&self, state: &mut State) {
        if self.has_ended.load(Ordering::Relaxed) {
            return state.closed.clear();
        }
        while let Some(number) = state.closed.last() {
            if system::send(&self.connection, &message(said::CLOSED, *number), None).is_err() {
                return;
            }
            state.closed.pop();
        }
        state.descriptors.ask(&self.connection);
    }

    /// Returns true for a connection to a process that has ended, and which no array uses.
    pub fn is_over(link: &Arc<Link>) -> bool {
        link.has_ended.load(Ordering::Relaxed) && Arc::strong_count(link) == 1
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Not locked: in a child of fork, a thread that does not exist there may hold the lock.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        observer::notify_after((&raw const *state).cast());
        for device in &mut state.devices {
            let stream = device.shared.value();
            // A stream with the same handle may follow.
            lost_streams::remove(stream);
            let Some((memory, _)) = device.numbers.take() else { continue };
            match (memory::boxed(None), owner::prepare()) {
                (Ok(mut place), Ok(prepared)) if !driver::is_forked() => {
                    *place = Some(memory);
                    let owner = prepared.finish(None, Destructor::drops(place)).owner;
                    // The stream writes the last number.
                    WorkOn::new(&device.shared).release(owner);
                }
                // It stays open.
                _ => std::mem::forget(memory),
            }
        }
    }
}

/// Keeps a claim for later. Without memory, it is never given back.
fn keep_late(state: &mut State, claim: Claim) {
    let _ = memory::push(&mut state.late, claim);
}

fn note_closed(state: &mut State, number: u64) {
    let _ = memory::push(&mut state.closed, number);
}

/// The failure for what the exporter has not done yet.
#[cold]
fn pending<T>(exporter: &Identity, done: &str) -> Result<T> {
    fail!(CAI_ERR_IPC_PENDING, "bytes";
        found "process {}, which has not {done} yet", exporter.pid;
        expected "a call of cai_unstable_channel_poll there: wait for the descriptor of this channel, \
            and import again")
}

/// A claim to a slot, which is given back when this is dropped: with the array.
struct Claimed {
    link: Arc<Link>,
    claim: Claim,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        // In a child of fork, the claim is that of the parent.
        if driver::is_forked() {
            return;
        }
        let mut state = Observed::lock(&self.link.state);
        if let Some(claim) = self.link.give_back(&mut state, self.claim) {
            keep_late(&mut state, claim);
        }
        self.link.finish(state);
    }
}

/// An allocation that is closed when this is dropped.
struct Closing {
    memory: Option<SharedMemory>,
    link: Arc<Link>,
    number: u64,
}

impl Drop for Closing {
    fn drop(&mut self) {
        drop(self.memory.take());
        let mut state = Observed::lock(&self.link.state);
        note_closed(&mut state, self.number);
        self.link.tell(&mut state);
    }
}
