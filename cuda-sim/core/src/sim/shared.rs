//! Memory that processes share: accesses of others, and what their hosts know.
//!
//! Communication between the hosts of two processes is not observed. So each is taken to know at
//! every call what the hosts of the others knew at that moment: work that a process waited for
//! before is ordered, work that is pending there is not, unless an event orders it. Work of a
//! process that has ended is over.

use crate::access::Access;
use crate::checker::Checker;
use crate::memory::Kind;
use crate::processes::{Count, Entry, History, SharedClock, User, has_ended};
use crate::site::{AllocationInfo, Moment, Site};
use std::collections::HashMap;
use std::sync::Arc;

/// Another process that shares memory with this one.
pub(super) struct Peer {
    pub user: User,
    pub hosts: SharedClock,
}

#[derive(Default)]
pub struct Shared {
    /// By the base of the allocation.
    pub(super) histories: HashMap<u64, SharedMemory>,
    pub(super) peers: Vec<Peer>,
    /// Knowledge of the hosts of this process.
    pub(super) hosts: Option<SharedClock>,
    pub(super) published: HashMap<(u64, u64), u64>,
}

pub(super) struct SharedMemory {
    pub history: Arc<History>,
    /// The number of its users that were looked at.
    pub users: usize,
}

impl Shared {
    /// Checks an access against those of other processes.
    pub fn check(
        &self,
        checker: &mut Checker,
        info: &AllocationInfo,
        access: &Access,
        moment: &Moment,
    ) {
        let Some(memory) = self.histories.get(&info.base) else { return };
        // A process that frees what it imported does not touch the bytes.
        if info.kind == Kind::Imported.name() && moment.mark.site.label.contains("Free") {
            return;
        }
        let mut relative = *access;
        relative.address = access.address.wrapping_sub(info.base);
        let (own, epoch) = (checker.foreign.own, moment.mark.epoch);
        let at = Count { process: own, place: epoch.actor as u64, count: epoch.n };
        let new = entry(at, relative, &moment.mark.site);
        let foreign = &checker.foreign;
        let mut knows = |count: Count| {
            if count.process == own {
                moment.clock.of(count.place as usize) >= count.count
            } else {
                foreign.is_known(count, &moment.clock)
            }
        };
        let found = memory.history.enter(&new, &mut knows);
        for old in found.iter().filter(|old| !self.has_ended(old)) {
            let (from, to) = old.access.hull();
            let (start, end) = relative.hull();
            let from = (from.max(start).min(info.size) + info.base, to.min(end) + info.base);
            let bytes = (from.0, from.1.min(info.base + info.size));
            checker.race_with_process(old, moment, access.mode, info, bytes);
        }
    }

    /// Returns whether the process of an access has ended, and with it the access.
    fn has_ended(&self, old: &Entry) -> bool {
        let peer = self.peers.iter().find(|peer| peer.user.process == old.at.process);
        peer.is_some_and(|peer| peer.hosts.has_ended()) || has_ended(old.pid)
    }
}

pub(super) fn entry(at: Count, access: Access, site: &Site) -> Entry {
    let who = format!("{}, enqueued by host thread {}", site.actor.describe(), site.thread);
    Entry { pid: std::process::id(), at, access, label: site.label.to_string(), who }
}
