//! The rules of exchanging arrays (the CUDA Array Interface), on top of the race checker: what libraries say of
//! their exports and uses, held against what is known about accesses. Uses `access`, `clock`, `checker`; no
//! `unsafe`.
//!
//! An export is an array that a producer handed out, by its owner and its bytes. A part is one stream, or host
//! thread, that began to use it. R1, R2, R5, R6 and R7 are found here; R3 and R4 are names for races in which
//! somebody forgot to begin or to end; R8, R9 and R10 are told by whoever refused, waited or was refused.

use crate::access::{Access, READ, WRITE};
use crate::checker::Site;
use crate::clock::Actor;
use std::collections::HashMap;
use std::sync::Arc;

/// Each rule in a sentence, for reports and for the summary.
pub const RULES: [(&str, &str); 10] = [
    ("R1", "an array is exported without a stream only when nothing is pending on it"),
    ("R2", "waiting for the exported stream is enough to wait for all work that is pending on the array"),
    ("R3", "a consumer waits for the producer before it touches the array"),
    ("R4", "the producer's stream waits for the consumer before the producer goes on"),
    ("R5", "the owner lives until the consumer's last operation on the array is done"),
    ("R6", "the exported stream lives as long as the exported array"),
    ("R7", "a read-only array, or one that was only to be read, is not written"),
    ("R8", "a stream is named so that it means the same to both sides"),
    ("R9", "an event orders streams without blocking the host"),
    ("R10", "nothing illegal is called while a stream is being captured"),
];

/// The sentence of a rule.
pub fn sentence(rule: &str) -> &'static str {
    RULES.iter().find(|(name, _)| *name == rule).map_or("", |(_, text)| text)
}

/// Who uses an export.
struct Part {
    actor: Actor,
    mode: u32,
    open: bool,
}

/// An array that was handed out.
pub struct Export {
    owner: u64,
    pub bytes: Access,
    readonly: bool,
    /// NONE and UNKNOWN have none.
    pub stream: Option<Actor>,
    parts: Vec<Part>,
}

impl Export {
    fn overlaps(&self, from: u64, to: u64) -> bool {
        let mut found = false;
        self.bytes.for_each_range(|start, end| found |= start < to && from < end);
        found
    }

    /// Who is using it.
    pub fn open_parts(&self) -> Vec<Actor> {
        self.parts.iter().filter(|part| part.open).map(|part| part.actor).collect()
    }

    /// Did this actor ever begin to use it?
    pub fn has_part(&self, actor: Actor) -> bool {
        self.parts.iter().any(|part| part.actor == actor)
    }
}

/// By owner and where the bytes begin and how they lie.
type Key = (u64, u64, u64, u32, [i64; 8], [i64; 8]);

fn key(owner: u64, bytes: &Access) -> Key {
    (owner, bytes.address, bytes.nbytes, bytes.ndim, bytes.count, bytes.stride)
}

#[derive(Default)]
pub struct Rules {
    exports: HashMap<Key, Export>,
    /// How many exports have an open part of this actor.
    open: HashMap<Actor, usize>,
    /// How often each kind of note came.
    pub notes: [u64; 7],
}

impl Rules {
    /// An array is handed out, or the first is heard of it.
    pub fn export(
        &mut self,
        owner: u64,
        bytes: Access,
        readonly: bool,
        stream: Option<Actor>,
    ) -> &mut Export {
        let fresh = Export { owner, bytes, readonly, stream, parts: Vec::new() };
        let export = self.exports.entry(key(owner, &bytes)).or_insert(fresh);
        (export.readonly, export.stream) = (readonly, stream);
        export
    }

    /// As `export`, but what is known already stays.
    fn known(&mut self, owner: u64, bytes: Access, readonly: bool, stream: Option<Actor>) -> &mut Export {
        let fresh = Export { owner, bytes, readonly, stream, parts: Vec::new() };
        self.exports.entry(key(owner, &bytes)).or_insert(fresh)
    }

    pub fn begin(&mut self, owner: u64, bytes: Access, readonly: bool, stream: Option<Actor>, actor: Actor) {
        let mode = bytes.mode;
        let export = self.known(owner, bytes, readonly, stream);
        match export.parts.iter_mut().find(|part| part.actor == actor) {
            Some(part) if part.open => part.mode |= mode,
            Some(part) => {
                (part.mode, part.open) = (mode, true);
                *self.open.entry(actor).or_default() += 1;
            }
            None => {
                export.parts.push(Part { actor, mode, open: true });
                *self.open.entry(actor).or_default() += 1;
            }
        }
    }

    pub fn end(&mut self, owner: u64, bytes: Access, actor: Actor) {
        let Some(export) = self.exports.get_mut(&key(owner, &bytes)) else { return };
        for part in export.parts.iter_mut().filter(|part| part.actor == actor && part.open) {
            part.open = false;
            if let Some(open) = self.open.get_mut(&actor) {
                *open -= 1;
            }
        }
    }

    /// The exports of an owner that is no more.
    pub fn destroy(&mut self, owner: u64) -> Vec<Export> {
        let keys: Vec<Key> = self.exports.keys().filter(|key| key.0 == owner).copied().collect();
        let gone: Vec<Export> = keys.iter().filter_map(|key| self.exports.remove(key)).collect();
        for part in gone.iter().flat_map(|export| &export.parts).filter(|part| part.open) {
            if let Some(open) = self.open.get_mut(&part.actor) {
                *open -= 1;
            }
        }
        gone
    }

    /// Memory that ended, and with it what was exported of it by nobody who could say so.
    pub fn forget(&mut self, from: u64, to: u64) {
        if self.exports.keys().any(|key| key.0 == 0) {
            self.exports.retain(|key, export| key.0 != 0 || !export.overlaps(from, to));
        }
    }

    /// A stream is no more: another one may get its number. What was exported with it is not watched any longer.
    pub fn retire(&mut self, actor: Actor) {
        self.exports.retain(|_, export| export.stream != Some(actor));
        for export in self.exports.values_mut() {
            export.parts.retain(|part| part.actor != actor);
        }
        self.open.remove(&actor);
    }

    /// Is there an array, not destroyed yet, that was exported with this stream?
    pub fn exported_with(&self, actor: Actor) -> bool {
        self.exports.values().any(|export| export.owner != 0 && export.stream == Some(actor))
    }

    /// Is this a write into what the actor may only read?
    pub fn is_forbidden(&self, actor: Actor, access: &Access) -> bool {
        if access.mode & WRITE == 0 || self.open.get(&actor).is_none_or(|open| *open == 0) {
            return false;
        }
        let (from, to) = access.hull();
        self.exports.values().any(|export| {
            export.stream != Some(actor)
                && export.overlaps(from, to)
                && export
                    .parts
                    .iter()
                    .any(|part| part.actor == actor && part.open && (part.mode == READ || export.readonly))
        })
    }

    /// What was forgotten, where two accesses race.
    pub fn name_of_race(
        &self,
        first: &Arc<Site>,
        second: &Arc<Site>,
        from: u64,
        to: u64,
    ) -> Option<&'static str> {
        let mut named = None;
        for export in self.exports.values().filter(|export| export.overlaps(from, to)) {
            let part_of = |actor| export.parts.iter().find(|part: &&Part| part.actor == actor);
            if part_of(first.actor).is_some_and(|part| part.open) && export.stream != Some(first.actor) {
                return Some("R4");
            }
            if part_of(second.actor).is_none() && export.stream != Some(second.actor) {
                named = Some("R3");
            }
        }
        named
    }
}
