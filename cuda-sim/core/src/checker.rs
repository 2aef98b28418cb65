//! The race checker: which accesses are ordered, and how a report describes a missing order.
//!
//! The order of stream work is fixed by the calls that the host makes, not by when the device runs
//! it. So each access is checked when it is enqueued, and the result holds for every schedule of
//! the device under which the host makes the same calls, and queries have the same answers.

use crate::access::{Access, READ, WRITE};
use crate::actor::{Actor, Identity, LEGACY, Number, Numbers, Who};
use crate::advice;
use crate::again::{Again, More};
use crate::clock::{Clock, Epoch, Knowledge};
use crate::config::Races;
use crate::foreign::Foreign;
use crate::open_waits::{Need, OpenWaits};
use crate::processes::{Count, Entry};
use crate::python;
use crate::race::{Key, Race};
use crate::rules::{MissingCall, Rules};
use crate::shadow::{Mark, Shadow};
use crate::site::{AllocationInfo, Content, Moment, Site};
use crate::stack::{StackId, Stacks};
use crate::timeline::Timeline;
use crate::waits::Waits;
use perhaps::{PERHAPS, Unsure};
use std::borrow::Cow;
use std::collections::hash_map::Entry as Known;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use told::Told;

mod numbers;
mod perhaps;
mod reports;
mod told;

struct ActorState {
    clock: Clock,
    identity: Arc<Identity>,
    /// Knowledge that counts only when it frees memory: drivers do not release memory that their
    /// own synchronous calls use.
    when_freeing: Knowledge,
    /// If calls gave it knowledge that may not have waited.
    unsure: Option<Box<Unsure>>,
    /// Whether its clock was read since its last own access. Then the next access is a new moment.
    published: bool,
}

/// The actors that had a number one after another.
#[derive(Default)]
struct Slot {
    /// The count at which the last of them ended.
    own: u64,
    state: Option<ActorState>,
    /// Whether it is in the list of those that were used.
    is_used: bool,
}

const ENDED_HOSTS: usize = 16;

/// Maximum number of earlier accesses that one access is found to race with.
const MOST_FOUND: usize = 1 << 16;

/// Ended actors that are considered for the reuse of a number to which something still refers.
const CONSIDERED: usize = 16;

#[derive(Default)]
pub struct Checker {
    pub mode: Races,
    /// By number.
    actors: Vec<Slot>,
    /// The actors whose clock may have changed since these were taken.
    used: Vec<Actor>,
    numbers: Numbers,
    /// Actors of other processes.
    pub foreign: Foreign,
    /// Ended actors whose numbers something may still refer to.
    retired: Vec<(Weak<Number>, Actor)>,
    /// The last host threads that ended, with what they knew, for reports.
    ended_hosts: VecDeque<(Arc<Identity>, Clock)>,
    /// Knowledge published at each address.
    objects: HashMap<usize, Knowledge>,
    pub stacks: Stacks,
    /// The place of the next access, if it is not the current one.
    pub place: Option<StackId>,
    races: Vec<Race>,
    /// The array exchanges that libraries report.
    pub rules: Rules,
    /// Whether refused and needlessly slow calls are reported too.
    strict: bool,
    threads_seen: bool,
    /// Waits for events that may run before the record.
    pub waits: Waits,
    /// Waits for values whose write is not known yet.
    pub open: OpenWaits,
    /// Accesses to pageable memory by copies that may be done after their calls.
    pageable: Shadow<Site>,
    told: Told<Key>,
    time: u64,
    reported: HashMap<Key, Again>,
    printed: usize,
    journaled: usize,
    /// The number of exchanges without order that the journal has.
    unordered_journaled: u64,
    /// The id of the newest finding.
    newest: u64,
    timeline: Option<Timeline>,
    /// Whether a report says why it has no Python lines.
    said: bool,
}

/// Returns a number that nothing refers to, which has a slot.
fn take_number(numbers: &mut Numbers, actors: &mut Vec<Slot>) -> Arc<Number> {
    let number = numbers.take();
    if number.value() == actors.len() {
        actors.push(Slot::default());
    }
    number
}

impl Checker {
    /// `threads_seen`: host threads are ordered only by what is observed.
    pub fn new(mode: Races, strict: bool, threads_seen: bool) -> Checker {
        Checker { mode, strict, threads_seen, ..Checker::default() }
    }

    /// Keeps the newest operations for reports.
    pub fn with_timeline(self) -> Checker {
        Checker { timeline: Some(Timeline::default()), ..self }
    }

    // --- actors ---

    /// Creates an actor that knows what its creator knows.
    pub fn actor(&mut self, creator: Option<Actor>, who: Who) -> Actor {
        let known = creator.map(|creator| self.snapshot(creator));
        let number = known
            .as_ref()
            .and_then(|known| self.known_number(known))
            .unwrap_or_else(|| take_number(&mut self.numbers, &mut self.actors));
        let actor = number.value();
        let slot = &mut self.actors[actor];
        let mut clock = Clock::new(number.clone(), slot.own);
        known.iter().for_each(|known| clock.join(known));
        let identity = Identity::new(number, who);
        let when_freeing = Knowledge::default();
        slot.state =
            Some(ActorState { clock, identity, when_freeing, unsure: None, published: false });
        self.state(actor);
        actor
    }

    /// Creates an actor that knows what another knows, and is described as `alias` is.
    pub fn like(&mut self, known: Actor, alias: Actor) -> Actor {
        let who = self.state(alias).identity.who.clone();
        self.actor(Some(known), who)
    }

    /// Returns the number of an ended actor of which all work is known to the creator of a new one:
    /// then all work of the new actor is ordered after it anyway, and accesses of both may have the
    /// number.
    fn known_number(&mut self, known: &Clock) -> Option<Arc<Number>> {
        let first = self.retired.len().saturating_sub(CONSIDERED);
        let at = (first..self.retired.len())
            .rev()
            .find(|at| known.of(self.retired[*at].1) >= self.actors[self.retired[*at].1].own)?;
        self.retired.swap_remove(at).0.upgrade()
    }

    /// Ends an actor. Its number is free when nothing refers to it any more.
    pub fn retire(&mut self, actor: Actor) {
        self.time += 1;
        self.rules.retire(actor, self.time);
        let slot = &mut self.actors[actor];
        let Some(ended) = slot.state.take() else { return };
        slot.own = ended.clock.own;
        if matches!(ended.identity.who, Who::Host { .. }) {
            self.ended_hosts.truncate(ENDED_HOSTS - 1);
            self.ended_hosts.push_front((ended.identity.clone(), ended.clock));
        }
        if self.retired.len() == self.retired.capacity() {
            self.retired.retain(|(number, _)| number.strong_count() > 0);
        }
        self.retired.push((Arc::downgrade(&ended.identity.number), actor));
    }

    /// Every change of a clock comes here first.
    fn state(&mut self, actor: Actor) -> &mut ActorState {
        let slot = &mut self.actors[actor];
        if !slot.is_used {
            slot.is_used = true;
            self.used.push(actor);
        }
        match &mut slot.state {
            Some(state) => state,
            None => unreachable!("an actor is not used after its end"),
        }
    }

    /// Returns the actors whose clock may have changed since the last call. Some may have ended.
    pub fn take_used(&mut self) -> Vec<Actor> {
        self.used.iter().for_each(|actor| self.actors[*actor].is_used = false);
        std::mem::take(&mut self.used)
    }

    pub fn name(&mut self, actor: Actor, name: &str) {
        self.state(actor).identity.set_name(name);
    }

    /// Returns what an actor knows now. Its later work is not part of the result.
    pub fn snapshot(&mut self, actor: Actor) -> Clock {
        let state = self.state(actor);
        state.published = true;
        state.clock.clone()
    }

    /// Begins a new moment of an actor, which others may know of, and returns it.
    pub fn mark(&mut self, actor: Actor) -> Epoch {
        self.state(actor).clock.step()
    }

    pub fn learn(&mut self, actor: Actor, known: &Clock) {
        self.draw_order(actor, known);
        self.state(actor).learn(known);
    }

    /// Keeps what an actor is about to learn, if a report draws it.
    fn draw_order(&mut self, actor: Actor, known: &Clock) {
        if self.timeline.is_none() {
            return;
        }
        let state = self.state(actor);
        if state.clock.includes(known) {
            return;
        }
        let to = state.identity.clone();
        let from = self.actors[known.actor()].state.as_ref().map(|state| state.identity.clone());
        if let (Some(timeline), Some(from)) = (&mut self.timeline, from) {
            timeline.order(self.time, from, known.now(), to);
        }
    }

    /// Adds what another process shares of its knowledge.
    pub fn learn_counts(&mut self, actor: Actor, counts: &[Count]) {
        let places: Vec<(Actor, u64)> = counts.iter().map(|count| self.place_of(*count)).collect();
        self.learn_all(actor, &Knowledge::of(places));
    }

    fn place_of(&mut self, count: Count) -> (Actor, u64) {
        let (numbers, actors) = (&mut self.numbers, &mut self.actors);
        self.foreign.translate(count, || {
            let number = take_number(numbers, actors);
            let base = actors[number.value()].own;
            (number, base)
        })
    }

    /// Reports a race with an access of another process.
    pub fn race_with_process(
        &mut self,
        old: &Entry,
        moment: &Moment,
        mode: u32,
        info: &AllocationInfo,
        (from, to): (u64, u64),
    ) {
        let (_, n) = self.place_of(old.at);
        let who = Who::Foreign { pid: old.pid, who: old.who.clone() };
        let identity = Identity::new(take_number(&mut self.numbers, &mut self.actors), who);
        let epoch = Epoch { actor: identity.actor(), n };
        let (label, stack) = (Cow::Owned(old.label.clone()), self.stacks.unknown());
        let thread = moment.mark.site.thread;
        let content = Content::Any;
        let site = Site {
            actor: identity.clone(),
            stream: identity,
            time: 0,
            label,
            stack,
            thread,
            content,
        };
        let first = Mark { epoch, site: Arc::new(site) };
        self.race(&first, old.access.mode, moment, mode, info, from, to);
    }

    pub fn learn_all(&mut self, actor: Actor, known: &Knowledge) {
        self.state(actor).learn_all(known);
    }

    /// Orders everything that `earlier` did so far before the next work of `later`.
    pub fn order(&mut self, earlier: Actor, later: Actor) {
        if earlier == later {
            self.state(earlier).published = true;
            return;
        }
        let known = self.snapshot(earlier);
        self.learn(later, &known);
    }

    /// Records that `earlier` used memory in a synchronous call of the host thread `later`. The
    /// call may have returned before the work was done; the thread may still free the memory.
    pub fn order_before_free(&mut self, earlier: Actor, later: Actor) {
        let known = self.snapshot(earlier);
        self.state(later).when_freeing.include(known);
    }

    /// Like `host`, for the end of an allocation.
    pub fn host_frees(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        let mut moment = self.host(actor, label, thread);
        let own = moment.clock.own;
        moment.clock.join_all(&self.state(actor).when_freeing);
        moment.clock.own = own;
        moment
    }

    pub fn hb_before(&mut self, actor: Actor, object: usize) {
        let known = self.snapshot(actor);
        self.objects.entry(object).or_default().include(known);
    }

    pub fn hb_after(&mut self, actor: Actor, object: usize) {
        self.state(actor);
        if let (Some(known), Some(state)) =
            (self.objects.get(&object), self.actors[actor].state.as_mut())
        {
            state.learn_all(known);
        }
    }

    /// Returns whether an actor comes after a wait for a number that nothing known has written.
    /// `None`: an actor that has ended.
    pub fn waits_openly(&self, actor: Option<Actor>) -> bool {
        let state = actor.and_then(|actor| self.actors[actor].state.as_ref());
        self.open.is_waited_for(state.map(|state| &state.clock))
    }

    // --- accesses ---

    /// Returns the moment of the next operation of a stream.
    pub fn step(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        self.step_of(actor, actor, label, thread, Content::Any)
    }

    /// Does the same for a branch of a graph, launched on a stream.
    pub fn step_of(
        &mut self,
        branch: Actor,
        stream: Actor,
        label: Cow<'static, str>,
        thread: u64,
        content: Content,
    ) -> Moment {
        self.state(branch).clock.step();
        self.moment(branch, stream, label, thread, content)
    }

    /// Returns the moment of an access by a host thread itself.
    pub fn host(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Moment {
        let state = self.state(actor);
        if state.published || state.clock.own == 0 {
            state.published = false;
            state.clock.step();
        }
        self.moment(actor, actor, label, thread, Content::Any)
    }

    fn moment(
        &mut self,
        actor: Actor,
        stream: Actor,
        label: Cow<'static, str>,
        thread: u64,
        content: Content,
    ) -> Moment {
        let stack = self.place.take().unwrap_or_else(|| self.stacks.here());
        self.time += 1;
        let time = self.time;
        let stream = self.state(stream).identity.clone();
        let ActorState { clock, identity, .. } = self.state(actor);
        let (clock, actor) = (clock.clone(), identity.clone());
        let epoch: Epoch = clock.now();
        let site = Arc::new(Site { actor, stream, time, label, stack, thread, content });
        if let Some(timeline) = &mut self.timeline {
            timeline.operation(&site);
        }
        Moment { clock, mark: Mark { epoch, site } }
    }

    /// Enters one access, clipped to the allocation.
    pub fn access(
        &mut self,
        shadow: &mut Shadow<Site>,
        info: &AllocationInfo,
        access: &Access,
        moment: &Moment,
    ) {
        let mut found = Vec::new();
        access.for_each_range(|from, to| {
            let range = (from.max(info.base), to.min(info.base + info.size));
            shadow.access(
                range,
                access.mode,
                &moment.clock,
                &moment.mark,
                &mut |mark, mode, from, to| {
                    if found.len() < MOST_FOUND {
                        found.push((mark.clone(), mode, from.max(range.0), to.min(range.1)));
                    }
                },
            );
        });
        for (mark, mode, from, to) in found {
            self.race(&mark, mode, moment, access.mode, info, from, to);
        }
        let shared = matches!(moment.mark.site.stream.who, Who::Stream { kind: LEGACY, .. });
        if let Some((range, begin)) = self.rules.forbidden(&moment.mark.site, access, shared) {
            let advice = "CAI_ACCESS_WRITE in cai_array_consume_begin and cai_array_consume_end; \
                a read-only array has to be copied.";
            let bytes = Some((info.clone(), range));
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

    /// Returns an access to some bytes that a clock does not know of, if there is one.
    pub fn pending(
        &self,
        shadow: &Shadow<Site>,
        info: &AllocationInfo,
        access: &Access,
        clock: &Clock,
        of: &dyn Fn(&Site, u32, u64, u64) -> bool,
    ) -> Option<(Mark<Site>, u32, u64, u64)> {
        let mut found = None;
        access.for_each_range(|from, to| {
            let range = (from.max(info.base), to.min(info.base + info.size));
            shadow.pending(range, access.mode, clock, &mut |mark, mode, from, to| {
                if found.is_none() && of(&mark.site, mode, from, to) {
                    found = Some((mark.clone(), mode, from, to));
                }
            });
        });
        found
    }

    /// Reports a broken rule of exchange.
    pub fn broken(
        &mut self,
        rule: &'static str,
        first: Option<(&Site, u32)>,
        second: &Site,
        mode: u32,
        bytes: Option<(AllocationInfo, (u64, u64))>,
        advice: String,
    ) {
        let remark = rule == "R9";
        if matches!(rule, "R8" | "R9" | "R10") && !self.strict {
            return;
        }
        let kind = 1000 + rule.bytes().map(u32::from).sum::<u32>();
        let earlier = first.map_or(second, |(site, _)| site);
        let fresh = self.fresh(kind, earlier, second, (0, 0), |_| Vec::new());
        let Some((key, _)) = fresh else { return };
        self.newest += 1;
        let race = Race {
            id: self.newest,
            key,
            rule: Some(rule),
            missing_call: None,
            first: first.map(|(site, mode)| advice::side(site, mode)),
            second: advice::side(second, mode),
            bytes: bytes.map(|(info, (from, to))| {
                let end = info.base + info.size;
                let (from, to) = (from.clamp(info.base, end), to.clamp(info.base, end));
                (info, from, to)
            }),
            told: More::default(),
            advice,
            wait: None,
            threads: None,
            waited: None,
            number: None,
            no_python: self.no_python(),
            remark,
            rows: Vec::new(),
        };
        self.races.push(race);
    }

    /// Returns the place of the current call, for rules that no access breaks.
    pub fn here(&mut self, actor: Actor, label: Cow<'static, str>, thread: u64) -> Arc<Site> {
        self.here_on(actor, actor, label, thread)
    }

    /// Returns the place of the current call on a stream.
    pub fn here_on(
        &mut self,
        actor: Actor,
        stream: Actor,
        label: Cow<'static, str>,
        thread: u64,
    ) -> Arc<Site> {
        self.time += 1;
        let (time, stack) = (self.time, self.stacks.here());
        let stream = self.state(stream).identity.clone();
        let actor = self.state(actor).identity.clone();
        Arc::new(Site { actor, stream, time, label, stack, thread, content: Content::Any })
    }

    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Reports an access to memory that was freed before, whatever the order on the device.
    pub fn use_after_free(
        &mut self,
        freed: Arc<Site>,
        info: &AllocationInfo,
        access: &Access,
        moment: &Moment,
    ) {
        let first = Mark { epoch: Epoch { actor: freed.actor.actor(), n: 0 }, site: freed };
        let from = access.address;
        let to = (from + access.nbytes).min(info.base + info.size);
        self.race(&first, WRITE, moment, access.mode, info, from, to);
    }

    fn no_python(&mut self) -> Option<&'static str> {
        python::refused().filter(|_| !std::mem::replace(&mut self.said, true))
    }

    fn key(&mut self, kinds: u32, first: &Site, second: &Site) -> Key {
        let callers = [first.stack, second.stack].map(|stack| self.stacks.caller(stack));
        Key::new(kinds, callers, [&first.label, &second.label])
    }

    /// Returns what names a finding, if it was not found before, and what `needs` returns: the waits
    /// that may still order the two.
    fn fresh(
        &mut self,
        kinds: u32,
        first: &Site,
        second: &Site,
        range: (u64, u64),
        needs: impl FnOnce(&OpenWaits) -> Vec<Need>,
    ) -> Option<(Key, Vec<Need>)> {
        let stacks = [first.stack, second.stack];
        let key = self.key(kinds, first, second);
        match self.reported.entry(key) {
            Known::Vacant(new) => {
                let needs = needs(&self.open);
                new.insert(Again::new(range, stacks, !needs.is_empty()));
                Some((key, needs))
            }
            Known::Occupied(mut known) if known.get().is_held => {
                let needs = needs(&self.open);
                if needs.is_empty() {
                    // One that nothing can rule out takes the place of those that a write may.
                    known.insert(Again::new(range, stacks, false));
                    self.open.drop_held(key);
                    return Some((key, needs));
                }
                // Another write may rule this one out.
                self.open.differs(key, &needs).then_some((key, needs))
            }
            Known::Occupied(mut known) => {
                known.get_mut().add(range, stacks);
                None
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn race(
        &mut self,
        first: &Mark<Site>,
        mode: u32,
        moment: &Moment,
        other: u32,
        info: &AllocationInfo,
        from: u64,
        to: u64,
    ) {
        let (kinds, second) = (mode << 4 | other, &moment.mark);
        if self.open.orders(first.epoch, &moment.clock) {
            return;
        }
        let remark = other & PERHAPS != 0;
        let key = self.key(kinds, &first.site, &second.site);
        let is_explained = self.told.explains(first, &moment.clock);
        if is_explained && !self.reported.contains_key(&key) {
            return;
        }
        let needs = |open: &OpenWaits| open.needs(first.epoch, &moment.clock, moment.mark.epoch);
        let fresh = self.fresh(kinds, &first.site, &second.site, (from, to), needs);
        let is_certain =
            fresh.as_ref().map_or_else(|| needs(&self.open).is_empty(), |(_, all)| all.is_empty());
        if is_certain && !remark && !is_explained {
            self.told.add(key, fresh.is_some(), first, second);
        }
        let Some((key, needs)) = fresh else { return };
        // The end of an allocation is not a use by a consumer, so no begin is missing.
        let ends = |site: &Site| {
            ["Free", "Unregister", "Unmap"].iter().any(|word| site.label.contains(word))
        };
        let missing_call = self.rules.missing_call(&first.site, &second.site, from, to);
        let missing_call = missing_call.filter(|what| match what {
            MissingCall::End | MissingCall::LaterEnd => true,
            _ => !ends(&first.site) && !ends(&second.site),
        });
        let rule = missing_call.and_then(MissingCall::rule);
        let (waited, number) = self.not_observed(first, moment);
        let advice = waited.map_or_else(
            || advice::missing(&first.site, &second.site),
            |waited| advice::order_of_threads(waited, second.site.thread),
        );
        let advice = missing_call.map_or(advice.clone(), |what| {
            advice::missing_call(what, &first.site, &second.site) + &advice
        });
        let wait = self.waits.between(first.epoch, &moment.clock).map(advice::calls);
        self.newest += 1;
        let race = Race {
            id: self.newest,
            key,
            wait,
            rule,
            missing_call,
            first: Some(advice::side(&first.site, mode)),
            second: advice::side(&second.site, other),
            bytes: Some((info.clone(), from, to)),
            told: More::default(),
            advice,
            threads: (self.threads_seen && first.site.thread != second.site.thread)
                .then_some((first.site.thread, second.site.thread)),
            waited,
            number,
            no_python: self.no_python(),
            remark,
            rows: self.timeline.as_ref().map_or_else(Vec::new, |timeline| {
                timeline.rows(&first.site, first.epoch, &second.site)
            }),
        };
        if needs.is_empty() {
            self.races.push(race);
        } else {
            self.open.hold(race, needs);
        }
    }
}
