//! Places in Python code: what is kept of frames, by number.
//!
//! Code objects end, and their memory is used again. So texts are copied when a place is first seen.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A place in Python code.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The path of a file, or a name such as `<string>`.
    pub file: String,
    pub line: u32,
    pub function: String,
    /// Of the standard library or an installed package: the path in the folder of libraries.
    pub library: Option<String>,
}

impl Place {
    pub fn new(file: String, line: u32, function: String) -> Place {
        // A script has the path of the command line, relative to the folder of that moment.
        let here = std::env::current_dir().unwrap_or_default().join(&file);
        let file = match here.to_str() {
            Some(path) if here.is_file() => path.to_owned(),
            _ => file,
        };
        Place { library: library_of(&file).map(str::to_owned), file, line, function }
    }
}

fn library_of(file: &str) -> Option<&str> {
    for folder in ["/site-packages/", "/dist-packages/"] {
        if let Some((_, name)) = file.rsplit_once(folder) {
            return Some(name);
        }
    }
    for folder in ["/lib/python3", "/lib64/python3"] {
        if let Some((_, rest)) = file.rsplit_once(folder) {
            return rest.split_once('/').map(|(_, name)| name);
        }
    }
    // This package in its sources: a declared kernel is where the user calls it.
    if file.ends_with("/cuda_sim/__init__.py") || file.ends_with("/cuda_sim/_driver.py") {
        return file.rsplit_once("/cuda_sim/").map(|(folder, _)| &file[folder.len() + 1..]);
    }
    file.starts_with("<frozen ").then_some(file)
}

/// The places that were seen, by their identities, and the lists of them, by the hashes of those.
#[derive(Default)]
struct Places {
    places: Vec<Place>,
    /// Several calls may be on one line.
    by_identity: HashMap<u64, u32>,
    by_place: HashMap<Place, u32>,
    /// Number 1 is the first one.
    lists: Vec<Box<[u32]>>,
    by_hash: HashMap<u64, u32>,
}

/// Generated code may have new places for ever.
const MOST: usize = 1 << 20;

/// Nothing of Python, and no other lock, is used while these are locked.
fn locked() -> MutexGuard<'static, Places> {
    static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of a list of places; 0 if there are too many. `describe` copies the texts of
/// the place at an index.
pub fn list(hash: u64, identities: &[u64], describe: impl Fn(usize) -> Place) -> u32 {
    let mut known = locked();
    if let Some(list) = known.by_hash.get(&hash) {
        return *list;
    }
    if known.lists.len().max(known.by_identity.len()) >= MOST {
        return 0;
    }
    let is_new = |at: &usize| !known.by_identity.contains_key(&identities[*at]);
    let new: Vec<usize> = (0..identities.len()).filter(is_new).collect();
    drop(known);
    let new: Vec<(u64, Place)> = new.into_iter().map(|at| (identities[at], describe(at))).collect();
    known = locked();
    let Places { places, by_identity, by_place, lists, by_hash } = &mut *known;
    for (identity, place) in new {
        let number = *by_place.entry(place.clone()).or_insert_with(|| {
            places.push(place);
            places.len() as u32 - 1
        });
        by_identity.insert(identity, number);
    }
    *by_hash.entry(hash).or_insert_with(|| {
        lists.push(identities.iter().map(|identity| by_identity[identity]).collect());
        lists.len() as u32
    })
}

pub fn of_list(list: u32) -> Vec<Place> {
    let known = locked();
    let numbers = (list as usize).checked_sub(1).map(|at| &*known.lists[at]).unwrap_or_default();
    numbers.iter().map(|number| known.places[*number as usize].clone()).collect()
}

/// Returns the number of the innermost place in the user's code, or else the innermost one.
pub fn user_place(list: u32) -> Option<u32> {
    let known = locked();
    let numbers = &known.lists[(list as usize).checked_sub(1)?];
    let is_user = |number: &&u32| known.places[**number as usize].library.is_none();
    numbers.iter().find(is_user).or(numbers.first()).copied()
}
