//! What libraries say of the arrays that they exchange, held against the rules. `unsafe`: none.

use super::*;
use crate::access::{Access, READ, WRITE};
use crate::checker::Site;
use crate::clock::{Actor, Clock};

/// `cudasim_cai_note` of cudasim.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Note {
    pub struct_size: u32,
    pub kind: u32,
    pub owner: u64,
    pub bytes: Access,
    pub flags: u32,
    pub status: i32,
    pub stream: u64,
    pub stream_id: u64,
    pub context: u64,
    pub consumer: u64,
    pub consumer_context: u64,
    pub rule: *const std::ffi::c_char,
}

const EXPORT: u32 = 1;
const BEGIN: u32 = 2;
const END: u32 = 3;
const SYNCHRONIZE: u32 = 4;
const RELEASE_AFTER: u32 = 5;
const DESTROY: u32 = 6;
const READONLY: u32 = 1;
const NONE: u64 = u64::MAX;
const UNKNOWN: u64 = u64::MAX - 1;

/// What the library did, for reports.
fn name_of(kind: u32) -> &'static str {
    match kind {
        EXPORT => "cai_produce",
        BEGIN => "cai_consume_begin",
        END => "cai_consume_end",
        SYNCHRONIZE => "cai_synchronize",
        RELEASE_AFTER => "cai_owner_release_after",
        _ => "the last release of an owner",
    }
}

impl Sim {
    /// The actor of a stream as an array names it, in its context.
    fn stream_of_array(&mut self, value: u64, context: u64) -> Option<Actor> {
        if matches!(value, 0 | NONE | UNKNOWN) {
            return None;
        }
        let pushed = value <= 2 && context != 0;
        let before = crate::handles::CURRENT.get();
        if pushed {
            crate::handles::CURRENT.set((context, before.1));
            self.thread().contexts.push(context);
        }
        let core = self.stream(value, 1);
        if pushed {
            self.thread().contexts.pop();
            crate::handles::CURRENT.set(before);
        }
        let core = core.ok()?;
        // What a default stream would wait for belongs to it.
        self.default_stream_rules(core);
        self.get(core)?.actor
    }

    /// What a stream, or else this thread, knows to be done, as far as this thread can make use of it.
    fn known_here(&mut self, stream: Option<Actor>) -> Option<Clock> {
        let host = self.host_actor();
        let checker = self.checker.as_mut()?;
        let mut clock = checker.tell(host);
        if let Some(stream) = stream {
            clock.join(&checker.tell(stream));
        }
        Some(clock)
    }

    /// Enters a note. `rule`: the one because of which the library itself refused.
    pub fn exchange(&mut self, note: &Note, rule: Option<&'static str>) {
        if self.checker.is_none() {
            return;
        }
        let host = self.host_actor();
        let label = self.label(name_of(note.kind));
        let thread = u64::from(thread_id());
        let stream = self.stream_of_array(note.stream, note.context);
        let consumer = self.stream_of_array(note.consumer, note.consumer_context);
        let bytes = self.memory.on_device(&note.bytes);
        let readonly = note.flags & READONLY != 0;
        let Some(checker) = &mut self.checker else { return };
        let here = checker.here(host, label, thread);
        if let Some(count) = checker.rules.notes.get_mut(note.kind as usize) {
            *count += 1;
        }
        if note.status != 0 {
            // Whoever was refused was told, and touched nothing.
            if let Some(rule) = rule.filter(|_| checker.is_strict()) {
                let advice = format!("what the status says: {}", note.status);
                checker.broken(rule, None, &here, 0, None, advice);
            }
            return;
        }
        match note.kind {
            EXPORT => {
                let open = checker.rules.export(note.owner, bytes, readonly, stream).open_parts();
                if note.stream != UNKNOWN {
                    let advice = if stream.is_some() {
                        "name this stream too in cai_produce, which joins it into the exported one."
                    } else {
                        "name the stream in cai_produce; CAI_STREAM_NONE promises that nothing is pending."
                    };
                    let rule = if stream.is_some() { "R2" } else { "R1" };
                    let unordered = self.unordered(stream, &bytes, |actor| !open.contains(&actor));
                    self.say_broken(rule, unordered, &here, advice);
                }
            }
            BEGIN => {
                if let Some(consumer) = consumer {
                    checker.rules.begin(note.owner, bytes, readonly, stream, consumer);
                }
            }
            END => {
                if let Some(consumer) = consumer {
                    checker.rules.end(note.owner, bytes, consumer);
                }
            }
            SYNCHRONIZE => {
                checker.rules.begin(note.owner, bytes, readonly, stream, host);
                checker.rules.end(note.owner, bytes, host);
                if stream.is_some() {
                    let advice = "nothing where the host reads the data; else cai_consume_begin.".to_owned();
                    checker.broken("R9", None, &here, 0, None, advice);
                }
            }
            DESTROY => {
                for export in checker.rules.destroy(note.owner) {
                    let everything = Access { mode: READ | WRITE, ..export.bytes };
                    let theirs = |actor| export.has_part(actor) && export.stream != Some(actor);
                    let unordered = self.unordered(export.stream, &everything, theirs);
                    self.say_broken(
                        "R5",
                        unordered,
                        &here,
                        "cai_owner_release_after, or cai_consume_end before the release.",
                    );
                }
            }
            _ => {}
        }
    }

    /// An access of certain actors to some bytes that neither a stream nor this thread knows to be done.
    #[allow(clippy::type_complexity)]
    fn unordered(
        &mut self,
        stream: Option<Actor>,
        bytes: &Access,
        of: impl Fn(Actor) -> bool,
    ) -> Option<(crate::shadow::Mark<Site>, u32, Place, (u64, u64))> {
        let clock = self.known_here(stream)?;
        let allocation = self.memory.find_mut(bytes.address)?;
        let place = allocation.place();
        let checker = self.checker.as_ref()?;
        let (mark, mode, from, to) = checker.pending(&allocation.shadow, &place, bytes, &clock, of)?;
        Some((mark, mode, place, (from, to)))
    }

    fn say_broken(
        &mut self,
        rule: &'static str,
        unordered: Option<(crate::shadow::Mark<Site>, u32, Place, (u64, u64))>,
        here: &Site,
        advice: &str,
    ) {
        if let (Some((mark, mode, place, range)), Some(checker)) = (unordered, &mut self.checker) {
            checker.broken(rule, Some((&mark, mode)), here, 0, Some((place, range)), advice.to_owned());
        }
    }

    /// A stream is destroyed: was something exported with it that is still there?
    pub fn stream_of_export_ends(&mut self, actor: Actor) {
        let host = self.host_actor();
        let label = self.label("cuStreamDestroy");
        let Some(checker) = &mut self.checker else { return };
        if checker.rules.exported_with(actor) {
            let here = checker.here(host, label, u64::from(thread_id()));
            let advice =
                "destroy the stream after the array: the owner has to keep it, as with cai_array_keep.";
            checker.broken("R6", None, &here, 0, None, advice.to_owned());
        }
        checker.rules.retire(actor);
    }

    /// A call that the driver refused because of a capture.
    pub fn refused_in_capture(&mut self, symbol: &'static str) {
        // Asking is allowed, and the end of a broken capture says only that it is broken.
        let asked = ["cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuStreamEndCapture"];
        if !self.checker.as_ref().is_some_and(|checker| checker.is_strict())
            || asked.iter().any(|name| symbol.starts_with(name))
        {
            return;
        }
        let host = self.host_actor();
        if let Some(checker) = &mut self.checker {
            let here = checker.here(host, std::borrow::Cow::Borrowed(symbol), u64::from(thread_id()));
            let advice =
                "the call after the end of the capture, or cuThreadExchangeStreamCaptureMode around it.";
            checker.broken("R10", None, &here, 0, None, advice.to_owned());
        }
    }
}
