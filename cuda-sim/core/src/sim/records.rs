//! Records of events, and which of them a wait may count on.

use crate::actor::Actor;
use crate::clock::Clock;
use crate::shadow::Mark;
use crate::sim::objects::{Earlier, Recorded};
use crate::sim::state::{Sim, thread_id};
use crate::site::Site;
use crate::waits::Wait;

/// Maximum number of earlier records of an event that are kept. A thread that runs ahead of one
/// that waits for the event may have recorded it a few times more.
const MOST_EARLIER: usize = 4;

impl Sim {
    /// Returns the place of a record by the calling thread, if the order of host threads matters.
    pub fn place_of_record(&mut self, stream: Option<Actor>) -> Option<Mark<Site>> {
        if !self.config.threads_seen {
            return None;
        }
        let host = self.host_actor();
        let label = self.label("cuEventRecord");
        let checker = self.checker.as_mut()?;
        let epoch = checker.mark(host);
        let site = checker.here_on(host, stream?, label, u64::from(thread_id()));
        Some(Mark { epoch, site })
    }

    /// Replaces the last record of an event.
    pub fn set_recorded(&mut self, event: u64, recorded: Recorded) {
        let Some(found) = self.events.get_mut(event) else { return };
        let before = std::mem::replace(&mut found.recorded, recorded);
        if let Recorded::Live { clock: Some(clock), by: Some(by), .. } = before {
            if found.earlier.len() == MOST_EARLIER {
                found.earlier.pop_front();
            }
            found.earlier.push_back(Earlier { at: by.epoch, clock });
        }
    }

    /// Returns what the last record of an event orders before a wait for it by the calling thread,
    /// on a stream or (`None`) of the host itself. If the wait may run before that record, the
    /// newest earlier one counts that it comes after.
    pub fn counted(
        &mut self,
        event: u64,
        label: &'static str,
        stream: Option<Actor>,
    ) -> Option<Clock> {
        let Recorded::Live { clock, by, .. } = &self.events.get(event)?.recorded else {
            return None;
        };
        let (clock, by) = (clock.clone()?, by.clone());
        let Some(by) = by else { return Some(clock) };
        let host = self.host_actor();
        let label = self.label(label);
        let checker = self.checker.as_mut()?;
        let here = checker.snapshot(host);
        if here.knows(by.epoch) {
            return Some(clock);
        }
        let waiter = stream.unwrap_or(host);
        let wait = checker.here_on(host, waiter, label, u64::from(thread_id()));
        let since = checker.mark(waiter);
        checker.waits.push(Wait { event, record: by.site, wait, known: clock, since });
        let earlier = &self.events.get(event)?.earlier;
        let known = earlier.iter().rev().find(|earlier| here.knows(earlier.at));
        known.map(|earlier| earlier.clock.clone())
    }
}
