//! The array exchanges that libraries report, checked against the rules.

use crate::access::{Access, READ, WRITE};
use crate::actor::Actor;
use crate::clock::Clock;
use crate::cudasim::Note;
use crate::handles;
use crate::results::Code;
use crate::rules::{Orphan, Rules, UNORDERED};
use crate::shadow::Mark;
use crate::sim::objects::StreamKind;
use crate::sim::state::{Sim, thread_id};
use crate::site::{AllocationInfo, Site};
use crate::work::StreamRef;
use std::borrow::Cow;

const EXPORT: u32 = 1;
const BEGIN: u32 = 2;
const END: u32 = 3;
const SYNCHRONIZE: u32 = 4;
const RELEASE_AFTER: u32 = 5;
const DESTROY: u32 = 6;
const NONE: u64 = u64::MAX;
const UNKNOWN: u64 = u64::MAX - 1;

/// Advice about a stream that ends before its array.
const STREAM_FIRST: &str =
    "destroy the stream after the array: the owner has to keep it, as with cai_array_attach.";

/// Returns the name of a library's call, for reports.
fn name_of(kind: u32) -> &'static str {
    match kind {
        EXPORT => "cai_array_produce",
        BEGIN => "cai_array_consume_begin",
        END => "cai_array_consume_end",
        SYNCHRONIZE => "cai_array_synchronize",
        RELEASE_AFTER => "cai_owner_release_after",
        _ => "the last release of an owner",
    }
}

/// The stream that an array names.
struct Named {
    actor: Actor,
    /// The actors that its next operation waits for by the rules of the default streams.
    implied: Vec<Actor>,
    captures: bool,
}

/// An access that is not ordered: its origin and its bytes.
struct Pending {
    mark: Mark<Site>,
    mode: u32,
    info: AllocationInfo,
    range: (u64, u64),
}

impl Sim {
    /// Returns the stream that an array names, in its context. Nothing is enqueued there: an event
    /// changes nothing.
    fn stream_of_array(&mut self, value: u64, context: u64) -> Option<Named> {
        if matches!(value, 0 | NONE | UNKNOWN) {
            return None;
        }
        let pushed = value <= 2 && context != 0;
        let before = handles::CURRENT.get();
        if pushed {
            handles::CURRENT.set((context, before.1));
            self.thread().contexts.push(context);
        }
        let stream = self.stream(value, 1);
        if pushed {
            self.thread().contexts.pop();
            handles::CURRENT.set(before);
        }
        let found = self.get(stream.ok()?)?;
        let context = self.contexts.get(found.context)?;
        let of = |stream: &StreamRef| self.get(*stream).and_then(|stream| stream.actor);
        let implied = match found.kind {
            StreamKind::NonBlocking => Vec::new(),
            StreamKind::Legacy => {
                context.dirty.iter().filter_map(of).chain(context.gone[0]).collect()
            }
            StreamKind::Blocking | StreamKind::PerThread => {
                of(&context.legacy).into_iter().collect()
            }
        };
        Some(Named { actor: found.actor?, implied, captures: found.lane.is_some() })
    }

    /// Returns the knowledge of this thread and of these streams.
    fn known_here(&mut self, streams: &[Actor]) -> Option<Clock> {
        let host = self.host_actor();
        let checker = self.checker.as_mut()?;
        let mut clock = checker.snapshot(host);
        for stream in streams {
            clock.join(&checker.snapshot(*stream));
        }
        Some(clock)
    }

    /// Enters an event. `rule`: the rule for which the library itself refused the call.
    pub fn exchange(&mut self, note: &Note, rule: Option<&'static str>) {
        if self.checker.is_none() {
            return;
        }
        let host = self.host_actor();
        let label = self.label(name_of(note.kind));
        let thread = u64::from(thread_id());
        let bytes = self.memory.on_device(&note.bytes);
        let flags = note.flags;
        let named = self.stream_of_array(note.stream, note.context);
        let stream = named.as_ref().map(|named| named.actor);
        let consumer = match note.kind {
            BEGIN | END | RELEASE_AFTER => {
                self.stream_of_array(note.consumer, note.consumer_context).map(|named| named.actor)
            }
            _ => None,
        };
        let Some(checker) = &mut self.checker else { return };
        let here = checker.here(host, label, thread);
        if let Some(count) = checker.rules.notes.get_mut(note.kind as usize) {
            *count += 1;
        }
        if matches!(note.kind, BEGIN | END | SYNCHRONIZE) && note.stream_id != 0 {
            if let Some(orphan) = checker.rules.used_orphan(note.owner, note.stream_id) {
                let Orphan { exported, destroyed, .. } = orphan;
                let advice = format!("{STREAM_FIRST} It was used afterwards by {}.", here.label);
                checker.broken("R6", Some((&exported, 0)), &destroyed, 0, None, advice);
            }
        }
        if note.status != 0 {
            // A refused call returned its status and touched nothing.
            if let Some(rule) = rule.filter(|_| checker.is_strict()) {
                let advice = format!("see the status: {}", note.status);
                checker.broken(rule, None, &here, 0, None, advice);
            }
            return;
        }
        match note.kind {
            EXPORT => {
                checker.rules.export(note.owner, bytes, flags, stream, note.stream_id, &here);
                self.check_export(note.stream, named, &bytes, &here);
            }
            BEGIN => {
                if flags & UNORDERED != 0 {
                    checker.rules.left_unordered(note.bytes.mode, &here);
                }
                if let Some(consumer) = consumer {
                    // Also one that waited for an event.
                    let unknown = if note.stream == UNKNOWN { UNORDERED } else { 0 };
                    let flags = flags | unknown;
                    checker.rules.begin(note.owner, bytes, flags, stream, consumer, &here);
                }
            }
            END => {
                if let Some(consumer) = consumer {
                    checker.rules.end(note.owner, &bytes, consumer, here.time);
                }
            }
            SYNCHRONIZE => {
                checker.rules.waited(note.owner, bytes, flags, stream, host, &here);
                if stream.is_some() {
                    let advice =
                        "nothing where the host reads the data; else cai_array_consume_begin."
                            .to_owned();
                    checker.broken("R9", None, &here, 0, None, advice);
                }
            }
            RELEASE_AFTER => {
                if let Some(consumer) = consumer {
                    checker.rules.leave(note.owner, consumer, here.time);
                }
            }
            DESTROY => self.check_destroy(note.owner, &here),
            _ => {}
        }
    }

    /// Checks R1 and R2.
    fn check_export(&mut self, value: u64, stream: Option<Named>, bytes: &Access, here: &Site) {
        // Captured work runs at launches, whose order is not known yet.
        if value == UNKNOWN || stream.as_ref().is_some_and(|stream| stream.captures) {
            return;
        }
        let (rule, advice) = if stream.is_some() {
            (
                "R2",
                "name this stream too in cai_array_produce, which joins it into the exported one.",
            )
        } else {
            (
                "R1",
                "name the stream in cai_array_produce; CAI_STREAM_NONE promises that nothing is \
                 pending.",
            )
        };
        let streams: Vec<Actor> = stream
            .into_iter()
            .flat_map(|named| [vec![named.actor], named.implied].concat())
            .collect();
        let Some(clock) = self.known_here(&streams) else { return };
        // Consumers report the end of their own work, so it does not count here.
        let found = self.unordered(&clock, bytes, &|rules, site, mode, from, to| {
            !rules.is_consumers(site, mode, from, to)
        });
        self.report_broken(rule, found, here, advice);
    }

    fn check_destroy(&mut self, owner: u64, here: &Site) {
        let Some(checker) = &mut self.checker else { return };
        for export in checker.rules.destroy(owner) {
            let everything = Access { mode: READ | WRITE, ..export.bytes };
            let Some(clock) = self.known_here(export.stream.as_slice()) else { return };
            let found = self.unordered(&clock, &everything, &|rules, site, _, from, to| {
                rules.was_use_of(&export, site, from, to)
            });
            let advice = if export.stream.is_some() {
                "cai_owner_release_after, or cai_array_consume_end before the release."
            } else {
                "cai_owner_release_after: nothing waits for the consumer of an array without a \
                 stream."
            };
            self.report_broken("R5", found, here, advice);
        }
    }

    /// Returns an access to some bytes that this clock does not know of, among those that `counts`
    /// selects.
    fn unordered(
        &mut self,
        clock: &Clock,
        bytes: &Access,
        counts: &dyn Fn(&Rules, &Site, u32, u64, u64) -> bool,
    ) -> Option<Pending> {
        let (from, to) = bytes.hull();
        for base in self.memory.inside(from, to) {
            let Some(allocation) = self.memory.allocations.get(&base) else { continue };
            let info = allocation.info();
            let checker = self.checker.as_ref()?;
            let counts = |site: &Site, mode, from, to| counts(&checker.rules, site, mode, from, to);
            if let Some((mark, mode, from, to)) =
                checker.pending(&allocation.shadow, &info, bytes, clock, &counts)
            {
                return Some(Pending { mark, mode, info, range: (from, to) });
            }
        }
        None
    }

    fn report_broken(
        &mut self,
        rule: &'static str,
        found: Option<Pending>,
        here: &Site,
        advice: &str,
    ) {
        if let (Some(Pending { mark, mode, info, range }), Some(checker)) =
            (found, &mut self.checker)
        {
            checker.broken(
                rule,
                Some((&mark.site, mode)),
                here,
                0,
                Some((info, range)),
                advice.to_owned(),
            );
        }
    }

    /// Checks R6: the program destroys a stream with which a live array was exported.
    pub fn stream_of_export_ends(&mut self, stream: StreamRef) {
        let (Some(actor), Some(checker)) =
            (self.get(stream).and_then(|stream| stream.actor), &self.checker)
        else {
            return;
        };
        if !checker.rules.exported_with(actor) {
            return;
        }
        let host = self.host_actor();
        let label = self.label("cuStreamDestroy");
        let Some(checker) = &mut self.checker else { return };
        let here = checker.here(host, label, u64::from(thread_id()));
        if let Some(exported) = checker.rules.stream_ends(actor, &here) {
            let advice = STREAM_FIRST.to_owned();
            checker.broken("R6", Some((&exported, 0)), &here, 0, None, advice);
        }
    }

    /// Reports a call that the driver refused because of a capture (R10).
    pub fn refused_in_capture(&mut self, symbol: &'static str, code: Code) {
        // Queries are allowed, the end of an invalidated capture only returns that it is
        // invalidated, and calls that are refused after the one that invalidated it are not faults
        // of their own.
        let queries = ["cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuStreamEndCapture"];
        if !self.checker.as_ref().is_some_and(|checker| checker.is_strict())
            || code == Code::STREAM_CAPTURE_INVALIDATED
            || queries.iter().any(|name| symbol.starts_with(name))
        {
            return;
        }
        let host = self.host_actor();
        if let Some(checker) = &mut self.checker {
            let here = checker.here(host, Cow::Borrowed(symbol), u64::from(thread_id()));
            let advice = "the call after the end of the capture, or \
                cuThreadExchangeStreamCaptureMode around it.";
            checker.broken("R10", None, &here, 0, None, advice.to_owned());
        }
    }
}
