//! The races that were found, as text and JSON.

use super::Checker;
use crate::advice;
use crate::again::{Again, More};
use crate::journal::Journal;
use crate::race::{self, Race};
use crate::rules::{RULES, Unordered};
use crate::shown::counted;

impl Checker {
    /// Returns the number of races and broken rules that were found and not taken.
    pub fn found(&self) -> usize {
        self.races.iter().filter(|race| !race.remark).count()
    }

    /// Returns the other ranges and callers of a race.
    fn more(&self, race: &Race) -> More {
        self.reported.get(&race.key).map(Again::more).unwrap_or_default()
    }

    fn text(&self, race: &Race) -> String {
        race.text(&self.stacks, self.more(race))
    }

    fn json_of(&self, race: &Race) -> serde_json::Value {
        race.json(&self.stacks, self.more(race))
    }

    /// Returns the texts of races that were not printed yet.
    pub fn print(&mut self) -> Vec<String> {
        let fresh = self.printed..self.races.len();
        self.printed = self.races.len();
        for at in fresh.clone() {
            self.races[at].told = self.more(&self.races[at]);
        }
        self.races[fresh].iter().map(|race| self.text(race)).collect()
    }

    /// Returns on which other ranges and by which callers races were found since they were printed.
    pub fn found_later(&self) -> Vec<String> {
        self.races.iter().filter_map(|race| self.more(race).found_later(race)).collect()
    }

    /// Writes what the journal does not have yet.
    pub fn write(&mut self, journal: &mut Journal) {
        for race in &self.races[self.journaled..] {
            journal.race(race.id, self.json_of(race));
        }
        self.journaled = self.races.len();
        if self.unordered_journaled == 0 {
            self.write_unordered(journal);
        }
        if journal.has_open() || self.open.held().next().is_some() {
            let held = self.open.held().map(|race| race.id).collect();
            journal.withdraw_all_but(&held);
            for race in self.open.held() {
                journal.open_race(race.id, || self.json_of(race));
            }
        }
    }

    /// Writes what has grown: the number of exchanges that were not ordered, and races with more
    /// ranges or callers.
    pub fn write_end(&mut self, journal: &mut Journal) {
        self.write_unordered(journal);
        for race in self.races.iter().filter(|race| self.more(race) != More::default()) {
            journal.race(race.id, self.json_of(race));
        }
    }

    /// Writes the number of exchanges that were not ordered, if it has grown: when there is one, and
    /// at the end.
    fn write_unordered(&mut self, journal: &mut Journal) {
        let Some(Unordered { count, first: (site, mode) }) = &self.rules.unordered else { return };
        if *count > self.unordered_journaled {
            self.unordered_journaled = *count;
            journal.unordered(*count, &advice::side(site, *mode).json(&self.stacks));
        }
    }

    /// Returns the newest operations and orders, if a report draws them.
    pub fn newest(&self) -> Option<serde_json::Value> {
        self.timeline.as_ref().map(|kept| kept.newest().iter().map(race::row).collect())
    }

    pub fn json(&self) -> Vec<serde_json::Value> {
        self.races.iter().map(|race| self.json_of(race)).collect()
    }

    /// Returns the number of exchanges, and how often each rule was broken.
    pub fn summary(&self) -> Option<String> {
        let [_, exports, begins, ends, waits, after, destroyed] = self.rules.notes;
        if !self.strict {
            return None;
        }
        let mut text = format!(
            "cai-race: {}, {}, {}, {} of the host, {} after a stream, {} destroyed\n",
            counted(exports, "export"),
            counted(begins, "begin"),
            counted(ends, "end"),
            counted(waits, "wait"),
            counted(after, "release"),
            counted(destroyed, "owner"),
        );
        for (rule, sentence) in RULES {
            let count = self.races.iter().filter(|race| race.rule == Some(rule)).count();
            if count > 0 {
                text += &format!("cai-race: {rule} {}: {sentence}\n", counted(count, "time"));
            }
        }
        Some(text)
    }

    /// Returns the number of exchanges that were not ordered because a stream was unknown, and the
    /// place of the first.
    pub fn unordered(&self) -> Option<String> {
        let Unordered { count, first: (site, _) } = self.rules.unordered.as_ref()?;
        let (s, were) = if *count == 1 { ("", "was") } else { ("s", "were") };
        let mut text = format!(
            "cai-race: {count} exchange{s} with an unknown stream {were} not ordered; the first: \
             {}, by host thread {}\n",
            site.label, site.thread
        );
        for line in self.stacks.lines(site.stack) {
            text += &format!("      {line}\n");
        }
        Some(text)
    }

    /// Returns the text of all races that were not taken.
    pub fn texts(&self) -> String {
        self.races.iter().map(|race| self.text(race)).collect()
    }

    /// Clears the races found so far, so that they are reported once more if they occur again.
    /// Returns their number.
    pub fn take(&mut self, journal: Option<&mut Journal>) -> usize {
        self.end_open_waits();
        let count = self.found();
        if let Some(journal) = journal {
            self.write(journal);
            if !self.races.is_empty() {
                journal.taken(self.newest);
            }
        }
        self.races.clear();
        self.reported.clear();
        self.told.clear();
        (self.printed, self.journaled) = (0, 0);
        count
    }
}
