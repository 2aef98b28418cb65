//! A race, or a broken rule of exchange, as a report describes it: text and JSON.

use crate::access::{READ, WRITE};
use crate::again::More;
use crate::rules::{MissingCall, sentence};
use crate::shown::counted;
use crate::site::AllocationInfo;
use crate::stack::{Caller, Frame, StackId, Stacks, Where};
use crate::timeline::Row;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What tells findings apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The rule, or the kinds of access.
    kinds: u32,
    callers: [Caller; 2],
    /// Their hash.
    labels: u64,
}

impl Key {
    pub fn new(kinds: u32, callers: [Caller; 2], labels: [&str; 2]) -> Key {
        let mut hasher = DefaultHasher::new();
        labels.hash(&mut hasher);
        Key { kinds, callers, labels: hasher.finish() }
    }
}

/// A race, or a broken rule of exchange.
pub struct Race {
    /// Counts the findings of the process, from 1.
    pub id: u64,
    pub key: Key,
    /// The broken rule, if one is known.
    pub rule: Option<&'static str>,
    /// The call that is missing or came at the wrong place.
    pub missing_call: Option<MissingCall>,
    pub first: Option<Side>,
    pub second: Side,
    /// The bytes, if the rule is about bytes.
    pub bytes: Option<(AllocationInfo, u64, u64)>,
    /// What the printed text counts.
    pub told: More,
    pub advice: String,
    /// The record and the wait that would have ordered the two, if the wait could not run first.
    pub wait: Option<Box<[Side; 2]>>,
    /// The host threads of the two sides, if they differ and an order between them may exist that
    /// the checker does not see.
    pub threads: Option<(u64, u64)>,
    /// The other host thread that has waited for the first.
    pub waited: Option<u64>,
    /// The address of a number that a stream wrote after the first, and the host may have read.
    pub number: Option<u64>,
    /// Why there are no Python lines, of the first finding in a Python that is not known.
    pub no_python: Option<&'static str>,
    pub remark: bool,
    /// Operations before it, if the report draws them.
    pub rows: Vec<Row>,
}

pub struct Side {
    pub mode: u32,
    pub who: String,
    pub label: String,
    pub thread: u64,
    pub stack: StackId,
    /// Whether another process did it, whose stack is not known.
    pub elsewhere: bool,
}

impl Side {
    /// Returns the object of a report in JSON.
    pub fn json(&self, stacks: &Stacks) -> serde_json::Value {
        let frames = stacks.describe(self.stack);
        serde_json::json!({
            "mode": verb(self.mode), "actor": self.who, "label": self.label,
            "host_thread": self.thread, "stack": stacks.lines(self.stack),
            "frames": frames.iter().map(frame).collect::<Vec<_>>(),
        })
    }
}

fn frame(frame: &Frame) -> serde_json::Value {
    let mut value = serde_json::json!({"function": frame.function});
    match &frame.place {
        Where::Line(file, line) => {
            (value["file"], value["line"]) = (file.as_str().into(), (*line).into());
        }
        Where::Module(module) => value["module"] = module.as_str().into(),
    }
    if let Some(place) = &frame.python {
        value["language"] = "python".into();
        value["library"] = place.library.is_some().into();
    }
    if let Some(source) = frame.source() {
        value["source"] = source.into();
    }
    value
}

impl Race {
    /// Returns the paragraph of a report. `more`: what else it counts.
    pub fn text(&self, stacks: &Stacks, more: More) -> String {
        let is_race = self.first.is_some() && (self.rule.is_none() || self.missing_call.is_some());
        let what = match self.rule {
            _ if is_race && self.remark => {
                "remark: if an asynchronous copy of pageable memory returns early, a race"
                    .to_owned()
            }
            _ if is_race => "race".to_owned(),
            Some(rule) if self.remark => format!("remark, {rule}: {}", sentence(rule)),
            rule => {
                format!(
                    "rule {} broken: {}",
                    rule.unwrap_or_default(),
                    sentence(rule.unwrap_or_default())
                )
            }
        };
        let bytes = self.bytes.as_ref().map_or_else(String::new, |(info, from, to)| {
            format!(
                "{} {} at {from:#x}, {} into {} of {}{}",
                if is_race { " on" } else { ";" },
                counted(to - from, "byte"),
                counted(from - info.base, "byte"),
                info.kind,
                counted(info.size, "byte"),
                if info.device < 0 { String::new() } else { format!(" on device {}", info.device) },
            )
        });
        let [ranges, callers] = more.texts();
        let mut text = format!("cuda-sim: {what}{bytes}{ranges}\n");
        if let Some(what) = self.missing_call.map(MissingCall::text) {
            text += &self.rule.map_or_else(
                || format!("  {what}\n"),
                |rule| format!("  rule {rule}: {}; {what}\n", sentence(rule)),
            );
        }
        let titles = match self.rule {
            _ if is_race => ["first", "second, not ordered after it"],
            Some("R6") => ["exported", "destroyed"],
            Some("R7") => ["begun", "written"],
            _ => ["pending", "here"],
        };
        let mut rest = Vec::new();
        for (title, side) in titles.iter().zip([self.first.as_ref(), Some(&self.second)]) {
            let Some(side) = side else { continue };
            let verb = if is_race || side.mode != 0 {
                format!("{} by ", verb(side.mode))
            } else {
                String::new()
            };
            text += &if is_race || !side.who.starts_with("host thread") {
                let Side { label, who, thread, .. } = side;
                if side.elsewhere {
                    format!("  {title}: {verb}{label}, on {who}\n")
                } else {
                    format!(
                        "  {title}: {verb}{label}, on {who}, enqueued by host thread {thread}\n"
                    )
                }
            } else {
                format!("  {title}: {verb}{}, by {}\n", side.label, side.who)
            };
            let mut lines = stacks.lines(side.stack);
            // Both lines of the user come before what called them.
            if stacks.has_python(side.stack) {
                rest.push((title, lines.split_off(1)));
            }
            for line in lines {
                text += &format!("      {line}\n");
            }
        }
        if let Some([record, wait]) = self.wait.as_deref() {
            text += "  a wait that may run before the record orders nothing:\n";
            for (title, Side { label, who, stack, .. }) in [("record", record), ("wait", wait)] {
                text += &format!("  {title}: {label}, called by {who}\n");
                for line in stacks.lines(*stack) {
                    text += &format!("      {line}\n");
                }
            }
            let (one, other) = (&record.who, &wait.who);
            text += &format!("  missing: order of {one} after the record before {other}.\n");
        } else {
            text += &format!("  missing: {}\n", self.advice);
        }
        for (title, lines) in rest.iter().filter(|(_, lines)| !lines.is_empty()) {
            let title = title.split(',').next().unwrap_or_default();
            text += &format!("  rest of the stack, {title}:\n");
            for line in lines {
                text += &format!("      {line}\n");
            }
        }
        text += &callers;
        if let Some(note) = self.note() {
            text += &format!("  {note}\n");
        }
        text
    }

    /// Returns what to do if the program orders its host threads in a way that is not observed, and
    /// what a report lacks.
    fn note(&self) -> Option<String> {
        let number = self.number.map(|address| {
            format!(
                "not observed: a host thread that reads the number at {address:#x}, which a stream \
                 wrote after the first. If one does before the second: cudasim_host_waited."
            )
        });
        let threads = self.waited.map(|waited| (waited, self.second.thread)).or(self.threads);
        let threads = threads.map(|(first, second)| {
            format!(
                "not observed: order of host threads {first} and {second} by atomics, as by a lock \
                 that was free, a future that was ready, or a counter of references (Arc, \
                 shared_ptr). If there is one: cudasim_hb_before and cudasim_hb_after, or \
                 --host-threads=ordered."
            )
        });
        let python = self.no_python.map(str::to_owned);
        let notes: Vec<String> = number.into_iter().chain(threads).chain(python).collect();
        (!notes.is_empty()).then(|| notes.join("\n  "))
    }

    /// Returns the object of a report in JSON. `more`: as in `text`.
    pub fn json(&self, stacks: &Stacks, more: More) -> serde_json::Value {
        let side = |side: &Side| side.json(stacks);
        let mut value = serde_json::json!({
            "rule": self.rule, "remark": self.remark, "second": side(&self.second),
            "missing": self.advice, "text": self.text(stacks, more), "more_callers": more.callers,
        });
        if let Some(rule) = self.rule {
            value["sentence"] = sentence(rule).into();
        }
        if let Some(note) = self.note() {
            value["note"] = note.into();
        }
        if let Some([record, wait]) = self.wait.as_deref() {
            (value["record"], value["wait"]) = (side(record), side(wait));
        }
        if let Some(first) = &self.first {
            value["first"] = side(first);
        }
        if !self.rows.is_empty() {
            value["timeline"] = self.rows.iter().map(row).collect();
        }
        if let Some((info, from, to)) = &self.bytes {
            value["address"] = (*from).into();
            value["nbytes"] = (to - from).into();
            value["offset"] = (from - info.base).into();
            value["more_ranges"] = more.ranges.into();
            value["allocation"] = serde_json::json!({
                "address": info.base, "nbytes": info.size, "device": info.device,
                "kind": info.kind,
            });
        }
        value
    }
}

/// Returns the object of a timeline's row in JSON.
pub fn row(row: &Row) -> serde_json::Value {
    match row {
        Row::Operation { lane, thread, label, access } => serde_json::json!({
            "lane": lane, "host_thread": thread, "label": label, "access": access,
        }),
        Row::Order { from, to, early } => {
            serde_json::json!({"from": from, "to": to, "early": early})
        }
        Row::Skipped(count) => serde_json::json!({"skipped": count}),
    }
}

/// Returns the access of a mode, in words.
fn verb(mode: u32) -> &'static str {
    match mode & (READ | WRITE) {
        READ => "read",
        WRITE => "write",
        _ => "read and write",
    }
}
