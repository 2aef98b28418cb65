//! Order between processes: the knowledge of their hosts and of records of events, and the
//! accesses to memory that they share.
//!
//! A process is named by a number that no other has. An actor of a process is named by its place in
//! the clocks of that process, where counts only grow, so a count of (process, place) means the
//! same to all. Everything is in files without a name, which others open through /proc while the
//! process lives.

use crate::access::{Access, MAX_NDIM, READ, WRITE};
use crate::memory::{map_file, map_shared, size_of_file};
use crate::results::{Code, Result};
use crate::shown::shown;
use crate::written::Written;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The knowledge of one actor of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    pub process: u64,
    pub place: u64,
    pub count: u64,
}

/// Returns a number for this process that no other process has.
pub fn own_number() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = time.map_or(0, |time| time.as_nanos() as u64);
    u64::from(std::process::id()) << 40 | nanoseconds & 0xff_ffff_ffff
}

/// Opens a file of another process.
pub fn open_file(pid: u32, fd: RawFd) -> Result<RawFd> {
    let path = CString::new(format!("/proc/{pid}/fd/{fd}")).map_err(|_| Code::INVALID_VALUE)?;
    // SAFETY: `path` is NUL-terminated and outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 { Err(Code::MAP_FAILED) } else { Ok(fd) }
}

/// Pages that several processes map. The first word is a lock.
struct Region {
    base: u64,
    words: usize,
    fd: RawFd,
}

/// Wait for the lock of a region after which its holder is looked for: it may have ended.
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest wait for the lock of a region, whose holder may have stopped.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Returns whether a process has ended, also without its parent having asked for its status. The
/// state follows the name, which is in parentheses. [proc(5)]
pub fn has_ended(pid: u32) -> bool {
    // SAFETY: the signal 0 is not sent; only the existence of the process is checked.
    let is_gone = unsafe { libc::kill(pid as libc::pid_t, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    let state = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        text.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X'])
    };
    is_gone || state()
}

impl Region {
    fn new(words: usize) -> Result<Region> {
        let (base, fd) = map_shared(8 * words as u64)?;
        Ok(Region { base, words, fd })
    }

    fn open(pid: u32, fd: RawFd, words: usize) -> Result<Region> {
        let fd = open_file(pid, fd)?;
        let size = 8 * words as u64;
        // Pages behind the end of a file can be mapped, but not accessed.
        let mapped = match size_of_file(fd) {
            Some(found) if found == size => map_file(fd, 0, size),
            _ => Err(Code::INVALID_VALUE),
        };
        match mapped {
            Ok(base) => Ok(Region { base, words, fd }),
            Err(code) => {
                // SAFETY: the descriptor was opened above, and nothing else uses it.
                unsafe { libc::close(fd) };
                Err(code)
            }
        }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words);
        // SAFETY: the mapping has `words` aligned words and stays until this object is dropped. All
        // processes access them as atomics only.
        unsafe { &*(self.base as *const AtomicU64).add(index) }
    }

    fn get(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    fn set(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }

    /// Runs a function while no other process uses the region.
    fn locked<R>(&self, run: impl FnOnce() -> R) -> R {
        let lock = self.word(0);
        let own = u64::from(std::process::id());
        let take = |from| lock.compare_exchange(from, own, Ordering::Acquire, Ordering::Relaxed);
        let mut start = Instant::now();
        let end = start + LONGEST_WAIT;
        while let Err(holder) = take(0) {
            if start.elapsed() > PATIENCE {
                let is_lost = has_ended(holder as u32) || Instant::now() > end;
                if holder != 0 && is_lost && take(holder).is_ok() {
                    break;
                }
                start = Instant::now();
            }
            std::thread::yield_now();
        }
        let result = run();
        lock.store(0, Ordering::Release);
        result
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping and the file belong to this object, which is not used afterwards.
        unsafe {
            libc::munmap(self.base as *mut _, 8 * self.words);
            libc::close(self.fd);
        }
    }
}

/// A clock that processes share: of the newest record of an event, or of the hosts of a process.
///
/// The words: lock, version, whether the process ended, number of counts, two counters of an event;
/// from `COUNTS` on, three words for each count.
pub struct SharedClock(Region);

const VERSION: usize = 1;
const ENDED: usize = 2;
const LENGTH: usize = 3;
const COUNTER: usize = 4;
const COUNTS: usize = 8;
const MOST_COUNTS: usize = 10_000;
const CLOCK_WORDS: usize = COUNTS + 3 * MOST_COUNTS;

impl SharedClock {
    pub fn new() -> Result<SharedClock> {
        Ok(SharedClock(Region::new(CLOCK_WORDS)?))
    }

    pub fn open(pid: u32, fd: RawFd) -> Result<SharedClock> {
        Ok(SharedClock(Region::open(pid, fd, CLOCK_WORDS)?))
    }

    pub fn file(&self) -> RawFd {
        self.0.fd
    }

    /// One of two counters of an event.
    pub fn counter(&self, which: usize) -> &AtomicU64 {
        self.0.word(COUNTER + which)
    }

    /// Replaces the clock. Returns what `also` returns, which runs under the same lock.
    pub fn set<R>(&self, counts: &[Count], also: impl FnOnce() -> R) -> R {
        self.0.locked(|| {
            for (i, count) in counts.iter().take(MOST_COUNTS).enumerate() {
                let at = COUNTS + 3 * i;
                self.0.set(at, count.process);
                self.0.set(at + 1, count.place);
                self.0.set(at + 2, count.count);
            }
            self.0.set(LENGTH, counts.len().min(MOST_COUNTS) as u64);
            let result = also();
            self.0.word(VERSION).fetch_add(1, Ordering::Release);
            result
        })
    }

    pub fn version(&self) -> u64 {
        self.0.word(VERSION).load(Ordering::Acquire)
    }

    pub fn counts(&self) -> Vec<Count> {
        self.0.locked(|| {
            let length = (self.0.get(LENGTH) as usize).min(MOST_COUNTS);
            let at = |i| COUNTS + 3 * i;
            let count = |i| Count {
                process: self.0.get(at(i)),
                place: self.0.get(at(i) + 1),
                count: self.0.get(at(i) + 2),
            };
            (0..length).map(count).collect()
        })
    }

    /// Records that the process has ended, and with it all its work.
    pub fn end(&self) {
        self.0.word(ENDED).store(1, Ordering::Release);
    }

    pub fn has_ended(&self) -> bool {
        self.0.word(ENDED).load(Ordering::Acquire) != 0
    }
}

/// A process that uses an allocation: its number, its id, and the file of its hosts' clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    pub process: u64,
    pub pid: u32,
    pub clock: RawFd,
}

/// An access by one process.
#[derive(Clone, Debug)]
pub struct Entry {
    pub pid: u32,
    pub at: Count,
    /// Its address is an offset in the allocation.
    pub access: Access,
    pub label: String,
    pub who: String,
}

/// A write of a number, and what happens before it.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    pub at: Count,
    pub known: Vec<Count>,
}

impl Point {
    pub fn comes_after(&self, at: Count) -> bool {
        count_of(&self.known, at) >= at.count
    }
}

/// Returns the count of an actor among others, or 0.
pub fn count_of(counts: &[Count], of: Count) -> u64 {
    let same = |count: &&Count| (count.process, count.place) == (of.process, of.place);
    counts.iter().find(same).map_or(0, |count| count.count)
}

/// A number that streams write with `cuStreamWriteValue`: one write, or several of which each comes
/// after the one before.
#[derive(Clone, PartialEq, Debug)]
pub struct Store {
    /// Offset in the allocation.
    pub offset: u64,
    pub wide: bool,
    pub value: Written,
    pub last: Point,
    /// The first of several.
    first: Option<Point>,
}

impl Store {
    pub fn new(offset: u64, wide: bool, value: u64, last: Point) -> Store {
        Store { offset, wide, value: Written::one(value), last, first: None }
    }

    pub fn first(&self) -> &Point {
        self.first.as_ref().unwrap_or(&self.last)
    }

    fn key(offset: u64, wide: bool) -> u64 {
        offset << 1 | u64::from(wide)
    }

    /// Adds the next write, if it comes after this one.
    fn join(&mut self, next: &Store) -> bool {
        let fits = next.first().comes_after(self.last.at);
        if fits {
            self.value = self.value.then(next.value);
            let last = std::mem::replace(&mut self.last, next.last.clone());
            self.first.get_or_insert(last);
        }
        fits
    }

    /// Joins stores with the next ones of the same number, if these are equal. `pairs`: instead of
    /// that, two stores each of the older half of those of each number.
    fn join_all(all: Vec<Store>, pairs: bool) -> Vec<Store> {
        let key = |store: &Store| Store::key(store.offset, store.wide);
        let mut counts: HashMap<u64, usize> = HashMap::new();
        all.iter().for_each(|store| *counts.entry(key(store)).or_default() += 1);
        // By number: how many there were, and the place of the one that the next may join.
        let mut seen: HashMap<u64, (usize, Option<usize>)> = HashMap::new();
        let mut kept: Vec<Store> = Vec::with_capacity(all.len());
        for store in all {
            let (before, last) = seen.entry(key(&store)).or_default();
            *before += 1;
            let is_old = *before <= counts[&key(&store)].div_ceil(2);
            let fits =
                |last: &Store| if pairs { is_old } else { last.value.are_equal(store.value) };
            let at = last.filter(|at| fits(&kept[*at]));
            if at.is_some_and(|at| kept[at].join(&store)) {
                last.take_if(|_| pairs);
            } else {
                *last = Some(kept.len());
                kept.push(store);
            }
        }
        kept
    }

    /// The words: number of all, key, the seven of the numbers; of each of two points its number of
    /// counts; then their counts. The first count of a point is its own.
    fn words(&self) -> Vec<u64> {
        let Written { first, last, low, high, any, all, count } = self.value;
        let points = [Some(&self.last), self.first.as_ref()];
        let length = |point: Option<&Point>| point.map_or(0, |point| 1 + point.known.len() as u64);
        let mut words = vec![0, Store::key(self.offset, self.wide)];
        words.extend([first, last, low, high, any, all, count]);
        words.extend(points.map(length));
        for point in points.into_iter().flatten() {
            let counts = std::iter::once(&point.at).chain(&point.known);
            words.extend(counts.flat_map(|count| [count.process, count.place, count.count]));
        }
        words[0] = words.len() as u64;
        words
    }

    /// Reads words. Others may have written anything there.
    fn of_words(words: &[u64]) -> Option<Store> {
        let [_, key, first, last, low, high, any, all, count, of_last, of_first, rest @ ..] = words
        else {
            return None;
        };
        let [first, last, low, high] = [*first, *last, *low, *high];
        let value = Written { first, last, low, high, any: *any, all: *all, count: *count };
        let mut counts = rest.chunks_exact(3).map(|count| {
            let (process, place, count) = (count[0], count[1], count[2]);
            Count { process, place, count }
        });
        let mut point = |length: u64| {
            let mut own = counts.by_ref().take(length as usize);
            Some(Point { at: own.next()?, known: own.collect() })
        };
        let (last, first) = (point(*of_last)?, point(*of_first));
        Some(Store { offset: key >> 1, wide: key & 1 == 1, value, last, first })
    }
}

/// The accesses of all processes to one allocation, and the numbers that they write there.
///
/// The words: lock, number of users, number of entries, number of stores and of their words, whether
/// stores were forgotten; from `USERS` on three words for each user, from `ENTRIES` on those of the
/// entries, from `STORES` on those of the stores, the oldest first.
pub struct History(Region);

const USED: usize = 1;
const ENTERED: usize = 2;
const STORED: usize = 3;
const STORED_WORDS: usize = 4;
const FORGOTTEN: usize = 5;
const USERS: usize = 8;
const MOST_USERS: usize = 64;
const ENTRIES: usize = USERS + 3 * MOST_USERS;
const ENTRY_WORDS: usize = 64;
/// Maximum number of entries. Beyond it the oldest half is forgotten.
const MOST_ENTRIES: usize = 2048;
const STORES: usize = ENTRIES + ENTRY_WORDS * MOST_ENTRIES;
/// Maximum number of stores.
const MOST_STORES: usize = 2048;
/// Maximum number of their words.
const STORE_WORDS: usize = 1 << 19;
const HISTORY_WORDS: usize = STORES + STORE_WORDS;
/// Words of each of the two texts of an entry.
const TEXT_WORDS: usize = 16;

impl History {
    pub fn new() -> Result<History> {
        Ok(History(Region::new(HISTORY_WORDS)?))
    }

    pub fn open(pid: u32, fd: RawFd) -> Result<History> {
        Ok(History(Region::open(pid, fd, HISTORY_WORDS)?))
    }

    pub fn file(&self) -> RawFd {
        self.0.fd
    }

    /// Adds a user, if there is still a place.
    pub fn add_user(&self, user: User) {
        self.0.locked(|| {
            let used = self.0.get(USED) as usize;
            if used < MOST_USERS {
                self.0.set(USERS + 3 * used, user.process);
                self.0.set(USERS + 3 * used + 1, u64::from(user.pid));
                self.0.set(USERS + 3 * used + 2, user.clock as u64);
                self.0.word(USED).store(used as u64 + 1, Ordering::Release);
            }
        });
    }

    /// Returns the users from the `first` on.
    pub fn users(&self, first: usize) -> Vec<User> {
        let used = (self.0.word(USED).load(Ordering::Acquire) as usize).min(MOST_USERS);
        let user = |i| User {
            process: self.0.get(USERS + 3 * i),
            pid: self.0.get(USERS + 3 * i + 1) as u32,
            clock: self.0.get(USERS + 3 * i + 2) as RawFd,
        };
        (first..used).map(user).collect()
    }

    /// Enters an access. Returns the accesses of other processes that it conflicts with and does
    /// not know of.
    pub fn enter(&self, new: &Entry, knows: &mut dyn FnMut(Count) -> bool) -> Vec<Entry> {
        let (from, to) = new.access.hull();
        let dense = new.access.ranges().len() == 1;
        let writes = new.access.mode & WRITE != 0;
        let mut found = Vec::new();
        if from >= to {
            return found;
        }
        self.0.locked(|| {
            let mut i = 0;
            while i < self.0.get(ENTERED) as usize {
                if self.is_outside(i, from, to) {
                    i += 1;
                    continue;
                }
                let old = self.entry(i);
                let (start, end) = old.access.hull();
                let mut touches = false;
                if start < to && from < end {
                    old.access.for_each_range(|start, end| {
                        touches = touches || new.access.touches(start, end);
                    });
                }
                if !touches {
                    i += 1;
                    continue;
                }
                let known = knows(old.at);
                let conflict = writes || old.access.mode & WRITE != 0;
                if conflict && !known && old.at.process != new.at.process {
                    found.push(old.clone());
                }
                let covered =
                    (dense && from <= start && end <= to) || old.access.same_bytes(&new.access);
                if covered && (writes || (known && old.access.mode & WRITE == 0)) {
                    self.remove(i);
                } else {
                    i += 1;
                }
            }
            self.push(new);
        });
        found
    }

    /// Enters an access from before the allocation was shared.
    pub fn begin_with(&self, entry: &Entry) {
        self.0.locked(|| self.push(entry));
    }

    /// Enters a number that a stream writes.
    pub fn store(&self, new: &Store) {
        let words = new.words();
        self.0.locked(|| {
            let fits = |used: usize| used + words.len() <= STORE_WORDS;
            let used = self.0.get(STORED_WORDS) as usize;
            if self.0.get(STORED) as usize >= MOST_STORES || !fits(used) {
                self.thin_stores();
            }
            let used = self.0.get(STORED_WORDS) as usize;
            if fits(used) {
                self.append(&words);
            } else {
                self.0.set(FORGOTTEN, 1);
            }
        });
    }

    fn append(&self, words: &[u64]) {
        let (stored, used) = (self.0.get(STORED), self.0.get(STORED_WORDS));
        let at = STORES + used as usize;
        words.iter().enumerate().for_each(|(k, word)| self.0.set(at + k, *word));
        self.0.set(STORED, stored + 1);
        self.0.set(STORED_WORDS, used + words.len() as u64);
    }

    /// Returns the stores of some keys, the oldest first.
    fn read_stores(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<Store> {
        let mut found = Vec::new();
        let end = (self.0.get(STORED_WORDS) as usize).min(STORE_WORDS);
        let mut at = 0;
        while at + 2 <= end {
            let length = self.0.get(STORES + at) as usize;
            if length == 0 || length > end - at {
                break;
            }
            if is_wanted(self.0.get(STORES + at + 1)) {
                let words: Vec<u64> = (0..length).map(|k| self.0.get(STORES + at + k)).collect();
                found.extend(Store::of_words(&words));
            }
            at += length;
        }
        found
    }

    /// Makes room for stores: equal numbers that follow each other become one, or of the older half of
    /// the stores of each number, one and the next. If too little room is gained, the oldest are
    /// forgotten.
    fn thin_stores(&self) {
        let (most, most_words) = (MOST_STORES / 4 * 3, STORE_WORDS / 4 * 3);
        let mut kept = Store::join_all(self.read_stores(|_| true), false);
        let words_of = |kept: &[Store]| kept.iter().map(Store::words).collect::<Vec<_>>();
        let size = |words: &[Vec<u64>]| words.iter().map(Vec::len).sum::<usize>();
        let mut words = words_of(&kept);
        if words.len() > most || size(&words) > most_words {
            kept = Store::join_all(kept, true);
            words = words_of(&kept);
        }
        let (mut count, mut used) = (words.len(), size(&words));
        let mut first = 0;
        while count > MOST_STORES / 8 * 7 || used > STORE_WORDS / 8 * 7 {
            (first, count, used) = (first + 1, count - 1, used - words[first].len());
            self.0.set(FORGOTTEN, 1);
        }
        self.0.set(STORED, 0);
        self.0.set(STORED_WORDS, 0);
        words[first..].iter().for_each(|words| self.append(words));
    }

    /// Returns the stores to a number, or to one of which it is half, the oldest first, and whether
    /// older ones were forgotten.
    pub fn stores(&self, offset: u64, wide: bool) -> (Vec<Store>, bool) {
        let whole = Some(offset & !7).filter(|_| !wide);
        let keys = [Some(Store::key(offset, wide)), whole.map(|whole| Store::key(whole, true))];
        self.0.locked(|| {
            let mut found = self.read_stores(|key| keys.contains(&Some(key)));
            for store in found.iter_mut().filter(|store| store.wide != wide) {
                store.value = store.value.half(8 * (offset - store.offset) as u32);
            }
            (found, self.0.get(FORGOTTEN) != 0)
        })
    }

    fn remove(&self, i: usize) {
        let last = self.0.get(ENTERED) as usize - 1;
        self.move_entry(last, i);
        self.0.set(ENTERED, last as u64);
    }

    fn move_entry(&self, from: usize, to: usize) {
        for k in 0..ENTRY_WORDS {
            self.0
                .set(ENTRIES + ENTRY_WORDS * to + k, self.0.get(ENTRIES + ENTRY_WORDS * from + k));
        }
    }

    fn push(&self, entry: &Entry) {
        let mut count = self.0.get(ENTERED) as usize;
        if count >= MOST_ENTRIES {
            count = MOST_ENTRIES / 2;
            (0..count).for_each(|i| self.move_entry(MOST_ENTRIES - count + i, i));
        }
        let access = &entry.access;
        let mut words = vec![
            u64::from(entry.pid),
            entry.at.process,
            entry.at.place,
            entry.at.count,
            access.address,
            access.nbytes,
            u64::from(access.mode) | u64::from(access.ndim) << 32,
        ];
        words.extend(access.count.iter().chain(&access.stride).map(|word| *word as u64));
        for text in [&entry.label, &entry.who] {
            words.extend(packed(text));
        }
        for (k, word) in words.into_iter().enumerate() {
            self.0.set(ENTRIES + ENTRY_WORDS * count + k, word);
        }
        self.0.set(ENTERED, count as u64 + 1);
    }

    /// Returns whether an entry of contiguous bytes has none in a range. Most entries are such.
    fn is_outside(&self, i: usize, from: u64, to: u64) -> bool {
        let word = |k| self.0.get(ENTRIES + ENTRY_WORDS * i + k);
        let (start, nbytes, is_contiguous) = (word(4), word(5), word(6) >> 32 == 0);
        is_contiguous && (to <= start || start.saturating_add(nbytes) <= from)
    }

    fn entry(&self, i: usize) -> Entry {
        let word = |k| self.0.get(ENTRIES + ENTRY_WORDS * i + k);
        let numbers = 7;
        let mut access = Access::range(word(4), word(5), word(6) as u32 & (READ | WRITE));
        access.ndim = ((word(6) >> 32) as u32).min(MAX_NDIM as u32);
        for d in 0..MAX_NDIM {
            access.count[d] = word(numbers + d) as i64;
            access.stride[d] = word(numbers + MAX_NDIM + d) as i64;
        }
        let texts = numbers + 2 * MAX_NDIM;
        Entry {
            pid: word(0) as u32,
            at: Count { process: word(1), place: word(2), count: word(3) },
            access,
            label: unpacked((0..TEXT_WORDS).map(|k| word(texts + k))),
            who: unpacked((0..TEXT_WORDS).map(|k| word(texts + TEXT_WORDS + k))),
        }
    }
}

fn packed(text: &str) -> [u64; TEXT_WORDS] {
    let mut words = [0; TEXT_WORDS];
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(eight);
    }
    words
}

fn unpacked(words: impl Iterator<Item = u64>) -> String {
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).take_while(|byte| *byte != 0).collect();
    shown(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(process: u64, count: u64, from: u64, nbytes: u64, mode: u32) -> Entry {
        Entry {
            pid: process as u32,
            at: Count { process, place: 5, count },
            access: Access::range(from, nbytes, mode),
            label: "a label".to_owned(),
            who: format!("stream of {process}"),
        }
    }

    #[test]
    fn accesses_of_two_processes() {
        let history = History::new().unwrap();
        let mut unknown = |_| false;
        assert!(history.enter(&entry(1, 1, 0, 8, WRITE), &mut unknown).is_empty());
        assert!(history.enter(&entry(2, 1, 8, 8, WRITE), &mut unknown).is_empty());
        let found = history.enter(&entry(2, 2, 4, 8, READ), &mut unknown);
        assert_eq!(found.len(), 1);
        let Entry { at, label, who, access, .. } = &found[0];
        assert_eq!(*at, Count { process: 1, place: 5, count: 1 });
        assert_eq!((label.as_str(), who.as_str()), ("a label", "stream of 1"));
        assert_eq!((access.hull(), access.mode), ((0, 8), WRITE));
        // Two reads do not conflict, and what is known neither.
        assert!(history.enter(&entry(3, 1, 4, 4, READ), &mut |_| true).is_empty());
        assert_eq!(history.enter(&entry(1, 2, 0, 16, WRITE), &mut unknown).len(), 3);
    }

    #[test]
    fn old_accesses_are_forgotten() {
        let history = History::new().unwrap();
        for i in 0..2 * MOST_ENTRIES as u64 {
            history.enter(&entry(1, i, 8 * i, 8, WRITE), &mut |_| false);
        }
        let all = entry(2, 1, 0, 8 * 2 * MOST_ENTRIES as u64, READ);
        let found = history.enter(&all, &mut |_| false).len();
        assert!((MOST_ENTRIES / 2..=MOST_ENTRIES).contains(&found), "{found}");
    }

    fn store(offset: u64, place: u64, value: u64) -> Store {
        let at = Count { process: 1, place, count: value };
        let other = Count { process: 2, place: 9, count: 1 };
        Store::new(offset, true, value, Point { at, known: vec![at, other] })
    }

    #[test]
    fn the_lock_of_a_process_that_has_ended_is_taken() {
        let history = History::new().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        history.0.set(0, u64::from(child.id()));
        history.store(&store(8, 2, 1));
        assert_eq!(history.0.get(0), 0);
        child.wait().unwrap();
        assert!(has_ended(child.id()) && !has_ended(std::process::id()));
    }

    #[test]
    fn stores_are_read_as_they_were_written() {
        let history = History::new().unwrap();
        history.store(&store(8, 2, 1));
        history.store(&store(16, 2, 2));
        assert_eq!(history.stores(8, true), (vec![store(8, 2, 1)], false));
        // Halves of the first one, and what is behind.
        let half = |offset| history.stores(offset, false).0.first().map(|store| store.value.last);
        assert_eq!([8, 12, 24].map(half), [Some(1), Some(0), None]);
    }

    #[test]
    fn old_stores_become_one() {
        let history = History::new().unwrap();
        history.store(&store(8, 2, 7));
        let last = 10 * MOST_STORES as u64;
        (1..=last).for_each(|value| history.store(&store(16, 3, value)));
        assert_eq!(history.stores(8, true), (vec![store(8, 2, 7)], false));
        let (found, are_lost) = history.stores(16, true);
        assert!(!are_lost && found.len() <= MOST_STORES, "{}", found.len());
        // The newest are kept apart, and nothing is missing.
        let newest = &found[found.len() - MOST_STORES / 4..];
        assert!(newest.iter().all(|store| store.value.count == 1));
        let mut next = 1;
        for store in &found {
            let (first, last) = (store.value.first, store.value.last);
            assert_eq!((first, store.first().at.count), (next, next));
            assert_eq!((last, store.last.at.count), (next + store.value.count - 1, last));
            next = last + 1;
        }
        assert_eq!(next, last + 1);
    }

    #[test]
    fn stores_to_too_many_numbers_are_forgotten() {
        let history = History::new().unwrap();
        (1..=3000).for_each(|value| history.store(&store(8 * value, value, value)));
        assert_eq!(history.stores(8, true), (vec![], true));
        assert_eq!(history.stores(8 * 2900, true), (vec![store(8 * 2900, 2900, 2900)], true));
        // Stores of which none comes after another.
        (1..=3000).for_each(|place| history.store(&store(8, place, 5)));
        assert!(history.stores(8, true).0.len() > MOST_STORES / 2);
    }

    #[test]
    fn clocks_are_read_as_they_were_set() {
        let clock = SharedClock::new().unwrap();
        let before = clock.version();
        let counts = [Count { process: 1, place: 2, count: 3 }; 2];
        assert_eq!(clock.set(&counts, || 7), 7);
        assert_eq!(clock.counts(), counts);
        assert_ne!(clock.version(), before);
    }
}
