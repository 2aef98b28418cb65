//! The newest operations and the orders between them, for reports that draw them.
//!
//! Kept only if a report asks for it. A race takes a part of it when it is found: what came before
//! and between its two accesses. A process without races reports the newest rows when it ends.

use crate::actor::{Identity, Who};
use crate::clock::Epoch;
use crate::site::Site;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of operations and orders that are kept.
const KEPT: usize = 1024;
/// Numbers that a race keeps before its first access, after it, and before its second one.
const BEFORE: usize = 4;
const AFTER: usize = 12;
/// The number of rows of a process without races.
const NEWEST: usize = 40;

#[derive(Default)]
pub struct Timeline {
    entries: VecDeque<Entry>,
}

struct Entry {
    time: u64,
    what: What,
}

impl Entry {
    fn row(&self, access: Option<&'static str>, early: bool) -> Row {
        match &self.what {
            What::Operation { lane, thread, label } => Row::Operation {
                lane: lane.describe(),
                thread: *thread,
                label: label.to_string(),
                access,
            },
            What::Order { from, to, .. } => {
                Row::Order { from: from.describe(), to: to.describe(), early }
            }
        }
    }
}

enum What {
    Operation {
        lane: Arc<Identity>,
        thread: u64,
        label: Cow<'static, str>,
    },
    /// Later work on the second happens after everything that the first had done until then.
    Order {
        from: Arc<Identity>,
        until: Epoch,
        to: Arc<Identity>,
    },
}

pub enum Row {
    Operation {
        lane: String,
        thread: u64,
        label: String,
        access: Option<&'static str>,
    },
    /// `early`: it does not contain the first access, which came later.
    Order {
        from: String,
        to: String,
        early: bool,
    },
    Skipped(usize),
}

impl Timeline {
    fn push(&mut self, time: u64, what: What) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { time, what });
    }

    pub fn operation(&mut self, site: &Site) {
        let (lane, thread, label) = (site.actor.clone(), site.thread, site.label.clone());
        self.push(site.time, What::Operation { lane, thread, label });
    }

    pub fn order(&mut self, time: u64, from: Arc<Identity>, until: Epoch, to: Arc<Identity>) {
        // That a call comes after earlier ones of its thread is not worth a row.
        if matches!(from.who, Who::Host { .. }) && !matches!(to.who, Who::Host { .. }) {
            return;
        }
        // What only stands for the work of others enqueues nothing.
        if matches!(to.who, Who::Destroyed | Who::Earlier) {
            return;
        }
        self.push(time, What::Order { from, until, to });
    }

    pub fn newest(&self) -> Vec<Row> {
        let skipped = self.entries.len().saturating_sub(NEWEST);
        let before = (skipped > 0).then_some(Row::Skipped(skipped));
        let rows = self.entries.iter().skip(skipped).map(|entry| entry.row(None, false));
        before.into_iter().chain(rows).collect()
    }

    pub fn rows(&self, first: &Site, at: Epoch, second: &Site) -> Vec<Row> {
        let is_one = |identity: &Arc<Identity>| {
            Arc::ptr_eq(identity, &first.actor) || Arc::ptr_eq(identity, &second.actor)
        };
        let concerns = |entry: &&Entry| match &entry.what {
            What::Operation { lane, .. } => is_one(lane),
            What::Order { from, to, .. } => is_one(from) || is_one(to),
        };
        let found: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.time <= second.time)
            .filter(concerns)
            .collect();
        // The first access may be older than everything that is kept.
        let start = found.iter().position(|entry| entry.time == first.time).unwrap_or(0);
        let shown = |at: &usize| {
            (start.saturating_sub(BEFORE)..=start + AFTER).contains(at) || at + AFTER >= found.len()
        };
        let mut rows = Vec::new();
        for (place, entry) in found.iter().enumerate().skip(start.saturating_sub(BEFORE)) {
            if !shown(&place) {
                match rows.last_mut() {
                    Some(Row::Skipped(count)) => *count += 1,
                    _ => rows.push(Row::Skipped(1)),
                }
                continue;
            }
            let access = match entry.time {
                time if time == second.time => Some("second"),
                time if time == first.time => Some("first"),
                _ => None,
            };
            let early = match &entry.what {
                What::Order { from, until, .. } => {
                    Arc::ptr_eq(from, &first.actor) && entry.time >= first.time && until.n < at.n
                }
                What::Operation { .. } => false,
            };
            rows.push(entry.row(access, early));
        }
        rows
    }
}
