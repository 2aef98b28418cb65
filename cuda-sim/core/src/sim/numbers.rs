//! Numbers in memory that streams write and wait for.

use crate::access::{Access, READ};
use crate::clock::{Clock, Epoch};
use crate::memory::Kind;
use crate::open_waits::{Wanted, Word};
use crate::sim::state::{Sim, thread_id};
use crate::site::Site;
use crate::work::{Work, number_at};
use std::sync::Arc;

impl Sim {
    /// Returns the number at the address of its bytes.
    pub fn word_at(&self, host: u64, wide: bool) -> Word {
        Word { address: self.memory.on_device(&Access::range(host, 4, READ)).address, wide }
    }

    /// Tracks the number that an operation writes or waits for, before it is enqueued. If the
    /// calling thread knows of everything that wrote it, the number is read: the host may have
    /// changed it without a call.
    pub fn track_number(&mut self, work: &Work) {
        if let (Work::Store { address, wide, .. } | Work::WaitValue { address, wide, .. }, true) =
            (work, self.checker.is_some())
        {
            let word = self.word_at(*address, *wide);
            self.track(word, *address, matches!(work, Work::Store { .. }));
        }
    }

    /// `host`: where its bytes are.
    fn track(&mut self, word: Word, host: u64, is_written: bool) {
        if crate::real_driver::is_present() {
            self.numbers.insert(word, host);
        }
        let actor = self.host_actor();
        let Some(checker) = &mut self.checker else { return };
        let known = checker.snapshot(actor);
        let all_known = if checker.open.is_tracked(word) {
            checker.open.all_known(word, &known)
        } else {
            let (before, all_known) = self.written(word, &known);
            let others = self.other_words(word);
            let Some(checker) = &mut self.checker else { return };
            checker.open.track(word, &others, &before);
            all_known
        };
        let number = if all_known { self.peek(word, host, is_written) } else { None };
        let Some(checker) = &mut self.checker else { return };
        if let Some(number) = number.filter(|number| checker.open.last(word) != Some(*number)) {
            checker.mark(actor);
            let label = "a number that the host found".into();
            let moment = checker.host(actor, label, u64::from(thread_id()));
            checker.open.found(word, number, &moment);
        }
    }

    /// Returns the same number at other addresses.
    fn other_words(&self, word: Word) -> Vec<Word> {
        let access = Access::range(word.address, word.end() - word.address, READ);
        let others = self.aliases(&access).into_iter();
        others.map(|access| Word { address: access.address, ..word }).collect()
    }

    /// Returns the last writes of a number, and whether a clock knows of all of them. The beginning
    /// of an allocation leaves no number that a program may wait for.
    fn written(&self, word: Word, known: &Clock) -> (Vec<(Epoch, Arc<Site>)>, bool) {
        let Some(allocation) = self.memory.find(word.address) else { return (Vec::new(), false) };
        let mut writes = allocation.shadow.written(word.address, word.end());
        for other in self.other_words(word) {
            let allocation = self.memory.find(other.address).into_iter();
            writes.extend(allocation.flat_map(|of| of.shadow.written(other.address, other.end())));
        }
        let all_known = writes.iter().all(|mark| known.knows(mark.epoch));
        let uses = writes.into_iter().filter(|mark| !mark.site.begins_memory());
        (uses.map(|mark| (mark.epoch, mark.site.clone())).collect(), all_known)
    }

    /// Reads a number, if the host may. A real driver may have run the operation already that is
    /// about to be entered: then it is the number from before the call.
    fn peek(&mut self, word: Word, host: u64, is_written: bool) -> Option<u64> {
        if crate::real_driver::is_present() {
            let before = self.thread().numbers.iter().find(|(known, _)| *known == word);
            let before = before.map(|(_, number)| *number);
            if is_written || before.is_some() {
                return before;
            }
        }
        self.peek_now(word, host)
    }

    /// Remembers the numbers that are tracked, before a real driver is called.
    pub fn remember_numbers(&mut self) {
        let memory = &self.memory;
        self.numbers.retain(|word, _| memory.find(word.address).is_some());
        let words: Vec<_> = self.numbers.iter().map(|(word, host)| (*word, *host)).collect();
        let read = |(word, host)| Some((word, self.peek_now(word, host)?));
        let numbers = words.into_iter().filter_map(read).collect();
        self.thread().numbers = numbers;
    }

    fn peek_now(&mut self, word: Word, host: u64) -> Option<u64> {
        let found = self.memory.find(word.address)?;
        let (kind, base) = (found.kind, found.base);
        let mapping = self.mappings.mapped.get(&base);
        let is_closed = kind == Kind::Virtual
            && mapping.is_none_or(|mapping| mapping.access.values().all(|access| *access == 0));
        if is_closed || (crate::real_driver::is_present() && !kind.is_host()) {
            return None;
        }
        Some(self.unguarded(|_| number_at(host, word.wide)))
    }

    /// Records that the calling thread found a number that satisfies a wait.
    pub fn host_has_seen(&mut self, address: u64, wide: bool, value: u64, flags: u32) {
        let word = self.word_at(address, wide);
        let host = self.host_actor();
        if let Some(checker) = &mut self.checker {
            checker.has_seen(host, &Wanted { word, value, flags });
        }
    }
}
