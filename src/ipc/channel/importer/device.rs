//! The stream of an importer's arrays on one device, and its order with the exporter's streams.

use super::super::{MOST_RECORDS, READY};
use crate::driver::{
    self, CallingThread, Capture, SharedEvent, SharedMemory, SharedStream, Stream,
};
use crate::error::{Failure, Result};

/// A ready event of the exporter, or a number.
pub struct Ready {
    pub handle: [u8; 64],
    pub event: Option<SharedEvent>,
    /// Number of the newest record that the stream has certainly waited for.
    pub waited: u64,
}

/// Stream of the arrays of one device, and its done event.
pub struct Device {
    pub shared: SharedStream,
    /// Memory of the exporter with numbers, if there are no events, and the index of the one that is
    /// written here.
    pub numbers: Option<(SharedMemory, usize)>,
    /// Number of the done event's newest record.
    pub sequence: u64,
    pub ready: [Option<Ready>; READY],
}

impl Device {
    /// Records the done event, or writes the number, unless the stream is being captured.
    pub fn record(&self) -> Result<()> {
        let thread = &CallingThread::new(driver::driver()?);
        if Stream::from_handle(self.shared.value(), 0).capture_here(thread)? != Capture::None {
            return Err(Failure::internal());
        }
        match &self.numbers {
            None => self.shared.record(thread),
            Some((memory, index)) => {
                self.shared.write(thread, number(memory, *index), self.sequence + 1)
            }
        }
    }

    /// Writes the numbers that the stream may wait for, which nobody else writes any more. All
    /// importers write the same one.
    pub fn let_go(&self) {
        let Some((memory, _)) = &self.numbers else { return };
        for index in 0..READY {
            if self.ready.get(index).is_some_and(Option::is_some) {
                let _ = memory.write_number(number(memory, index), MOST_RECORDS);
            }
        }
    }
}

/// Returns the address of a number of the exporter.
pub fn number(memory: &SharedMemory, index: usize) -> u64 {
    memory.base() + 8 * index as u64
}
