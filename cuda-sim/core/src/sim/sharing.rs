//! The allocations that are shared with other processes, and what passes between the hosts.

use crate::access::{Access, WRITE};
use crate::actor::Actor;
use crate::clock::Clock;
use crate::open_waits::{Wanted, Word};
use crate::processes::{Count, History, Point, SharedClock, Store, User, count_of};
use crate::results::Result;
use crate::sim::shared::{Peer, SharedMemory, entry};
use crate::sim::state::{Sim, thread_id};
use crate::site::{Content, Moment};
use crate::work::Work;
use crate::written::End;
use std::os::fd::RawFd;
use std::sync::Arc;

impl Sim {
    /// Returns the file of the history of an allocation that is exported, which begins now if it
    /// was not exported before; -1 if there is none.
    pub fn export_history(&mut self, base: u64) -> RawFd {
        if let Some(found) = self.shared.histories.get(&base) {
            return found.history.file();
        }
        let (Some(checker), Some(allocation)) = (&self.checker, self.memory.allocations.get(&base))
        else {
            return -1;
        };
        let Ok(history) = History::new() else { return -1 };
        allocation.shadow.for_each(|mark, mode, from, to| {
            let access = Access::range(from - base, to - from, mode);
            let (place, count) = (mark.epoch.actor as u64, mark.epoch.n);
            let at = Count { process: checker.foreign.own, place, count };
            history.begin_with(&entry(at, access, &mark.site));
        });
        let file = history.file();
        if self.share(base, history).is_ok() { file } else { -1 }
    }

    /// Follows the history of an allocation of another process.
    pub fn import_history(&mut self, base: u64, pid: u32, file: RawFd) {
        if self.checker.is_some() && file >= 0 {
            let _ = History::open(pid, file).and_then(|history| self.share(base, history));
        }
    }

    fn share(&mut self, base: u64, history: History) -> Result {
        let Some(checker) = &self.checker else { return Ok(()) };
        let hosts = match self.shared.hosts.take() {
            Some(hosts) => hosts,
            None => SharedClock::new()?,
        };
        let user =
            User { process: checker.foreign.own, pid: std::process::id(), clock: hosts.file() };
        self.shared.hosts = Some(hosts);
        self.publish_host();
        history.add_user(user);
        let history = Arc::new(history);
        self.shared.histories.insert(base, SharedMemory { history, users: 0 });
        Ok(())
    }

    /// Returns the history that a number is in, and its offset there.
    fn history_of(&self, word: Word) -> Option<(Arc<History>, u64)> {
        let base = self.memory.find(word.address)?.base;
        Some((self.shared.histories.get(&base)?.history.clone(), word.address - base))
    }

    /// Returns the number that an operation writes to memory that processes share, if it is one.
    pub fn shared_number(&self, access: &Access, content: Content) -> Option<(Word, u64)> {
        if self.shared.histories.is_empty() || access.mode & WRITE == 0 {
            return None;
        }
        let (from, to) = access.hull();
        let size = to - from;
        if !matches!(size, 4 | 8) || from % size != 0 || access.ranges().len() != 1 {
            return None;
        }
        let word = Word { address: from, wide: size == 8 };
        self.history_of(word)?;
        Some((word, word.cut(content.number_at(from)?)))
    }

    /// Returns whether another process may wait for what an operation writes, although no call of this
    /// process does.
    pub fn writes_shared_number(&self, work: &Work, accesses: &[Access]) -> bool {
        if self.shared.histories.is_empty() {
            return false;
        }
        let content = work.content(accesses);
        let is_number =
            |access: &Access| self.shared_number(&self.memory.on_device(access), content).is_some();
        accesses.iter().any(is_number)
    }

    /// Lets other processes know what happens before a number that an operation writes.
    pub(super) fn share_number(&mut self, access: &Access, content: Content, moment: &Moment) {
        let Some((word, value)) = self.shared_number(access, content) else { return };
        let (Some((history, offset)), Some(checker)) = (self.history_of(word), &self.checker)
        else {
            return;
        };
        let (process, epoch) = (checker.foreign.own, moment.mark.epoch);
        let at = Count { process, place: epoch.actor as u64, count: epoch.n };
        let point = Point { at, known: checker.foreign.counts(&moment.clock) };
        history.store(&Store::new(offset, word.wide, value, point));
    }

    /// Lets an actor wait for a number, which processes may share.
    pub fn wait_for_number(&mut self, actor: Actor, wanted: Wanted) {
        if !self.wait_for_store(actor, &wanted) {
            self.checker.iter_mut().for_each(|checker| checker.wait_for(actor, wanted));
        }
    }

    /// Lets an actor wait for a number that processes share. As within one, it learns what happens
    /// before all writes that may end the wait; but only those that are enqueued by now count.
    /// Returns false if there is none.
    fn wait_for_store(&mut self, actor: Actor, wanted: &Wanted) -> bool {
        let Wanted { word, value, flags } = *wanted;
        let Some((history, offset)) = self.history_of(word) else { return false };
        let Some(checker) = &mut self.checker else { return false };
        let known = checker.snapshot(actor);
        let known = checker.foreign.counts(&known);
        let (stores, are_lost) = history.stores(offset, word.wide);
        let is_known = |point: &Point| count_of(&known, point.at) >= point.at.count;
        // The newest stores that are known, which overwrote others.
        let mut newest: Vec<&Point> = Vec::new();
        for store in stores.iter().rev() {
            let points = [&store.last, store.first()];
            let Some(point) = points.into_iter().find(|point| is_known(point)) else { continue };
            if !newest.iter().any(|newer| newer.comes_after(point.at)) {
                newest.push(point);
            }
        }
        let is_over = |store: &Store| {
            let newer = |newer: &&Point| newer.at != store.last.at;
            newest.iter().filter(|it| newer(it)).any(|it| it.comes_after(store.last.at))
        };
        let end_of = |store: &Store| store.value.end(value, word.wide, flags);
        // One that was forgotten may have ended it as well, unless it was overwritten.
        if are_lost && newest.is_empty() && stores.iter().all(|store| end_of(store).is_some()) {
            return false;
        }
        // The stores that may have ended it, without those that come after another one.
        let mut found: Vec<&Point> = Vec::new();
        for store in stores.iter().filter(|store| !is_over(store)) {
            let point = match end_of(store) {
                None => continue,
                Some(End::First) => store.first(),
                Some(_) => &store.last,
            };
            if found.iter().any(|earlier| point.comes_after(earlier.at)) {
                continue;
            }
            if end_of(store) == Some(End::Between) {
                checker.open.count_unsure();
            }
            found.push(point);
        }
        let Some((first, others)) = found.split_first() else { return false };
        let least = |count: &Count| {
            let least = |n: u64, other: &&Point| n.min(count_of(&other.known, *count));
            Count { count: others.iter().fold(count.count, least), ..*count }
        };
        let common: Vec<Count> = first.known.iter().map(least).filter(|it| it.count > 0).collect();
        checker.learn_counts(actor, &common);
        true
    }

    /// Stops following the accesses to an allocation that ends here.
    pub fn end_history(&mut self, base: u64) {
        self.shared.histories.remove(&base);
    }

    /// Makes what the calling thread knows known to other processes.
    pub fn publish_host(&mut self) {
        if self.shared.hosts.is_none() {
            return;
        }
        let host = self.host_actor();
        let (Some(checker), Some(hosts)) = (&mut self.checker, &self.shared.hosts) else { return };
        let known = checker.snapshot(host);
        let mut is_new = false;
        for Count { process, place, count } in checker.foreign.counts(&known) {
            let published = self.shared.published.entry((process, place)).or_insert(0);
            is_new |= *published < count;
            *published = count.max(*published);
        }
        if is_new {
            let all = self.shared.published.iter();
            let count = |(&(process, place), &count)| Count { process, place, count };
            hosts.set(&all.map(count).collect::<Vec<Count>>(), || ());
        }
    }

    /// Makes what the hosts of other processes know known to the calling thread.
    pub fn learn_from_processes(&mut self) {
        if self.shared.histories.is_empty() {
            return;
        }
        let host = self.host_actor();
        let Some(checker) = &mut self.checker else { return };
        let peers = &mut self.shared.peers;
        for memory in self.shared.histories.values_mut() {
            for user in memory.history.users(memory.users) {
                memory.users += 1;
                let is_known = |peer: &Peer| peer.user.process == user.process;
                if user.process == checker.foreign.own || peers.iter().any(is_known) {
                    continue;
                }
                if let Ok(hosts) = SharedClock::open(user.pid, user.clock) {
                    peers.push(Peer { user, hosts });
                }
            }
        }
        let learned = &mut self.threads.entry(thread_id()).or_default().learned;
        learned.resize(peers.len(), 0);
        for (peer, learned) in peers.iter().zip(learned) {
            let version = peer.hosts.version();
            if version != *learned {
                *learned = version;
                checker.learn_counts(host, &peer.hosts.counts());
            }
        }
    }

    /// Records the end of this process, whose work is over.
    pub fn end_shared(&mut self) {
        self.shared.hosts.iter().for_each(SharedClock::end);
    }

    /// Returns what happens before a record of an event that processes share.
    pub fn counts_of(&self, known: Option<&Clock>) -> Vec<Count> {
        match (&self.checker, known) {
            (Some(checker), Some(known)) => checker.foreign.counts(known),
            _ => Vec::new(),
        }
    }
}
