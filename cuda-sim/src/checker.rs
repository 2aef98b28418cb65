//! The race checker: who is ordered after whom, and what to say where an order is missing. Uses `config`,
//! `clock`, `access`, `shadow`, `stack`; no `unsafe`.
//!
//! The order of stream work is fixed by the calls that the host makes, not by when the device runs it. So each
//! access is judged when it is enqueued, and the verdict holds for every schedule of the device.

use crate::access::{Access, READ, WRITE};
use crate::clock::{Actor, Clock, Epoch};
use crate::config::Races;
use crate::shadow::{Mark, Shadow};
use crate::stack::{StackId, Stacks};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Who an actor is, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    Host {
        thread: u64,
    },
    Stream {
        id: u64,
        device: i32,
        kind: &'static str,
    },
    Branch {
        stream: u64,
        graph: u64,
    },
    /// What destroyed streams of a context did.
    Destroyed,
}

/// Where an access came from.
#[derive(Debug)]
pub struct Site {
    pub actor: Actor,
    pub label: Cow<'static, str>,
    pub stack: StackId,
    pub thread: u64,
}

/// What an access belongs to: the operation's moment and origin.
pub struct Moment {
    pub clock: Clock,
    pub mark: Mark<Site>,
}

/// The bytes of an allocation, for reports.
#[derive(Clone, Debug)]
pub struct Place {
    pub base: u64,
    pub size: u64,
    pub device: i32,
    pub kind: &'static str,
}

struct Race {
    first: Side,
    second: Side,
    place: Place,
    from: u64,
    to: u64,
    advice: String,
}

struct Side {
    mode: u32,
    who: String,
    label: String,
    thread: u64,
    stack: StackId,
}

struct ActorState {
    clock: Clock,
    who: Who,
    name: Option<String>,
    /// What else it knows when it frees memory: drivers do not give away what their own synchronous calls use.
    when_freeing: Vec<Clock>,
    /// The host thread let others see what it did since its last own access: the next access is a new moment.
    told: bool,
}

pub struct Checker {
    pub mode: Races,
    actors: Vec<ActorState>,
    retired: Vec<Actor>,
    /// What was told at an address: the tellers' newest clocks that no other of them includes.
    objects: HashMap<usize, Vec<Clock>>,
    pub stacks: Stacks,
    races: Vec<Race>,
    reported: HashSet<(StackId, StackId, u32)>,
    printed: usize,
}

impl Checker {
    pub fn new(mode: Races) -> Checker {
        Checker {
            mode,
            actors: Vec::new(),
            retired: Vec::new(),
            objects: HashMap::new(),
            stacks: Stacks::default(),
            races: Vec::new(),
            reported: HashSet::new(),
            printed: 0,
        }
    }

    // --- actors -----------------------------------------------------------------------------------------

    /// A new actor, who knows what its creator knows. The number of one that ended is used again only where
    /// the creator knows all that it did: then whatever the new one does is ordered after that anyway.
    pub fn actor(&mut self, creator: Option<Actor>, who: Who) -> Actor {
        let known = creator.map(|creator| self.tell(creator));
        let reusable = known.as_ref().and_then(|known| {
            self.retired.iter().rposition(|&actor| known.of(actor) >= self.actors[actor].clock.own)
        });
        let actor = match reusable {
            Some(at) => {
                let actor = self.retired.swap_remove(at);
                self.actors[actor].who = who;
                self.actors[actor].name = None;
                actor
            }
            None => {
                let actor = self.actors.len();
                self.actors.push(ActorState {
                    clock: Clock::new(actor, 0),
                    who,
                    name: None,
                    when_freeing: Vec::new(),
                    told: false,
                });
                actor
            }
        };
        if let Some(known) = known {
            self.actors[actor].clock.join(&known);
        }
        actor
    }

    pub fn retire(&mut self, actor: Actor) {
        self.retired.push(actor);
    }

    pub fn name(&mut self, actor: Actor, name: &str) {
        self.actors[actor].name = Some(name.to_owned());
    }

    /// What an actor knows, given to somebody: what the actor does next is not part of it.
    pub fn tell(&mut self, actor: Actor) -> Clock {
        let state = &mut self.actors[actor];
        state.told = true;
        state.clock.clone()
    }

    pub fn learn(&mut self, actor: Actor, known: &Clock) {
        self.actors[actor].clock.join(known);
    }

    /// `later` comes after everything that `earlier` did so far.
    pub fn order(&mut self, earlier: Actor, later: Actor) {
        if earlier == later || self.actors[later].clock.of(earlier) >= self.actors[earlier].clock.own {
            self.actors[earlier].told = true;
            return;
        }
        let known = self.tell(earlier);
        self.learn(later, &known);
    }

    /// `earlier` used memory in a synchronous call of the host thread `later`, which may have come back before
    /// that was done. It may free the memory all the same.
    pub fn order_before_free(&mut self, earlier: Actor, later: Actor) {
        let known = self.tell(earlier);
        let list = &mut self.actors[later].when_freeing;
        list.retain(|clock| known.of(clock.actor) < clock.own);
        list.push(known);
    }

    /// As `host`, for an end of memory.
    pub fn host_frees(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        let mut moment = self.host(actor, label, thread);
        let own = moment.clock.own;
        for clock in &self.actors[actor].when_freeing {
            moment.clock.join(clock);
        }
        moment.clock.own = own;
        moment
    }

    pub fn hb_before(&mut self, actor: Actor, object: usize) {
        let known = self.tell(actor);
        let told = self.objects.entry(object).or_default();
        told.retain(|clock| known.of(clock.actor) < clock.own);
        told.push(known);
    }

    pub fn hb_after(&mut self, actor: Actor, object: usize) {
        for known in self.objects.get(&object).into_iter().flatten() {
            self.actors[actor].clock.join(known);
        }
    }

    // --- accesses ---------------------------------------------------------------------------------------

    /// The next thing that a stream does.
    pub fn step(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        self.actors[actor].clock.step();
        self.moment(actor, label, thread)
    }

    /// Something that a host thread does by itself.
    pub fn host(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        let state = &mut self.actors[actor];
        if state.told || state.clock.own == 0 {
            state.told = false;
            state.clock.step();
        }
        self.moment(actor, label, thread)
    }

    fn moment(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        let stack = self.stacks.here();
        let clock = self.actors[actor].clock.clone();
        let epoch: Epoch = clock.now();
        Moment { clock, mark: Mark { epoch, site: Arc::new(Site { actor, label, stack, thread }) } }
    }

    /// Enters one access, cut to what lies in the allocation.
    pub fn access(&mut self, shadow: &mut Shadow<Site>, place: &Place, access: &Access, moment: &Moment) {
        let mut found = Vec::new();
        access.for_each_range(|from, to| {
            let range = (from.max(place.base), to.min(place.base + place.size));
            shadow.access(range, access.mode, &moment.clock, &moment.mark, &mut |mark, mode, from, to| {
                // A program that races in a loop does so in the same way each time.
                if found.len() < 16 {
                    found.push((mark.clone(), mode, from.max(range.0), to.min(range.1)));
                }
            });
        });
        for (mark, mode, from, to) in found {
            self.race(&mark, mode, &moment.mark, access.mode, place, from, to);
        }
    }

    /// An access to what was freed before, in whatever order the device comes to it.
    pub fn use_after_free(&mut self, freed: Arc<Site>, place: &Place, access: &Access, moment: &Moment) {
        let first = Mark { epoch: Epoch { actor: freed.actor, n: 0 }, site: freed };
        let from = access.address;
        let to = (from + access.nbytes).min(place.base + place.size);
        self.race(&first, WRITE, &moment.mark, access.mode, place, from, to);
    }

    #[allow(clippy::too_many_arguments)]
    fn race(
        &mut self,
        first: &Mark<Site>,
        mode: u32,
        second: &Mark<Site>,
        other: u32,
        place: &Place,
        from: u64,
        to: u64,
    ) {
        let kinds = mode << 4 | other;
        if !self.reported.insert((first.site.stack, second.site.stack, kinds)) {
            return;
        }
        let advice = self.advice(&first.site, &second.site);
        let side = |checker: &Checker, site: &Site, mode| Side {
            mode,
            who: checker.describe(site.actor),
            label: site.label.to_string(),
            thread: site.thread,
            stack: site.stack,
        };
        let race = Race {
            first: side(self, &first.site, mode),
            second: side(self, &second.site, other),
            place: place.clone(),
            from,
            to,
            advice,
        };
        self.races.push(race);
    }

    /// The one call that would have ordered the two.
    fn advice(&self, first: &Site, second: &Site) -> String {
        let (a, b) = (self.describe(first.actor), self.describe(second.actor));
        if first.label.contains("cuMemFree") {
            return "The memory was freed: free it after the last use.".to_owned();
        }
        match (&self.actors[first.actor].who, &self.actors[second.actor].who) {
            (Who::Host { .. }, Who::Host { .. }) => {
                "Order the two threads: a lock, a join, or cudasim_hb_before and cudasim_hb_after around what \
                 orders them already."
                    .to_owned()
            }
            (Who::Host { .. }, _) => format!(
                "Enqueue the second on {b} after the first, from a thread that knows of it: order the two host \
                 threads."
            ),
            (_, Who::Host { .. }) if second.label.contains("cuMemFree") => format!(
                "cuStreamSynchronize({a}) before freeing; or free with cuMemFreeAsync on a stream that waits \
                 for {a}."
            ),
            (_, Who::Host { .. }) => {
                format!("cuStreamSynchronize({a}), or cuEventSynchronize on an event recorded there after the first.")
            }
            (Who::Branch { .. }, Who::Branch { .. }) => {
                "A dependency between the two nodes; in a capture, cuEventRecord after the first and \
                 cuStreamWaitEvent before the second."
                    .to_owned()
            }
            _ => format!("cuEventRecord(event, {a}) after the first and cuStreamWaitEvent({b}, event) before the second."),
        }
    }

    fn describe(&self, actor: Actor) -> String {
        let state = &self.actors[actor];
        let name = state.name.as_ref().map_or_else(String::new, |name| format!(" \"{name}\""));
        match &state.who {
            Who::Host { thread } => format!("host thread {thread}{name}"),
            Who::Stream { id, device, kind } => format!("{kind} {id}{name} of device {device}"),
            Who::Destroyed => "a destroyed stream".to_owned(),
            Who::Branch { stream, graph } => format!("a branch of graph {graph} on stream {stream}"),
        }
    }

    // --- reports ----------------------------------------------------------------------------------------

    /// Races found and not taken.
    pub fn found(&self) -> usize {
        self.races.len()
    }

    fn text(&self, race: &Race) -> String {
        let mut text = format!(
            "cuda-sim: race on {} bytes at {:#x}, {} bytes into {} of {} bytes{}\n",
            race.to - race.from,
            race.from,
            race.from - race.place.base,
            race.place.kind,
            race.place.size,
            if race.place.device < 0 { String::new() } else { format!(" on device {}", race.place.device) },
        );
        for (title, side) in [("first", &race.first), ("second, not ordered after it", &race.second)] {
            text += &format!(
                "  {title}: {} by {}, on {}, enqueued by host thread {}\n",
                verb(side.mode),
                side.label,
                side.who,
                side.thread
            );
            for line in self.stacks.describe(side.stack) {
                text += &format!("      {line}\n");
            }
        }
        text += &format!("  missing: {}\n", race.advice);
        text
    }

    /// The text of what was found and not printed yet.
    pub fn print(&mut self) -> Vec<String> {
        let fresh = self.printed..self.races.len();
        self.printed = self.races.len();
        self.races[fresh].iter().map(|race| self.text(race)).collect()
    }

    pub fn json(&self) -> Vec<serde_json::Value> {
        let side = |side: &Side| {
            serde_json::json!({
                "mode": verb(side.mode), "actor": side.who, "label": side.label,
                "host_thread": side.thread, "stack": self.stacks.describe(side.stack),
            })
        };
        let json = self.races.iter().map(|race| {
            serde_json::json!({
                "address": race.from, "nbytes": race.to - race.from, "offset": race.from - race.place.base,
                "allocation": {"address": race.place.base, "nbytes": race.place.size, "device": race.place.device,
                               "kind": race.place.kind},
                "first": side(&race.first), "second": side(&race.second), "missing": race.advice,
            })
        });
        json.collect()
    }

    /// What was found so far, which from here on counts no more.
    pub fn take(&mut self) -> (usize, String) {
        let text = self.races.iter().map(|race| self.text(race)).collect();
        let count = std::mem::take(&mut self.races).len();
        self.printed = 0;
        (count, text)
    }
}

fn verb(mode: u32) -> &'static str {
    match mode & (READ | WRITE) {
        READ => "read",
        WRITE => "write",
        _ => "read and write",
    }
}
