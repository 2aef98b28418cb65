//! Streams of an exporter, and what they wait for: the work of each importer.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::system::{self, Page, Process, Socket};
use super::{DEVICES, MOST_RECORDS, PEERS, done, word};
use crate::abi::{cai_array, cai_stream};
use crate::driver::{CallingThread, Capture, Numbers, SharedEvent, SharedStream, Stream};
use crate::error::{Result, fail};

/// Properties that the arrays of one ready event share.
#[derive(Clone, Copy, PartialEq)]
pub struct Origin {
    /// Stream, id and context of the array.
    pub stream: (cai_stream, u64, usize),
    /// Context and device of the memory. That of pools has no context.
    pub memory: (usize, i32),
}

/// A stream with a ready event, or with a number.
pub struct Ready {
    pub of: Origin,
    /// The stream is that of the arrays, not one of the library.
    pub is_direct: bool,
    pub shared: SharedStream,
    /// Place of the numbers, if there are no events.
    pub numbers: Option<usize>,
    pub sequence: u64,
    /// The stream waits for work that the stream of the arrays does not wait for yet.
    pub is_ahead: bool,
    /// Number of the record of each importer's done events that the stream has waited for.
    pub waited: Box<[[u64; DEVICES]; PEERS]>,
}

impl Ready {
    /// Records the event, or writes the number, after the work of the stream.
    pub fn record(&mut self, thread: &CallingThread, index: usize, all: &[Numbers]) -> Result<()> {
        match self.numbers.and_then(|place| all.get(place)) {
            Some(numbers) => {
                self.shared.write(thread, numbers.address(index), self.sequence + 1)?;
            }
            None => self.shared.record(thread)?,
        }
        self.sequence += 1;
        Ok(())
    }

    /// Lets the stream wait for the newest records of all done events. `direct`: an array whose stream
    /// it is.
    pub fn wait(
        &mut self,
        thread: &CallingThread,
        importers: &mut [Option<Importer>],
        numbers: &[Numbers],
        direct: Option<&cai_array>,
    ) -> Result<()> {
        let pairs = importers.iter_mut().zip(self.waited.iter_mut());
        for (bit, (importer, waited)) in pairs.enumerate() {
            let Some(importer) = importer else { continue };
            for (device, waited) in waited.iter_mut().enumerate() {
                let words = importer.page.head().get(word::DONE + device * word::DONE_SIZE..);
                let Some([newest, _, _, handle @ ..]) = words else { break };
                // Acquire: the record that the number is of was made.
                let newest = newest.load(Ordering::Acquire);
                if newest <= *waited {
                    continue;
                }
                if importer.process.has_ended(importer.connection.is_none()) {
                    break;
                }
                let Some(event) = importer.done.get_mut(device) else { break };
                let mut name = [0; 64];
                if event.is_none() {
                    for (to, from) in name.chunks_exact_mut(8).zip(handle) {
                        to.copy_from_slice(&from.load(Ordering::Relaxed).to_le_bytes());
                    }
                }
                if self.numbers.is_some() {
                    let found = numbers.iter().find(|numbers| numbers.handle == name);
                    let Some(found) = found.filter(|_| newest < MOST_RECORDS) else { break };
                    direct.map_or(Ok(()), |array| check_live(thread, array))?;
                    self.shared.wait_for(thread, found.address(done(bit, device)), newest)?;
                    (*waited, self.is_ahead) = (newest, true);
                    continue;
                }
                if event.is_none() {
                    *event = Some(thread.relaxed(|| self.shared.open(thread, name))?);
                }
                if let Some(event) = event {
                    direct.map_or(Ok(()), |array| check_live(thread, array))?;
                    self.shared.wait(thread, event)?;
                    (*waited, self.is_ahead) = (newest, true);
                }
            }
        }
        Ok(())
    }
}

/// Returns the stream of an array, which is a handle.
pub fn stream_of(array: &cai_array) -> Stream {
    Stream::from_handle(array.stream, array.stream_id)
}

/// Returns the stream of an array, as [`Origin`] has it.
pub fn origin_of(array: &cai_array) -> (cai_stream, u64, usize) {
    (array.stream, array.stream_id, array.context.addr())
}

/// Fails if the stream of an array, a handle, is being captured or is another one by now.
pub fn check_live(thread: &CallingThread, array: &cai_array) -> Result<()> {
    let stream = stream_of(array);
    if stream.capture_here(thread)? != Capture::None {
        return fail!(CAI_ERR_CAPTURE_PRODUCER, "stream";
            found "a stream that is being captured";
            expected "a stream outside of a capture, whose events mean nothing elsewhere");
    }
    if stream.has_id() { stream.check_id(thread) } else { Ok(()) }
}

/// A process that imports.
pub struct Importer {
    pub connection: Option<Socket>,
    pub process: Process,
    pub page: Page,
    pub done: Box<[Option<SharedEvent>; DEVICES]>,
}

impl Importer {
    pub fn claims(&self, slot: usize) -> u32 {
        self.page.claims().get(slot).map_or(0, |claims| claims.load(Ordering::Acquire))
    }
}

/// Sets the generation of a slot in an importer's page.
pub fn publish(page: &Page, slot: u32, generation: u32) {
    if let Some(word) = page.generations().get(slot as usize) {
        // Release: who reads it finds the records of the ready events before.
        word.store(generation, Ordering::Release);
    }
}

/// Sends a message to some importers, perhaps with a descriptor, and returns those to which it was
/// sent.
pub fn tell(
    importers: &[Option<Importer>],
    mask: u64,
    message: [u8; 16],
    descriptor: Option<BorrowedFd>,
) -> u64 {
    let mut sent = 0;
    for (bit, importer) in importers.iter().enumerate() {
        let connection = importer.as_ref().and_then(|importer| importer.connection.as_ref());
        if let Some(connection) = connection.filter(|_| mask >> bit & 1 == 1) {
            sent |= u64::from(system::send(connection, &message, descriptor).is_ok()) << bit;
        }
    }
    sent
}
