//! The journal: what a process finds, written at once, so that it outlives a process that ends
//! without its exit handlers: by `_exit`, `exec` or a signal.
//!
//! One JSON object a line, in the order of the events: `race` with an `id`, which is `open` while a
//! later write may still rule it out, and comes again at the end if more ranges or callers were
//! counted; `withdrawn`, the ids that one ruled out; `taken`, the last id that the program took over;
//! `kernel`, a kernel without a declaration; `unordered`, the number of exchanges that were not
//! ordered so far, and the first; and at the end of the process `end` with what was `missing`, and
//! the newest rows of its `timeline` if a report draws them. `mode` is what this process treats races
//! as. The command `cuda-sim run` and the plug-in for pytest read it. `program` is the name of the
//! file that the process runs: unlike `process`, it is the same in the next run.

use crate::config::Races;
use crate::console::print;
use crate::shown::shown;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

pub struct Journal {
    path: String,
    /// `None` if it cannot be written.
    file: Option<File>,
    mode: &'static str,
    program: Option<String>,
    /// Races that were written as open.
    open: BTreeSet<u64>,
}

impl Journal {
    /// Opens the journal, which several processes may write to.
    pub fn new(path: &str, mode: Races) -> Journal {
        let mode = match mode {
            Races::Off => "off",
            Races::Warn => "warn",
            Races::Error => "error",
        };
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name);
        let program = program.map(|name| name.to_string_lossy().into_owned());
        let path = path.to_owned();
        let mut journal = Journal { path, file: None, mode, program, open: BTreeSet::new() };
        match opened {
            Ok(file) => journal.file = Some(file),
            Err(error) => journal.give_up(&error),
        }
        journal
    }

    /// Says once that findings are lost.
    fn give_up(&mut self, error: &std::io::Error) {
        self.file = None;
        print(&format!("cuda-sim: {}: {error}\n", shown(self.path.as_bytes())));
    }

    fn write(&mut self, mut record: Value) {
        let Some(file) = &mut self.file else { return };
        record["process"] = std::process::id().into();
        record["program"] = self.program.as_deref().into();
        record["mode"] = self.mode.into();
        // One write for each record: several processes append. A record that another process left
        // torn ends at the first newline.
        if let Err(error) = file.write_all(format!("\n{record}\n").as_bytes()) {
            self.give_up(&error);
        }
    }

    pub fn race(&mut self, id: u64, race: Value) {
        self.open.remove(&id);
        self.write(json!({"id": id, "race": race}));
    }

    /// Writes a race that a later write may rule out, once.
    pub fn open_race(&mut self, id: u64, race: impl FnOnce() -> Value) {
        if self.open.insert(id) {
            self.write(json!({"id": id, "race": race(), "open": true}));
        }
    }

    pub fn withdraw_all_but(&mut self, held: &BTreeSet<u64>) {
        let gone: Vec<u64> = self.open.difference(held).copied().collect();
        if !gone.is_empty() {
            self.open.retain(|id| held.contains(id));
            self.write(json!({"withdrawn": gone}));
        }
    }

    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub fn taken(&mut self, last: u64) {
        self.write(json!({"taken": last}));
    }

    /// Writes the exchanges that were not ordered: the first one, and their number at the end.
    pub fn unordered(&mut self, count: u64, first: &Value) {
        self.write(json!({"unordered": {"count": count, "first": first}}));
    }

    pub fn kernel(&mut self, name: &str, stack: &[String]) {
        self.write(json!({"kernel": name, "stack": stack}));
    }

    pub fn end(&mut self, missing: Value, timeline: Option<Value>) {
        let mut record = json!({"end": true, "missing": missing});
        if let Some(timeline) = timeline {
            record["timeline"] = timeline;
        }
        self.write(record);
    }
}
