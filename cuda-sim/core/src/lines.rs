//! A stack as reports print it: the lines of the user's Python code first, what they call folded
//! into one line. Without Python frames, a line for each frame.

use crate::python::Place;
use crate::shown::shown;
use crate::stack::{Frame, StackId, Stacks, Where};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Rows of the user's code; recursion may have any number of others.
const ROWS: usize = 12;
/// Letters of a line of source text.
const WIDTH: usize = 100;
/// Letters of a column that the next one is aligned after.
const COLUMN: usize = 40;
/// Files that are longer are not read to a line.
const LONGEST: u64 = 1 << 24;

impl Stacks {
    pub fn lines(&self, id: StackId) -> Vec<String> {
        let frames = self.describe(id);
        let python: Vec<&Frame> = frames.iter().filter(|frame| frame.python.is_some()).collect();
        if python.is_empty() {
            return frames.iter().map(Frame::to_string).collect();
        }
        // What starts a test is the same for all.
        let end = python.iter().position(|frame| frame.is_of("_pytest/")).unwrap_or(python.len());
        let is_user = |frame: &&&Frame| frame.library().is_none();
        let mut users: Vec<&Frame> = python[..end].iter().filter(is_user).copied().collect();
        if users.is_empty() {
            users = python.clone();
        }
        let mut lines = rows(&users);
        // From the driver to the first row.
        let below = frames.iter().take_while(|frame| !std::ptr::eq(*frame, users[0]));
        let below: Vec<&Frame> = below.collect();
        if self.unfolded {
            lines.extend(below.iter().map(|frame| format!("through {frame}")));
        } else if !below.is_empty() {
            lines.push(format!("through {}", folded(&below).join("; ")));
        }
        lines
    }
}

impl Frame {
    fn library(&self) -> Option<&str> {
        self.python.as_ref()?.library.as_deref()
    }

    fn is_of(&self, package: &str) -> bool {
        self.library().is_some_and(|name| name.starts_with(package))
    }

    /// Returns the line of the source, of the user's Python code.
    pub fn source(&self) -> Option<String> {
        let place = self.python.as_ref().filter(|place| place.library.is_none())?;
        source_of(place)
    }
}

/// Returns columns with the place, the function and the source text. Repeated frames are counted.
fn rows(frames: &[&Frame]) -> Vec<String> {
    let mut found: Vec<(String, String, &Frame, usize)> = Vec::new();
    for frame in frames {
        let (place, function) = (frame.at(), frame.function.clone());
        match found.iter_mut().find(|row| row.0 == place && row.1 == function) {
            Some(row) => row.3 += 1,
            None => found.push((place, function, frame, 1)),
        }
    }
    let more = found.len().saturating_sub(ROWS);
    found.truncate(ROWS);
    let width = |of: &dyn Fn(&(String, String, &Frame, usize)) -> usize| {
        found.iter().map(of).max().unwrap_or(0).min(COLUMN)
    };
    let (first, second) =
        (width(&|row| row.0.chars().count()), width(&|row| row.1.chars().count()));
    let line = |(place, function, frame, count): &(String, String, &Frame, usize)| {
        let times = if *count > 1 { format!("  ({count} times)") } else { String::new() };
        let source = frame.source().unwrap_or_default();
        let line = format!("{place:first$}  {function:second$}  {source}");
        format!("{}{times}", line.trim_end())
    };
    let mut lines: Vec<String> = found.iter().map(line).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Returns what the user's code went through on the way to the driver: the line of the package that
/// it called, the names of other packages, and those of modules.
fn folded(frames: &[&Frame]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut package = String::new();
    let here = std::env::current_dir().unwrap_or_default();
    for (at, frame) in frames.iter().rev().enumerate() {
        let name = match (frame.library(), &frame.place) {
            (Some(library), _) => {
                let of = library.split('/').next().unwrap_or(library);
                if of == package {
                    continue;
                }
                package = of.to_owned();
                match at {
                    0 => format!("{} {}", frame.at(), frame.function),
                    _ => shown(of.trim_end_matches(".py").as_bytes()),
                }
            }
            // Its functions have the same names in every build.
            (None, _) if frame.module.starts_with("libcudart.") && is_of_runtime(frame) => {
                frame.function.clone()
            }
            (None, Where::Line(file, _)) if Path::new(file).starts_with(&here) => {
                format!("{} {}", frame.at(), frame.function)
            }
            (None, _) => module_name(&frame.module).to_owned(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn is_of_runtime(frame: &Frame) -> bool {
    frame.function.starts_with("cuda")
}

/// Returns the name of a module without the offset in it, and without what says for which Python it
/// was built.
fn module_name(module: &str) -> &str {
    let name = module.split("+0x").next().unwrap_or(module);
    name.split(".cpython-").next().unwrap_or(name)
}

fn source_of(place: &Place) -> Option<String> {
    let found = Path::new(&place.file).metadata().ok()?;
    if !found.is_file() || found.len() > LONGEST || place.line == 0 {
        return None;
    }
    let mut lines = BufReader::new(File::open(&place.file).ok()?).split(b'\n');
    let line = lines.nth(place.line as usize - 1)?.ok()?;
    let text = shown(line.trim_ascii());
    Some(match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    })
}
