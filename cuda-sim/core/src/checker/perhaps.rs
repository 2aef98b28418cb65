//! Calls that may wait for their work and need not: what relies on that is a remark.

use super::{ActorState, Checker};
use crate::access::Access;
use crate::actor::Actor;
use crate::clock::{Clock, Knowledge};
use crate::shadow::{Mark, Shadow};
use crate::site::{AllocationInfo, Moment, Site};
use std::borrow::Cow;

/// Part of the mode of the second access: the pair is a race only if a call did not wait.
pub const PERHAPS: u32 = 1 << 3;

/// What a host thread knows even if no such call waited.
pub struct Unsure {
    sure: Clock,
    /// The newest knowledge that such calls gave it and that is not in `sure`.
    perhaps: Vec<Clock>,
}

/// Maximum number of pieces of pageable memory that are kept. Beyond it, all are forgotten.
const MOST_PIECES: usize = 256;

impl ActorState {
    pub(super) fn learn(&mut self, known: &Clock) {
        self.clock.join(known);
        self.settle(|sure| sure.join(known));
    }

    pub(super) fn learn_all(&mut self, known: &Knowledge) {
        self.clock.join_all(known);
        self.settle(|sure| sure.join_all(known));
    }

    fn settle(&mut self, join: impl FnOnce(&mut Clock)) {
        let Some(unsure) = &mut self.unsure else { return };
        // A clock takes over one that knows its count: that one then knows all of this one too.
        unsure.sure.own = self.clock.own;
        join(&mut unsure.sure);
        unsure.perhaps.retain(|known| !unsure.sure.includes(known));
        if unsure.perhaps.is_empty() {
            self.unsure = None;
        }
    }
}

impl Checker {
    /// Orders everything that `earlier` did so far before the next work of the host thread `later`,
    /// by a call that may return before that is done.
    pub fn order_perhaps(&mut self, earlier: Actor, later: Actor) {
        let known = self.snapshot(earlier);
        let state = self.state(later);
        if !state.clock.includes(&known) {
            let sure = state.clock.clone();
            let unsure =
                state.unsure.get_or_insert_with(|| Box::new(Unsure { sure, perhaps: Vec::new() }));
            unsure.perhaps.retain(|older| !known.includes(older));
            unsure.perhaps.push(known.clone());
        }
        self.draw_order(later, &known);
        self.state(later).clock.join(&known);
    }

    /// Enters an access to pageable memory by a copy that may be done after its call.
    pub fn pageable_copy(
        &mut self,
        stream: Actor,
        access: &Access,
        label: Cow<'static, str>,
        thread: u64,
    ) {
        let mark = Mark { epoch: self.mark(stream), site: self.here(stream, label, thread) };
        let clock = self.snapshot(stream);
        if self.pageable.len() > MOST_PIECES {
            self.pageable = Shadow::default();
        }
        access.for_each_range(|from, to| {
            self.pageable.access((from, to), access.mode, &clock, &mark, &mut |_, _, _, _| ());
        });
    }

    /// Remarks on an access by a host thread that relies on such a call. `memory`: the history of
    /// the bytes; `None` for pageable memory.
    pub fn remark(
        &mut self,
        memory: Option<(&Shadow<Site>, AllocationInfo)>,
        access: &Access,
        moment: &Moment,
    ) {
        let actor = moment.mark.epoch.actor;
        let unsure = self.actors[actor].state.as_ref().and_then(|state| state.unsure.as_ref());
        if unsure.is_none() && (memory.is_some() || self.pageable.len() == 0) {
            return;
        }
        let mut sure = unsure.map_or_else(|| moment.clock.clone(), |unsure| unsure.sure.clone());
        sure.own = moment.clock.own;
        let (from, to) = access.hull();
        let kind = "pageable host memory";
        let is_pageable = memory.is_none();
        let (shadow, info) = memory.unwrap_or_else(|| {
            let info = AllocationInfo { base: from, size: to - from, device: -1, kind };
            (&self.pageable, info)
        });
        let mut found = None;
        access.for_each_range(|from, to| {
            let range = (from.max(info.base), to.min(info.base + info.size));
            shadow.pending(range, access.mode, &sure, &mut |mark, mode, from, to| {
                // Pageable memory may have had another use meanwhile, of another thread.
                let counts = if is_pageable {
                    mark.site.thread == moment.mark.site.thread
                } else {
                    moment.clock.knows(mark.epoch)
                };
                if found.is_none() && counts {
                    found = Some((mark.clone(), mode, from, to));
                }
            });
        });
        if let Some((mark, mode, from, to)) = found {
            self.race(&mark, mode, moment, access.mode | PERHAPS, &info, from, to);
        }
    }
}
