//! Importers come, say that they have closed an allocation, and end.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::super::ready::{Importer, Ready, publish};
use super::super::system::{self, Page, Process, Received, Watch};
use super::super::{DEVICES, PEERS, done, message, parse, said, word};
use super::Exports;
use crate::error::{Result, fail};
use crate::memory;

impl Exports {
    /// Reads the messages of importers, and notices those that ended.
    pub fn listen(&mut self, watch: &Watch) {
        for (bit, place) in self.importers.iter_mut().enumerate() {
            let Some(importer) = place else { continue };
            let mut is_closed = importer.connection.is_none();
            while let Some(connection) = &importer.connection {
                let mut bytes = [0; 16];
                match system::receive(connection, &mut bytes) {
                    Received::Nothing => break,
                    Received::End => {
                        is_closed = true;
                        watch.remove(connection);
                        importer.connection = None;
                    }
                    Received::Message(size, _) => {
                        let (word, number) = bytes.get(..size).and_then(parse).unwrap_or_default();
                        if word == said::WANTED {
                            self.descriptors.want(number, bit);
                        }
                        let retiring = self.retiring.iter_mut();
                        retiring
                            .filter(|retiring| word == said::CLOSED && retiring.number == number)
                            .for_each(|retiring| retiring.open &= !(1 << bit));
                    }
                }
            }
            let is_idle = || {
                let claims = importer.page.claims().iter();
                claims.map(|claims| claims.load(Ordering::Acquire)).all(|count| count == 0)
            };
            // A process that lives may have closed its connection while it uses arrays.
            let is_over = importer.process.has_ended(is_closed) || is_closed && is_idle();
            if is_over {
                importer.process.descriptor().into_iter().for_each(|fd| watch.remove(fd));
                importer.connection.iter().for_each(|connection| watch.remove(connection));
                *place = None;
                let newest = newest_waited(&self.ready, bit);
                // No stream may wait for a number that nobody writes any more.
                for numbers in &self.numbers {
                    for (device, newest) in newest.iter().enumerate().filter(|(_, it)| **it > 0) {
                        let _ = numbers.write(done(bit, device), *newest);
                    }
                }
                // Numbers only grow, also those of the next importer. Events begin anew.
                let next = if self.has_numbers { newest } else { [0; DEVICES] };
                self.ready
                    .iter_mut()
                    .filter_map(|ready| ready.waited.get_mut(bit))
                    .for_each(|waited| *waited = next);
            }
            if is_over || is_closed {
                self.descriptors.forget(bit);
                self.retiring.iter_mut().for_each(|retiring| {
                    retiring.open &= !(u64::from(is_over) << bit);
                    retiring.unsent &= !(1 << bit);
                });
            }
        }
        let used = self.importers.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.importers.truncate(used);
    }

    /// Accepts the connections that wait.
    pub fn accept(&mut self, listener: &OwnedFd, watch: &Watch) -> Result<()> {
        while let Some(connection) = system::accept(listener)? {
            // Another user could hold descriptors of this process by connecting and saying nothing.
            if system::peer_of(&connection).is_none() {
                continue;
            }
            memory::reserve(&mut self.strangers)?;
            watch.add(&connection)?;
            self.strangers.push(connection);
        }
        let mut place = 0;
        while let Some(connection) = self.strangers.get(place) {
            let mut bytes = [0; 16];
            let first = match system::receive(connection, &mut bytes) {
                Received::Nothing => {
                    place += 1;
                    continue;
                }
                Received::Message(16, Some(page)) => Some(page),
                _ => None,
            };
            let connection = self.strangers.swap_remove(place);
            watch.remove(&connection);
            let page = first.and_then(|page| Page::map(&page, self.capacity).ok());
            let (Some(pid), Some(page)) = (system::peer_of(&connection), page) else { continue };
            let Some((_, start)) = parse(&bytes) else { continue };
            let free = self.importers.iter().position(Option::is_none);
            let bit = free.unwrap_or(self.importers.len());
            if bit == PEERS {
                return fail!(CAI_ERR_IPC_FULL, "channel";
                    found "{PEERS} importers"; expected "a channel of its own for some of them");
            }
            if free.is_none() {
                memory::push(&mut self.importers, None)?;
            }
            let done = memory::boxed([const { None }; DEVICES])?;
            let process = Process::watch(pid, start);
            watch.add(&connection)?;
            let added = process.descriptor().map_or(Ok(()), |fd| watch.add(fd));
            added.inspect_err(|_| watch.remove(&connection))?;
            for (slot, place) in self.slots.iter().enumerate() {
                if place.export.as_ref().is_some_and(|export| !export.is_withdrawn) {
                    publish(&page, slot as u32, place.generation);
                }
            }
            for (index, ready) in self.ready.iter().enumerate() {
                let newest = page.head().get(word::READY + index);
                newest.into_iter().for_each(|word| word.store(ready.sequence, Ordering::Release));
            }
            self.are_kept = true;
            let place = page.head().get(word::PLACE);
            place.into_iter().for_each(|word| word.store(bit as u64, Ordering::Relaxed));
            for (device, newest) in newest_waited(&self.ready, bit).into_iter().enumerate() {
                let first = page.head().get(word::DONE + device * word::DONE_SIZE);
                first.into_iter().for_each(|word| word.store(newest, Ordering::Relaxed));
            }
            let accepted = page.head().get(word::ACCEPTED);
            // Release: who reads this finds the generations.
            accepted.into_iter().for_each(|word| word.store(1, Ordering::Release));
            // It only wakes the importer, which looks at the page.
            let _ = system::send(&connection, &message(said::WELCOME, 0), None);
            let connection = Some(connection);
            if let Some(place) = self.importers.get_mut(bit) {
                *place = Some(Importer { connection, process, page, done });
            }
        }
        Ok(())
    }
}

/// Returns the newest record of each done event of an importer that a stream has waited for.
fn newest_waited(all: &[Ready], bit: usize) -> [u64; DEVICES] {
    let mut newest = [0; DEVICES];
    for waited in all.iter().filter_map(|ready| ready.waited.get(bit)) {
        newest.iter_mut().zip(waited).for_each(|(newest, waited)| *newest = *waited.max(newest));
    }
    newest
}
