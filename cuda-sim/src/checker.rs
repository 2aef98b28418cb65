//! The race checker: which accesses are ordered, and what a report says if they are not.
//!
//! May use: `access`, `clock`, `config`, `race`, `rules`, `shadow`, `site`, `stack`. Unsafe: none.
//!
//! The order of stream work is fixed by the calls that the host makes, not by when the device runs
//! it. So each access is checked when it is enqueued, and the result holds for every schedule of
//! the device.

use crate::access::{Access, READ, WRITE};
use crate::clock::{Actor, Clock, Epoch};
use crate::config::Races;
use crate::race::{Race, Side};
use crate::rules::{Forgotten, RULES, Rules};
use crate::shadow::{Mark, Shadow};
use crate::site::{Moment, Place, Site};
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

/// What the legacy default stream is called.
pub const LEGACY: &str = "legacy default stream";

struct ActorState {
    clock: Clock,
    who: Who,
    name: Option<String>,
    /// What else it knows when it frees memory: drivers do not give away what their own synchronous
    /// calls use.
    when_freeing: Vec<Clock>,
    /// The host thread let others see what it did since its last own access: the next access is a
    /// new moment.
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
    /// What libraries say of the arrays that they exchange.
    pub rules: Rules,
    /// Refused and needlessly slow calls are told too.
    strict: bool,
    time: u64,
    reported: HashSet<(StackId, StackId, u32)>,
    printed: usize,
}

impl Checker {
    pub fn new(mode: Races, strict: bool) -> Checker {
        Checker {
            mode,
            rules: Rules::default(),
            strict,
            time: 0,
            actors: Vec::new(),
            retired: Vec::new(),
            objects: HashMap::new(),
            stacks: Stacks::default(),
            races: Vec::new(),
            reported: HashSet::new(),
            printed: 0,
        }
    }

    // --- actors
    // -----------------------------------------------------------------------------------------

    /// A new actor, who knows what its creator knows. The number of one that ended is used again
    /// only where the creator knows all that it did: then whatever the new one does is ordered
    /// after that anyway.
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
        self.time += 1;
        self.rules.retire(actor, self.time);
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
        if earlier == later
            || self.actors[later].clock.of(earlier) >= self.actors[earlier].clock.own
        {
            self.actors[earlier].told = true;
            return;
        }
        let known = self.tell(earlier);
        self.learn(later, &known);
    }

    /// `earlier` used memory in a synchronous call of the host thread `later`, which may have come
    /// back before that was done. It may free the memory all the same.
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

    // --- accesses
    // ---------------------------------------------------------------------------------------

    /// The next thing that a stream does.
    pub fn step(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        self.step_of(actor, actor, label, thread)
    }

    /// The same for a branch of a graph, launched on a stream.
    pub fn step_of(
        &mut self,
        branch: Actor,
        stream: Actor,
        label: Cow<'static, str>,
        thread: u64,
    ) -> Moment {
        self.actors[branch].clock.step();
        self.moment(branch, stream, label, thread)
    }

    /// Something that a host thread does by itself.
    pub fn host(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        let state = &mut self.actors[actor];
        if state.told || state.clock.own == 0 {
            state.told = false;
            state.clock.step();
        }
        self.moment(actor, actor, label, thread)
    }

    fn moment(
        &mut self,
        actor: Actor,
        stream: Actor,
        label: Cow<'static, str>,
        thread: u64,
    ) -> Moment {
        let stack = self.stacks.here();
        self.time += 1;
        let clock = self.actors[actor].clock.clone();
        let epoch: Epoch = clock.now();
        let site = Arc::new(Site { actor, stream, time: self.time, label, stack, thread });
        Moment { clock, mark: Mark { epoch, site } }
    }

    /// Enters one access, cut to what lies in the allocation.
    pub fn access(
        &mut self,
        shadow: &mut Shadow<Site>,
        place: &Place,
        access: &Access,
        moment: &Moment,
    ) {
        let mut found = Vec::new();
        access.for_each_range(|from, to| {
            let range = (from.max(place.base), to.min(place.base + place.size));
            shadow.access(
                range,
                access.mode,
                &moment.clock,
                &moment.mark,
                &mut |mark, mode, from, to| {
                    // A program that races in a loop does so in the same way each time.
                    if found.len() < 16 {
                        found.push((mark.clone(), mode, from.max(range.0), to.min(range.1)));
                    }
                },
            );
        });
        for (mark, mode, from, to) in found {
            self.race(&mark, mode, &moment.mark, access.mode, place, from, to);
        }
        let of = &self.actors[moment.mark.site.stream].who;
        let shared = matches!(of, Who::Stream { kind: LEGACY, .. });
        if let Some((range, begin)) = self.rules.forbidden(&moment.mark.site, access, shared) {
            let advice = "CAI_ACCESS_WRITE in cai_array_consume_begin and cai_array_consume_end; a read-only array has to be copied.";
            let bytes = Some((place.clone(), range));
            self.broken(
                "R7",
                Some((&begin, READ)),
                &moment.mark.site,
                WRITE,
                bytes,
                advice.to_owned(),
            );
        }
    }

    /// What is pending on some bytes and not known to somebody.
    pub fn pending(
        &self,
        shadow: &Shadow<Site>,
        place: &Place,
        access: &Access,
        clock: &Clock,
        of: &dyn Fn(&Site, u32, u64, u64) -> bool,
    ) -> Option<(Mark<Site>, u32, u64, u64)> {
        let mut found = None;
        access.for_each_range(|from, to| {
            let range = (from.max(place.base), to.min(place.base + place.size));
            shadow.pending(range, access.mode, clock, &mut |mark, mode, from, to| {
                if found.is_none() && of(&mark.site, mode, from, to) {
                    found = Some((mark.clone(), mode, from, to));
                }
            });
        });
        found
    }

    /// A rule of exchange was broken.
    pub fn broken(
        &mut self,
        rule: &'static str,
        first: Option<(&Site, u32)>,
        second: &Site,
        mode: u32,
        bytes: Option<(Place, (u64, u64))>,
        advice: String,
    ) {
        let remark = rule == "R9";
        if matches!(rule, "R8" | "R9" | "R10") && !self.strict {
            return;
        }
        let kind = 1000 + rule.bytes().map(u32::from).sum::<u32>();
        let earlier = first.map_or(second.stack, |(site, _)| site.stack);
        if !self.reported.insert((earlier, second.stack, kind)) {
            return;
        }
        let race = Race {
            rule: Some(rule),
            forgotten: None,
            first: first.map(|(site, mode)| self.side(site, mode)),
            second: self.side(second, mode),
            bytes: bytes.map(|(place, (from, to))| {
                let end = place.base + place.size;
                let (from, to) = (from.clamp(place.base, end), to.clamp(place.base, end));
                (place, from, to)
            }),
            advice,
            remark,
        };
        self.races.push(race);
    }

    fn side(&self, site: &Site, mode: u32) -> Side {
        Side {
            mode,
            who: self.describe(site.actor),
            label: site.label.to_string(),
            thread: site.thread,
            stack: site.stack,
        }
    }

    /// Here, by whoever calls: for rules that no access breaks.
    pub fn here(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Arc<Site> {
        self.time += 1;
        Arc::new(Site {
            actor,
            stream: actor,
            time: self.time,
            label,
            stack: self.stacks.here(),
            thread,
        })
    }

    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// An access to what was freed before, in whatever order the device comes to it.
    pub fn use_after_free(
        &mut self,
        freed: Arc<Site>,
        place: &Place,
        access: &Access,
        moment: &Moment,
    ) {
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
        // Memory that ends is not something that a consumer begins to use.
        let ends = |site: &Site| {
            ["Free", "Unregister", "Unmap"].iter().any(|word| site.label.contains(word))
        };
        let forgotten = self.rules.forgotten(&first.site, &second.site, from, to);
        let forgotten = forgotten.filter(|what| match what {
            Forgotten::BeginOfFirst | Forgotten::BeginOfSecond => {
                !ends(&first.site) && !ends(&second.site)
            }
            Forgotten::End | Forgotten::LaterEnd => true,
        });
        let rule = forgotten.map(Forgotten::rule);
        let advice = self.advice(&first.site, &second.site);
        let advice = forgotten.map_or(advice.clone(), |what| {
            self.call_of_library(what, &first.site, &second.site) + &advice
        });
        let race = Race {
            rule,
            forgotten,
            first: Some(self.side(&first.site, mode)),
            second: self.side(&second.site, other),
            bytes: Some((place.clone(), from, to)),
            advice,
            remark: false,
        };
        self.races.push(race);
    }

    /// The call of the library that was forgotten.
    fn call_of_library(&self, forgotten: Forgotten, first: &Site, second: &Site) -> String {
        let (of_first, of_second) = (self.describe(first.stream), self.describe(second.stream));
        let is_host = |site: &Site| matches!(self.actors[site.stream].who, Who::Host { .. });
        match forgotten {
            Forgotten::BeginOfSecond if is_host(second) => {
                "cai_array_synchronize(array) before the second; by hand: ".to_owned()
            }
            Forgotten::BeginOfSecond => {
                format!("cai_array_consume_begin(array, {of_second}) before the second; by hand: ")
            }
            Forgotten::BeginOfFirst => format!(
                "cai_array_consume_begin(array, {of_first}) before the first and cai_array_consume_end \
                 after it; by hand: "
            ),
            Forgotten::End => {
                format!("cai_array_consume_end(array, {of_first}) after the first; by hand: ")
            }
            Forgotten::LaterEnd => format!(
                "cai_array_consume_end(array, {of_first}) came before the first, its place is \
                 after it; by hand: "
            ),
        }
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
            Who::Branch { stream, graph } => {
                format!("a branch of graph {graph} on stream {stream}")
            }
        }
    }

    // --- reports
    // ----------------------------------------------------------------------------------------

    /// Races and broken rules found and not taken.
    pub fn found(&self) -> usize {
        self.races.iter().filter(|race| !race.remark).count()
    }

    /// The text of what was found and not printed yet.
    pub fn print(&mut self) -> Vec<String> {
        let fresh = self.printed..self.races.len();
        self.printed = self.races.len();
        self.races[fresh].iter().map(|race| race.text(&self.stacks)).collect()
    }

    pub fn json(&self) -> Vec<serde_json::Value> {
        self.races.iter().map(|race| race.json(&self.stacks)).collect()
    }

    /// What was exchanged, and which rules were broken how often.
    pub fn summary(&self) -> Option<String> {
        let [_, exports, begins, ends, waits, after, destroyed] = self.rules.notes;
        if !self.strict {
            return None;
        }
        let mut text = format!(
            "cai-race: {exports} exports, {begins} begins, {ends} ends, {waits} waits of the host, {after} releases \
             after a stream, {destroyed} owners destroyed\n"
        );
        for (rule, sentence) in RULES {
            let count = self.races.iter().filter(|race| race.rule == Some(rule)).count();
            if count > 0 {
                text += &format!("cai-race: {rule} {count} times: {sentence}\n");
            }
        }
        Some(text)
    }

    /// What was found so far, which from here on counts no more.
    pub fn take(&mut self) -> (usize, String) {
        let text = self.races.iter().map(|race| race.text(&self.stacks)).collect();
        let count = self.found();
        self.races.clear();
        self.printed = 0;
        (count, text)
    }
}
