//! The exporter's side: slots, ready events, and what importers still use.

mod descriptors;
mod peers;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, fence};

use super::ready::{Importer, Origin, Ready, check_live, origin_of, publish, stream_of, tell};
use super::system::{Identity, Socket, Watch};
use super::{
    Allocations, DEVICES, DIRECT, HEAD, NUMBERS, PEERS, READY, Record, message, said, word,
};
use crate::abi::{
    self, CAI_STREAM_NONE, CAI_STREAM_PER_THREAD, CAI_STREAM_UNKNOWN, cai_array, cai_pointer_info,
};
use crate::argument::Buffer;
use crate::driver::{self, CallingThread, Numbers, SharedStream};
use crate::error::{Failure, Result, fail};
use crate::ipc::bytes::ARRAYS;
use crate::ipc::{Found, Source, allocation};
use crate::memory;
use crate::owner::Array;
use crate::read::Given;
use crate::sync::consume::{self, Phase};
use crate::sync::release_in_order::WorkOn;
use crate::validate::Valid;
use descriptors::Descriptors;

/// An allocation with exported arrays. Its number is new each time, also at the same address.
struct Allocation {
    number: u64,
    info: cai_pointer_info,
    uuid: [u8; 16],
    handle: [u8; 64],
    /// Number of the descriptor, or 0.
    descriptor: u64,
    exports: u32,
}

/// Allocations of an array and its masks.
#[derive(Default)]
struct Buffers {
    keys: Allocations,
    numbers: Allocations,
    /// Number of the pool that memory is of, or 0.
    pool: u64,
}

/// An array that was exported, and where.
struct Export {
    array: Array,
    ready: Option<usize>,
    sequence: u64,
    /// Keys of the allocations.
    allocations: Allocations,
    key: u64,
    is_withdrawn: bool,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    export: Option<Export>,
}

/// An allocation whose last array is released once the importers have closed it.
struct Retiring {
    number: u64,
    unsent: u64,
    open: u64,
    array: Array,
    after: Option<WorkOn>,
}

/// Arrays to release, outside of the lock: that runs code of others.
#[derive(Default)]
pub struct Due(Vec<(Array, Option<WorkOn>)>);

impl Due {
    /// Returns true if there is memory for one more.
    fn has_room(&mut self) -> bool {
        self.0.try_reserve(1).is_ok()
    }

    pub fn release(self) {
        for (array, after) in self.0 {
            match after {
                None => drop(array),
                Some(work) => work.release(array.into_owner()),
            }
        }
    }
}

pub struct Exports {
    identity: Identity,
    capacity: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    withdrawn: Vec<u32>,
    keys: HashMap<u64, u32>,
    /// By the driver's number of the buffer.
    allocations: HashMap<u64, Allocation>,
    last_number: u64,
    descriptors: Descriptors,
    ready: Vec<Ready>,
    /// Of each device, if streams wait for numbers and not for events.
    numbers: Vec<Numbers>,
    has_numbers: bool,
    /// They stay until the process ends: an importer may have them open, or a stream write one.
    are_kept: bool,
    /// By their bit. No longer than needed, because each export goes through it.
    importers: Vec<Option<Importer>>,
    /// Connections whose first message has not come yet.
    strangers: Vec<Socket>,
    retiring: Vec<Retiring>,
}

// SAFETY: the pointers in it are those of arrays whose owners it holds, and handles of the driver,
// which are those of the process.
unsafe impl Send for Exports {}

impl Exports {
    pub fn new(identity: Identity, capacity: u32, has_numbers: bool) -> Exports {
        Exports {
            identity,
            capacity,
            slots: Vec::new(),
            free: Vec::new(),
            withdrawn: Vec::new(),
            keys: HashMap::new(),
            allocations: HashMap::new(),
            last_number: 0,
            descriptors: Descriptors::default(),
            ready: Vec::new(),
            numbers: Vec::new(),
            has_numbers,
            are_kept: false,
            importers: Vec::new(),
            strangers: Vec::new(),
            retiring: Vec::new(),
        }
    }

    /// Number of exports that were not released yet.
    pub fn left(&self) -> u64 {
        (self.slots.len() - self.free.len() + self.retiring.len()) as u64
    }

    pub fn export(
        &mut self,
        key: u64,
        array: Valid,
        out: &mut Buffer<u8>,
        watch: &Watch,
        due: &mut Due,
    ) -> Result<(u64, usize)> {
        if self.free.is_empty() && self.slots.len() == self.capacity as usize {
            self.collect(watch, due);
        }
        let done = self.write(key, array, out);
        let done = done.map_err(crate::ipc::explained);
        if done.is_err() {
            self.allocations.retain(|_, allocation| {
                let is_used = allocation.exports > 0;
                if !is_used {
                    self.descriptors.leave(allocation.descriptor);
                }
                is_used
            });
        }
        done
    }

    fn write(&mut self, key: u64, array: Valid, out: &mut Buffer<u8>) -> Result<(u64, usize)> {
        let known = if key == 0 { None } else { self.keys.get(&key).copied() };
        let mut buffers = Buffers::default();
        let mut source = self.source(array, &mut buffers)?;
        let (length, size) = (HEAD + 8 * source.places.len() + source.length, out.size());
        if size < length {
            return fail!(CAI_ERR_BUFFER_SIZE, "size"; found "{size}"; expected "at least {length}");
        }
        let slot = match known {
            Some(slot) => self.same(slot, key, &source, &buffers.keys)?,
            None => self.add(key, &source, buffers.keys)?,
        };
        let generation = self.put(slot, &mut source, &buffers, out)?;
        Ok((u64::from(generation) << 32 | u64::from(slot), length))
    }

    /// Describes an array. `buffers` gets its allocations.
    fn source<'a>(&mut self, array: Valid<'a>, buffers: &mut Buffers) -> Result<Source<'a>> {
        let (identity, all) = (&self.identity, &mut self.allocations);
        let (last_number, descriptors) = (&mut self.last_number, &mut self.descriptors);
        let source = Source::with(array, &mut |array| {
            let (key, known) = find(identity, all, last_number, descriptors, array)?;
            if !buffers.keys.all().contains(&key) {
                buffers.keys.push(key)?;
                buffers.numbers.push(known.number)?;
                if !known.info.pool.is_null() {
                    buffers.pool = known.descriptor;
                }
            }
            Ok(Found { info: known.info, uuid: known.uuid, handle: known.handle })
        });
        let mut source = source?;
        // The way back needs a number of this array's device also without pending work.
        if self.has_numbers && source.first.is_some() && source.message.event.is_none() {
            source.message.event = Some([0; 64]);
            source.length = source.message.length(source.text);
        }
        Ok(source)
    }

    /// Returns the slot of an array that was exported with this key before.
    fn same(&self, slot: u32, key: u64, source: &Source, buffers: &Allocations) -> Result<u32> {
        let before = self.slots.get(slot as usize).and_then(|slot| slot.export.as_ref());
        let array = &source.array;
        let is_same = before.is_some_and(|before| {
            before.array.owner == array.owner
                && before.array.data == array.data
                && before.allocations == *buffers
                && (before.sequence > 0) == source.message.event.is_some()
        });
        if is_same {
            return Ok(slot);
        }
        fail!(CAI_ERR_IPC_SLOT, "key";
            found "{key}, of another array";
            expected "the array that was exported with it, until it is withdrawn")
    }

    /// Records the ready event, and gives an array a slot.
    fn add(&mut self, key: u64, source: &Source, allocations: Allocations) -> Result<u32> {
        let full = self.free.is_empty() && self.slots.len() == self.capacity as usize;
        if full {
            return fail!(CAI_ERR_IPC_FULL, "channel";
                found "{} exports", self.capacity;
                expected "a free slot: withdraw exports, or create the channel with more slots");
        }
        // Neither can fail when the slot is withdrawn and freed.
        let all = self.slots.len() + usize::from(self.free.is_empty());
        for list in [&mut self.withdrawn, &mut self.free] {
            let missing = all.saturating_sub(list.len());
            list.try_reserve(missing).map_err(|_| Failure::no_memory(4 * missing))?;
        }
        self.keys.try_reserve(1).map_err(|_| Failure::no_memory(16))?;
        if self.free.is_empty() {
            memory::push(&mut self.slots, Slot::default())?;
            self.free.push(self.slots.len() as u32 - 1);
        }
        let (mut ready, mut sequence) = (None, 0);
        if let Some(first) = &source.first {
            let index = self.ready_of(first, source)?;
            ready = Some(index);
            sequence = self.record(index, source)?;
        }
        let owner = source.array.retain()?;
        let array = Array::new(*source.array, owner);
        let Some(slot) = self.free.pop() else { return Err(Failure::internal()) };
        let place = self.slots.get_mut(slot as usize).ok_or_else(Failure::internal)?;
        for id in allocations.all() {
            if let Some(known) = self.allocations.get_mut(id) {
                known.exports += 1;
            }
        }
        place.generation = place.generation.checked_add(1).unwrap_or(1);
        let generation = place.generation;
        place.export =
            Some(Export { array, ready, sequence, allocations, key, is_withdrawn: false });
        if key != 0 {
            self.keys.insert(key, slot);
        }
        for importer in self.importers.iter().flatten() {
            publish(&importer.page, slot, generation);
        }
        Ok(slot)
    }

    /// Returns the index of the stream with a ready event for an array.
    fn ready_of(&mut self, first: &cai_array, source: &Source) -> Result<usize> {
        let info = source.places.get(0).ok_or_else(Failure::internal)?;
        let memory = (info.context.addr(), info.device.id);
        let of = Origin { stream: origin_of(first), memory };
        let known = |direct| {
            self.ready.iter().position(|ready| ready.of == of && ready.is_direct == direct)
        };
        let direct = source.message.parts.len() == 1
            && first.version >= 3
            && (CAI_STREAM_PER_THREAD + 1..CAI_STREAM_UNKNOWN).contains(&first.stream)
            && (self.ready.len() < DIRECT || known(true).is_some());
        if let Some(known) = known(direct) {
            return Ok(known);
        }
        if self.ready.len() == READY {
            // Streams that share an event wait for each other's work.
            let fits = |ready: &Ready| !ready.is_direct && ready.of.memory == memory;
            let shared = self.ready.iter().enumerate().filter(|(_, ready)| fits(ready));
            let count = shared.clone().count().max(1);
            let place = (first.stream >> 4) as usize % count;
            if let Some((index, _)) = shared.clone().nth(place) {
                return Ok(index);
            }
            return fail!(CAI_ERR_IPC_FULL, "channel";
                found "{READY} streams of other contexts"; expected "a channel for each context");
        }
        self.add_ready(of, direct.then_some(first))
    }

    /// Adds a ready event, on the stream of an array or on one of the library.
    fn add_ready(&mut self, of: Origin, direct: Option<&cai_array>) -> Result<usize> {
        let (context, device) = of.memory;
        let thread = &CallingThread::new(driver::driver()?);
        let has_event = !self.has_numbers;
        let shared = thread.relaxed(|| match direct {
            Some(array) => SharedStream::of(thread, device, &stream_of(array), has_event),
            None => SharedStream::new(thread, device, context as *mut _, has_event),
        })?;
        let numbers = match has_event {
            true => None,
            false => Some(self.numbers_of(thread, &shared)?),
        };
        let waited = memory::boxed([[0; DEVICES]; PEERS])?;
        let is_direct = direct.is_some();
        let new = Ready { of, is_direct, shared, numbers, sequence: 0, is_ahead: false, waited };
        memory::push(&mut self.ready, new)?;
        Ok(self.ready.len() - 1)
    }

    /// Returns the place of the numbers of a stream's device.
    fn numbers_of(&mut self, thread: &CallingThread, stream: &SharedStream) -> Result<usize> {
        let device = stream.device();
        let known = self.numbers.iter().position(|numbers| numbers.device() == device);
        if let Some(known) = known {
            return Ok(known);
        }
        let new = thread.relaxed(|| Numbers::new(thread, device, stream.context(), NUMBERS))?;
        memory::push(&mut self.numbers, new)?;
        Ok(self.numbers.len() - 1)
    }

    /// Records the ready event after the work that is pending on an array, if there may be any.
    fn record(&mut self, index: usize, source: &Source) -> Result<u64> {
        if source.message.event.is_none() {
            return Ok(0);
        }
        let ready = self.ready.get_mut(index).ok_or_else(Failure::internal)?;
        let thread = &CallingThread::new(driver::driver()?);
        if ready.is_direct {
            check_live(thread, &source.array)?;
        } else {
            let (array, stream) = (source.array.unchecked(), ready.shared.value());
            // In the caller's context, which a default stream of the array may be of.
            consume::exchange_all_work(Phase::Begin, array, stream, abi::CAI_ACCESS_READ)?;
        }
        ready.record(thread, index, &self.numbers)?;
        self.are_kept |= self.has_numbers;
        for importer in self.importers.iter().flatten() {
            let newest = importer.page.head().get(word::READY + index);
            // Release: who reads the number finds the record.
            newest.into_iter().for_each(|word| word.store(ready.sequence, Ordering::Release));
        }
        Ok(ready.sequence)
    }

    /// Writes the record of a slot, and returns its generation.
    fn put(
        &self,
        slot: u32,
        source: &mut Source,
        buffers: &Buffers,
        out: &mut Buffer<u8>,
    ) -> Result<u32> {
        let place = self.slots.get(slot as usize);
        let found = place.and_then(|place| Some((place.generation, place.export.as_ref()?)));
        let (generation, export) = found.ok_or_else(Failure::internal)?;
        let ready = export.ready.and_then(|index| self.ready.get(index));
        source.message.event = ready.filter(|_| export.sequence > 0).map(|ready| {
            let numbers = ready.numbers.and_then(|place| self.numbers.get(place));
            numbers.map_or(ready.shared.handle, |numbers| numbers.handle)
        });
        let record = Record {
            identity: self.identity,
            capacity: self.capacity,
            slot,
            generation,
            ready: export.ready.unwrap_or_default() as u32,
            sequence: export.sequence,
            has_numbers: self.has_numbers,
            pool: buffers.pool,
            allocations: buffers.numbers,
        };
        record.write(source.length, out);
        source.write(out);
        Ok(generation)
    }

    /// Lets nobody import an export any more. It is released once no importer has it.
    pub fn withdraw(&mut self, export: u64, due: &mut Due) -> Result<()> {
        let (slot, generation) = (export as u32, (export >> 32) as u32);
        let place = self.slots.get_mut(slot as usize);
        let found = place.filter(|place| place.generation == generation && generation != 0);
        let found = found.and_then(|place| place.export.as_mut());
        let Some(found) = found.filter(|export| !export.is_withdrawn) else {
            return fail!(CAI_ERR_IPC_SLOT, "export";
                found "{export:#x}"; expected "an export of this channel that is not withdrawn");
        };
        found.is_withdrawn = true;
        if found.key != 0 {
            self.keys.remove(&found.key);
        }
        for importer in self.importers.iter().flatten() {
            publish(&importer.page, slot, 0);
        }
        // An importer claims the slot and then looks at the generation; this does the reverse.
        fence(Ordering::SeqCst);
        if !self.finish(slot, due) {
            // Reserved by `add`.
            self.withdrawn.push(slot);
        }
        Ok(())
    }

    /// Releases a withdrawn export if no importer has it. Returns false if one has, if the order of
    /// its work is not known yet, or without memory.
    fn finish(&mut self, slot: u32, due: &mut Due) -> bool {
        let index = slot as usize;
        if !due.has_room() || self.retiring.try_reserve(ARRAYS).is_err() {
            return false;
        }
        if self.importers.iter().flatten().any(|importer| importer.claims(index) > 0) {
            return false;
        }
        let Ok(after) = self.order(index) else { return false };
        let export = self.slots.get_mut(index).and_then(|slot| slot.export.take());
        let Some(Export { array, allocations, .. }) = export else { return true };
        // Reserved by `add`.
        self.free.push(slot);
        let mut open = 0_u64;
        for (bit, importer) in self.importers.iter().enumerate() {
            open |= u64::from(importer.as_ref().is_some_and(|it| it.connection.is_some())) << bit;
        }
        for id in allocations.all() {
            let Some(known) = self.allocations.get_mut(id) else { continue };
            known.exports -= 1;
            if known.exports > 0 {
                continue;
            }
            let number = known.number;
            self.descriptors.leave(known.descriptor);
            self.allocations.remove(id);
            if open != 0 {
                // Each allocation holds the array until the importers have closed it.
                let Ok(kept) = array.another() else {
                    std::mem::forget(array);
                    return true;
                };
                self.retiring.push(Retiring { number, unsent: open, open, array: kept, after });
            }
        }
        due.0.push((array, after));
        true
    }

    /// Lets the stream of an exported array wait for what importers did with it. Returns the stream
    /// after whose work the array must be released, if its own cannot wait.
    fn order(&mut self, slot: usize) -> Result<Option<WorkOn>> {
        let export = self.slots.get(slot).and_then(|slot| slot.export.as_ref());
        let Some((export, index)) = export.and_then(|it| Some((it, it.ready?))) else {
            return Ok(None);
        };
        let Some(ready) = self.ready.get_mut(index) else { return Ok(None) };
        let thread = &CallingThread::new(driver::driver()?);
        let array = &export.array;
        if ready.is_direct {
            let done = ready.wait(thread, &mut self.importers, &self.numbers, Some(array));
            let Err(failure) = done else { return Ok(None) };
            if failure.status() == abi::CAI_ERR_CAPTURE_PRODUCER {
                return Err(failure);
            }
            // The stream was destroyed: one of the library takes its place.
            let of = Origin { stream: (0, 0, 0), ..ready.of };
            let known = self.ready.iter().position(|ready| ready.of == of);
            let index = known.map_or_else(|| self.add_ready(of, None), Ok)?;
            let Some(ready) = self.ready.get_mut(index) else { return Ok(None) };
            ready.wait(thread, &mut self.importers, &self.numbers, None)?;
            return Ok(Some(WorkOn::new(&ready.shared)));
        }
        ready.wait(thread, &mut self.importers, &self.numbers, None)?;
        let after = Some(WorkOn::new(&ready.shared));
        // The per-thread default stream may be that of another thread.
        if matches!(array.stream, CAI_STREAM_NONE | CAI_STREAM_UNKNOWN | CAI_STREAM_PER_THREAD) {
            return Ok(after.filter(|_| ready.is_ahead));
        }
        // Masks may have streams of their own.
        let is_alone = array.mask.is_null() && ready.of.stream == origin_of(array);
        if is_alone && !ready.is_ahead {
            return Ok(None);
        }
        // SAFETY: the export's owner keeps alive all that the array refers to.
        let given = unsafe { Given::new(&raw const **array) };
        let mut scratch = MaybeUninit::uninit();
        let given = given.unchecked(&mut scratch)?;
        let access = consume::access(&given);
        match consume::exchange(Phase::End, given, ready.shared.value(), access) {
            Ok(()) => {
                ready.is_ahead &= !is_alone;
                Ok(None)
            }
            // The stream was destroyed, or is being captured.
            Err(_) => Ok(after),
        }
    }

    /// Releases what can be released by now.
    pub fn collect(&mut self, watch: &Watch, due: &mut Due) {
        self.listen(watch);
        self.descriptors.send(&self.importers);
        let mut place = 0;
        while let Some(&slot) = self.withdrawn.get(place) {
            if self.finish(slot, due) {
                self.withdrawn.swap_remove(place);
            } else {
                place += 1;
            }
        }
        let mut place = 0;
        while let Some(retiring) = self.retiring.get_mut(place) {
            let retire = message(said::RETIRE, retiring.number);
            retiring.unsent &= !tell(&self.importers, retiring.unsent, retire, None);
            if retiring.open == 0 && due.has_room() {
                let Retiring { array, after, .. } = self.retiring.swap_remove(place);
                due.0.push((array, after));
            } else {
                place += 1;
            }
        }
    }

    /// Releases everything that no importer has; the rest is kept until the process ends.
    pub fn end(&mut self, watch: &Watch, due: &mut Due) {
        for slot in 0..self.slots.len() as u32 {
            let place = self.slots.get(slot as usize);
            let live = place.and_then(|place| Some((place.generation, place.export.as_ref()?)));
            if let Some((generation, false)) = live.map(|(it, export)| (it, export.is_withdrawn)) {
                let _ = self.withdraw(u64::from(generation) << 32 | u64::from(slot), due);
            }
        }
        self.collect(watch, due);
        for export in self.slots.iter_mut().filter_map(|slot| slot.export.take()) {
            std::mem::forget(export.array);
        }
        self.retiring.drain(..).for_each(|retiring| std::mem::forget(retiring.array));
        if self.are_kept {
            std::mem::take(&mut self.numbers).into_iter().for_each(std::mem::forget);
        }
    }
}

/// Returns the allocation of an array, with its key, which is added if it is new.
fn find<'a>(
    identity: &Identity,
    all: &'a mut HashMap<u64, Allocation>,
    last_number: &mut u64,
    descriptors: &mut Descriptors,
    array: &Valid,
) -> Result<(u64, &'a Allocation)> {
    let driver = driver::driver()?;
    let key = driver::buffer_id(driver, array.data)?;
    all.try_reserve(1).map_err(|_| Failure::no_memory(size_of::<Allocation>()))?;
    let place = match all.entry(key) {
        Entry::Occupied(known) => return Ok((key, known.into_mut())),
        Entry::Vacant(place) => place,
    };
    // A child of fork has no allocation that is known.
    identity.check_process()?;
    let info = allocation(array)?;
    *last_number += 1;
    let number = *last_number;
    let thread = &CallingThread::new(driver);
    let (uuid, (handle, descriptor)) = thread.relaxed(|| {
        let uuid = driver::uuid_of(thread, info.device.id)?;
        Ok((uuid, descriptors.export(thread, &info, number, last_number)?))
    })?;
    Ok((key, place.insert(Allocation { number, info, uuid, handle, descriptor, exports: 0 })))
}
