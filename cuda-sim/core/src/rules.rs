//! The rules of exchanging arrays (the CUDA Array Interface), on top of the race checker.
//!
//! Libraries report their exports and uses, which are checked against the known accesses. An export
//! is an array that a producer published, identified by its owner and its bytes. A consumer is one
//! stream, or host thread, that began to use it. R1, R2, R5, R6 and R7 are found with the data kept
//! here; R3 and R4 are names for races with a missing begin or end, and R1 and R2 for those that a
//! begin did not prevent; R8, R9 and R10 are reported by the call that refused, waited or was refused.
//!
//! The same bytes may be exported more than once, by owners that do not know of each other: views
//! of one tensor. So a use is looked up in all of them before it counts as missing.

use crate::access::{Access, READ, WRITE, common, without};
use crate::actor::{Actor, Who};
use crate::site::Site;
use std::collections::HashMap;
use std::sync::Arc;

/// The rules, each in a sentence, for reports and for the summary.
pub const RULES: [(&str, &str); 10] = [
    ("R1", "an array is exported without a stream only when nothing is pending on it"),
    (
        "R2",
        "waiting for the exported stream is enough to wait for all work that is pending on the \
         array",
    ),
    ("R3", "a consumer waits for the producer before it touches the array"),
    ("R4", "the producer's stream waits for the consumer before the producer continues"),
    ("R5", "the owner lives until the consumer's last operation on the array is done"),
    ("R6", "the exported stream lives as long as the exported array"),
    ("R7", "a read-only array, or one that was only to be read, is not written"),
    ("R8", "a stream is named so that it means the same to both sides"),
    ("R9", "an event orders streams without blocking the host"),
    ("R10", "nothing illegal is called while a stream is being captured"),
];

pub fn sentence(rule: &str) -> &'static str {
    RULES.iter().find(|(name, _)| *name == rule).map_or("", |(_, text)| text)
}

/// The relation of an access to an export.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The producer's: on the exported stream, or before the export.
    Own,
    /// Without a begin.
    NotBegun,
    /// After the begin, with no end yet.
    Open,
    /// Between begin and end.
    Proper,
    /// After the end.
    TooLate,
}

/// A stream or host thread that uses an export.
struct Consumer {
    actor: Actor,
    mode: u32,
    began: u64,
    ended: Option<u64>,
    /// The host waited for the data and may use it without an end.
    waited: bool,
    /// It ended before the newest export: a new use needs a new begin.
    stale: bool,
    /// The time from which the actor's number belongs to another actor.
    gone: u64,
    /// The time when the reference was left to the stream: later work of the stream is not a use.
    left: u64,
    begin: Arc<Site>,
}

impl Consumer {
    fn is_open(&self) -> bool {
        self.ended.is_none() && self.gone == NEVER
    }

    fn use_at(&self, time: u64) -> Use {
        match self.ended {
            _ if time < self.began => Use::NotBegun,
            _ if self.waited => Use::Proper,
            None => Use::Open,
            Some(end) if time <= end => Use::Proper,
            Some(_) if time > self.left => Use::Own,
            Some(_) => Use::TooLate,
        }
    }
}

const NEVER: u64 = u64::MAX;

/// Flags of a report: `CUDASIM_CAI_READONLY`, `CUDASIM_CAI_FOREIGN_OWNER`, `CUDASIM_CAI_UNORDERED`.
pub const READONLY: u32 = 1;
pub const FOREIGN_OWNER: u32 = 2;
pub const UNORDERED: u32 = 4;

/// A published array.
pub struct Export {
    owner: u64,
    pub bytes: Access,
    readonly: bool,
    /// Whether the end of its owner is not reported.
    foreign: bool,
    /// The id of its stream, as the library stated it; 0 if it has none.
    stream_id: u64,
    /// `None` for CAI_STREAM_NONE and CAI_STREAM_UNKNOWN.
    pub stream: Option<Actor>,
    /// Whether the stream was unknown at a begin.
    unknown: bool,
    /// The time and the place of the export, or of its first known use.
    since: u64,
    site: Arc<Site>,
    consumers: Vec<Consumer>,
}

impl Export {
    fn consumer(&self, actor: Actor, time: u64) -> Option<&Consumer> {
        self.consumers.iter().find(|consumer| consumer.actor == actor && time < consumer.gone)
    }

    fn uses_of(&mut self, actor: Actor) -> impl Iterator<Item = &mut Consumer> {
        self.consumers.iter_mut().filter(move |consumer| consumer.actor == actor)
    }

    /// Returns the relation of an access by this actor at this time to the export.
    fn use_of(&self, actor: Actor, time: u64) -> Use {
        if self.stream == Some(actor) {
            return Use::Own;
        }
        match self.consumer(actor, time) {
            Some(consumer) if consumer.stale && time >= self.since => Use::NotBegun,
            Some(consumer) if consumer.use_at(time) != Use::NotBegun => consumer.use_at(time),
            _ if time >= self.since => Use::NotBegun,
            _ => Use::Own,
        }
    }
}

/// An array whose stream was destroyed; its owner may have ended before, which is not reported.
pub struct Orphan {
    owner: u64,
    stream_id: u64,
    pub exported: Arc<Site>,
    pub destroyed: Arc<Site>,
}

/// Maximum number of those. The oldest are forgotten.
const ORPHANS: usize = 256;

/// The missing call, if two accesses race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingCall {
    BeginOfFirst,
    BeginOfSecond,
    /// The array names no stream, so the second may be the producer's.
    BeginOrStream,
    End,
    /// The end came before the last use.
    LaterEnd,
    /// The begin of the second waited for nothing: the array names no stream.
    Stream,
    /// It could not: the array's stream is unknown.
    KnownStream,
    /// It waited for another stream than that of the first.
    Join,
}

impl MissingCall {
    pub fn rule(self) -> Option<&'static str> {
        match self {
            MissingCall::BeginOfFirst | MissingCall::BeginOfSecond | MissingCall::BeginOrStream => {
                Some("R3")
            }
            MissingCall::End | MissingCall::LaterEnd => Some("R4"),
            MissingCall::Stream => Some("R1"),
            MissingCall::Join => Some("R2"),
            MissingCall::KnownStream => None,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            MissingCall::BeginOfFirst | MissingCall::BeginOfSecond => {
                "cai_array_consume_begin is missing"
            }
            MissingCall::BeginOrStream => {
                "cai_array_consume_begin is missing, or the array does not name the producer's stream"
            }
            MissingCall::End => "cai_array_consume_end is missing",
            MissingCall::LaterEnd => "cai_array_consume_end is missing after the last use",
            MissingCall::Stream => "the array names no stream",
            MissingCall::KnownStream => "the array's stream is unknown",
            MissingCall::Join => "the array names another stream than that of the first",
        }
    }
}

/// Maximum number of borrowed arrays that are tracked. No end of an owner removes them.
const BORROWED: usize = 1024;

/// The begins that ordered nothing because the stream was unknown. They break no rule: nothing may
/// have been pending.
pub struct Unordered {
    pub count: u64,
    /// The first one, and the accesses that it announced.
    pub first: (Arc<Site>, u32),
}

#[derive(Default)]
pub struct Rules {
    exports: HashMap<u64, Export>,
    next: u64,
    /// Exports by owner; owner 0 has the borrowed arrays.
    owned: HashMap<u64, Vec<u64>>,
    /// The exports in which an actor has an open consumer.
    open: HashMap<Actor, Vec<u64>>,
    /// Whether an owner was reported whose end is not.
    has_foreign: bool,
    orphans: Vec<Orphan>,
    /// The number of events of each kind.
    pub notes: [u64; 7],
    pub unordered: Option<Unordered>,
}

impl Rules {
    /// Records an export. Uses that are open continue.
    pub fn export(
        &mut self,
        owner: u64,
        bytes: Access,
        flags: u32,
        stream: Option<Actor>,
        stream_id: u64,
        site: &Arc<Site>,
    ) {
        self.orphans.retain(|orphan| orphan.owner != owner);
        let id = self.known(owner, bytes, flags, stream, site);
        let Some(export) = self.exports.get_mut(&id) else { return };
        (export.readonly, export.stream) = (flags & READONLY != 0, stream);
        export.stream_id = stream_id;
        (export.since, export.site) = (site.time, site.clone());
        for consumer in &mut export.consumers {
            consumer.stale |= !consumer.is_open();
        }
    }

    /// Returns the export of these bytes by this owner, which it creates if there is none.
    fn known(
        &mut self,
        owner: u64,
        bytes: Access,
        flags: u32,
        stream: Option<Actor>,
        site: &Arc<Site>,
    ) -> u64 {
        let ids = self.owned.entry(owner).or_default();
        let same =
            |id: &&u64| self.exports.get(id).is_some_and(|export| export.bytes.same_bytes(&bytes));
        if let Some(id) = ids.iter().find(same) {
            return *id;
        }
        if owner == 0 && ids.len() >= BORROWED {
            self.drop_if(|export| {
                export.owner == 0 && !export.consumers.iter().any(Consumer::is_open)
            });
        }
        let id = self.next;
        self.next += 1;
        self.owned.entry(owner).or_default().push(id);
        let (since, site) = (site.time, site.clone());
        let (readonly, foreign) = (flags & READONLY != 0, flags & FOREIGN_OWNER != 0);
        self.has_foreign |= foreign;
        let export = Export {
            owner,
            bytes,
            readonly,
            foreign,
            stream_id: 0,
            stream,
            unknown: false,
            since,
            site,
            consumers: Vec::new(),
        };
        self.exports.insert(id, export);
        id
    }

    /// Counts a begin that ordered nothing.
    pub fn left_unordered(&mut self, mode: u32, site: &Arc<Site>) {
        let fresh = || Unordered { count: 0, first: (site.clone(), mode) };
        self.unordered.get_or_insert_with(fresh).count += 1;
    }

    pub fn begin(
        &mut self,
        owner: u64,
        bytes: Access,
        flags: u32,
        stream: Option<Actor>,
        actor: Actor,
        site: &Arc<Site>,
    ) {
        let id = self.known(owner, bytes, flags, stream, site);
        let Some(export) = self.exports.get_mut(&id) else { return };
        export.unknown |= flags & UNORDERED != 0;
        let fresh = Consumer {
            actor,
            mode: bytes.mode,
            began: site.time,
            ended: None,
            waited: false,
            stale: false,
            gone: NEVER,
            left: NEVER,
            begin: site.clone(),
        };
        let earlier = export.uses_of(actor).find(|consumer| consumer.gone == NEVER);
        match earlier {
            Some(consumer) if consumer.is_open() => {
                consumer.mode |= bytes.mode;
                return;
            }
            Some(consumer) => {
                let began = if consumer.stale { fresh.began } else { consumer.began };
                *consumer = Consumer { began, ..fresh };
            }
            None => export.consumers.push(fresh),
        }
        self.open.entry(actor).or_default().push(id);
    }

    pub fn end(&mut self, owner: u64, bytes: &Access, actor: Actor, time: u64) {
        for id in self.owned.get(&owner).into_iter().flatten() {
            let Some(export) = self.exports.get_mut(id) else { continue };
            if !export.bytes.same_bytes(bytes) {
                continue;
            }
            for consumer in export.uses_of(actor).filter(|consumer| consumer.is_open()) {
                consumer.ended = Some(time);
                close(&mut self.open, actor, *id);
            }
        }
    }

    /// Records that a consumer's reference is released once its stream has reached this point.
    pub fn leave(&mut self, owner: u64, actor: Actor, time: u64) {
        for id in self.owned.get(&owner).into_iter().flatten() {
            let Some(export) = self.exports.get_mut(id) else { continue };
            for consumer in export.uses_of(actor).filter(|consumer| consumer.left == NEVER) {
                consumer.left = time;
            }
        }
    }

    /// Records that the host waited: from here on it may use the bytes.
    pub fn waited(
        &mut self,
        owner: u64,
        bytes: Access,
        flags: u32,
        stream: Option<Actor>,
        host: Actor,
        site: &Arc<Site>,
    ) {
        self.begin(owner, bytes, flags, stream, host, site);
        self.end(owner, &bytes, host, site.time);
        for id in self.owned.get(&owner).into_iter().flatten() {
            let Some(export) =
                self.exports.get_mut(id).filter(|export| export.bytes.same_bytes(&bytes))
            else {
                continue;
            };
            export.uses_of(host).for_each(|consumer| consumer.waited = true);
        }
    }

    pub fn destroy(&mut self, owner: u64) -> Vec<Export> {
        let ids = if owner == 0 { None } else { self.owned.remove(&owner) };
        let gone = ids.into_iter().flatten().filter_map(|id| {
            let export = self.exports.remove(&id)?;
            export.consumers.iter().for_each(|consumer| close(&mut self.open, consumer.actor, id));
            Some(export)
        });
        gone.collect()
    }

    fn drop_if(&mut self, gone: impl Fn(&Export) -> bool) {
        let ids: Vec<u64> =
            self.exports.iter().filter(|(_, export)| gone(export)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(export) = self.exports.remove(&id) else { continue };
            export.consumers.iter().for_each(|consumer| close(&mut self.open, consumer.actor, id));
            if let Some(owned) = self.owned.get_mut(&export.owner) {
                owned.retain(|other| *other != id);
            }
        }
    }

    /// Removes the exports in memory that ended, of those whose end is not reported.
    pub fn forget(&mut self, from: u64, to: u64) {
        if self.has_foreign || self.owned.get(&0).is_some_and(|borrowed| !borrowed.is_empty()) {
            self.drop_if(|export| {
                (export.owner == 0 || export.foreign) && export.bytes.touches(from, to)
            });
        }
    }

    /// Records the end of a stream, whose number may be reused. Its exports are no longer tracked.
    pub fn retire(&mut self, actor: Actor, now: u64) {
        if self.exports.is_empty() {
            return;
        }
        self.drop_if(|export| export.stream == Some(actor));
        for export in self.exports.values_mut() {
            for consumer in export.uses_of(actor).filter(|consumer| consumer.gone == NEVER) {
                consumer.gone = now;
            }
        }
        self.open.remove(&actor);
    }

    /// Returns where an array was exported with this stream whose owner may be alive.
    pub fn exported_with(&self, actor: Actor) -> bool {
        self.exports.values().any(|export| export.owner != 0 && export.stream == Some(actor))
    }

    /// Records the end of a stream at `here`. Returns where a live array was exported with it.
    /// Arrays of foreign owners, which may have ended or be ending, become orphans.
    pub fn stream_ends(&mut self, actor: Actor, here: &Arc<Site>) -> Option<Arc<Site>> {
        let exported = |export: &&Export| export.owner != 0 && export.stream == Some(actor);
        let (foreign, own): (Vec<_>, Vec<_>) =
            self.exports.values().filter(exported).partition(|export| export.foreign);
        let orphans = foreign.iter().filter(|export| export.stream_id != 0).map(|export| Orphan {
            owner: export.owner,
            stream_id: export.stream_id,
            exported: export.site.clone(),
            destroyed: here.clone(),
        });
        self.orphans.extend(orphans);
        let surplus = self.orphans.len().saturating_sub(ORPHANS);
        self.orphans.drain(..surplus);
        own.iter().max_by_key(|export| export.since).map(|export| export.site.clone())
    }

    /// Returns the array whose use by a library shows that it outlived its stream.
    pub fn used_orphan(&mut self, owner: u64, stream_id: u64) -> Option<Orphan> {
        let is_it = |orphan: &Orphan| orphan.owner == owner && orphan.stream_id == stream_id;
        let at = self.orphans.iter().position(is_it)?;
        Some(self.orphans.swap_remove(at))
    }

    /// Returns whether this is an access of a consumer that will order it before the producer's
    /// next work: its own work, and work that it gave to other streams since it began. After the
    /// end that holds for reads only: nothing waits for the readers of an array without a stream.
    pub fn is_consumers(&self, site: &Site, mode: u32, from: u64, to: u64) -> bool {
        let exports = self.exports.values().filter(|export| export.bytes.touches(from, to));
        exports.into_iter().any(|export| {
            let may = |consumer: &Consumer| mode == READ || consumer.mode & WRITE != 0;
            let of = export.use_of(site.stream.actor(), site.time);
            of == Use::Open
                || (of == Use::Proper && mode == READ)
                || export.consumers.iter().any(|consumer| {
                    consumer.is_open() && consumer.began <= site.time && may(consumer)
                })
        })
    }

    /// Returns whether this was an access of a consumer of an export that was just removed.
    pub fn was_use_of(&self, gone: &Export, site: &Site, from: u64, to: u64) -> bool {
        match gone.use_of(site.stream.actor(), site.time) {
            Use::Open | Use::Proper => true,
            // Unless the access was through another export of these bytes.
            Use::TooLate => !self.exports.values().any(|export| {
                matches!(export.use_of(site.stream.actor(), site.time), Use::Open | Use::Proper)
                    && export.bytes.touches(from, to)
            }),
            Use::Own | Use::NotBegun => false,
        }
    }

    /// Returns the first bytes that a write touches although the actor may only read them, and
    /// where it began to read. Many threads use a `shared` stream: there, only the thread that
    /// began counts.
    pub fn forbidden(
        &self,
        site: &Site,
        access: &Access,
        shared: bool,
    ) -> Option<((u64, u64), Arc<Site>)> {
        let actor = site.stream.actor();
        if access.mode & WRITE == 0 {
            return None;
        }
        let exports = self.open.get(&actor)?.iter().filter_map(|id| self.exports.get(id));
        let open = exports.filter_map(|export| {
            let consumer = export
                .consumers
                .iter()
                .find(|consumer| consumer.actor == actor && consumer.is_open())?;
            if shared && consumer.begin.thread != site.thread {
                return None;
            }
            export.bytes.hulls_touch(access).then_some((export, consumer))
        });
        let (writable, readable): (Vec<_>, Vec<_>) =
            open.partition(|(export, consumer)| consumer.mode & WRITE != 0 && !export.readonly);
        for (export, consumer) in readable.iter().filter(|(export, _)| export.stream != Some(actor))
        {
            let mut left = common(&access.ranges(), &export.bytes.ranges());
            for (other, _) in &writable {
                left = without(&left, &other.bytes.ranges());
            }
            if let Some(first) = left.first() {
                return Some((*first, consumer.begin.clone()));
            }
        }
        None
    }

    /// Returns the missing call if two accesses race; the second happens now.
    pub fn missing_call(
        &self,
        first: &Site,
        second: &Site,
        from: u64,
        to: u64,
    ) -> Option<MissingCall> {
        let (mut earlier, mut later) = (Vec::new(), Vec::new());
        let (mut uncovered, mut named) = (None, false);
        for export in self.exports.values().filter(|export| export.bytes.touches(from, to)) {
            named |= export.stream.is_some();
            let producer = first.stream.actor();
            let of_first = export.use_of(producer, first.time);
            let of_second = export.use_of(second.stream.actor(), second.time);
            if of_first == Use::Own && matches!(of_second, Use::Open | Use::Proper) {
                uncovered = match export.stream {
                    Some(stream) if stream != producer => Some(MissingCall::Join),
                    None if export.unknown => Some(MissingCall::KnownStream),
                    None => Some(MissingCall::Stream),
                    Some(_) => uncovered,
                };
            }
            earlier.push(of_first);
            later.push(of_second);
        }
        let missing = |uses: &[Use], kinds: &[Use]| {
            uses.iter().any(|of| kinds.contains(of))
                && !uses.iter().any(|of| matches!(of, Use::Open | Use::Proper | Use::Own))
        };
        if earlier.contains(&Use::Open) {
            Some(MissingCall::End)
        } else if missing(&later, &[Use::NotBegun, Use::TooLate]) {
            let is_stream = !matches!(second.stream.who, Who::Host { .. });
            let may_be_the_producers = is_stream && !named;
            Some(if may_be_the_producers {
                MissingCall::BeginOrStream
            } else {
                MissingCall::BeginOfSecond
            })
        } else if missing(&earlier, &[Use::TooLate]) {
            Some(MissingCall::LaterEnd)
        } else if missing(&earlier, &[Use::NotBegun]) {
            Some(MissingCall::BeginOfFirst)
        } else {
            uncovered.filter(|_| !matches!(first.stream.who, Who::Host { .. }))
        }
    }
}

fn close(open: &mut HashMap<Actor, Vec<u64>>, actor: Actor, id: u64) {
    if let Some(ids) = open.get_mut(&actor) {
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            open.remove(&actor);
        }
    }
}
