//! The call stack of the driver's caller: native frames up to the interpreter, and those of Python.
//!
//! The stack is taken at every operation while the checker is on, so this must be cheap. Unwinding
//! takes microseconds. A loop enqueues from the same stack again and again, so each walk remembers
//! where on the stack its return addresses are; if the same stack pointer comes back and all of
//! them are unchanged, it is the same stack.

use crate::modules::{code_of, name_of};
use crate::python::{self, Place};
use crate::shown::shown;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

/// The number of a stack in a `Stacks`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct StackId(u32);

const DEPTH: usize = 24;

#[derive(Default)]
pub struct Stacks {
    by_frames: HashMap<Vec<usize>, u32>,
    frames: Vec<Vec<usize>>,
    by_parts: HashMap<(u32, u32), StackId>,
    /// The number of the native frames, and of the list of Python frames.
    parts: Vec<(u32, u32)>,
    /// Whether reports have all frames.
    pub unfolded: bool,
}

/// A function on a stack.
pub struct Frame {
    pub function: String,
    pub place: Where,
    /// Of a native frame, with the offset in it.
    pub module: String,
    pub python: Option<Place>,
}

/// What tells findings apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Caller {
    Stack(StackId),
    /// The number of the user's place in Python code, whatever is below and above.
    Python(u32),
}

pub enum Where {
    /// The file and the line.
    Line(String, u32),
    /// The module and the offset in it, without debug information.
    Module(String),
}

impl std::fmt::Display for Frame {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        match &self.place {
            _ if self.python.is_some() => write!(to, "{} {}", self.at(), self.function),
            Where::Line(file, line) => write!(to, "{} {file}:{line}", self.function),
            Where::Module(module) => write!(to, "{} ({module})", self.function),
        }
    }
}

struct Remembered {
    pointer: usize,
    native: u32,
    /// The list of Python frames of the last time, and the whole stack.
    python: u32,
    id: StackId,
    /// The places of return addresses on the stack, and the addresses.
    slots: Vec<(usize, usize)>,
}

const REMEMBERED: usize = 64;

/// The last stacks of a thread.
type Cache = Vec<Option<Remembered>>;

thread_local! {
    /// Of the calling thread, made by `Box::into_raw`; NULL before it is needed.
    static CACHE: Cell<*mut Cache> = const { Cell::new(ptr::null_mut()) };
    /// Whether the calling thread ends. Nothing would free a cache of its last destructors.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Frees the cache of the calling thread, which ends.
pub fn forget() {
    ENDS.set(true);
    let cache = CACHE.replace(ptr::null_mut());
    if !cache.is_null() {
        // SAFETY: `here` made it, and nothing else has the pointer.
        drop(unsafe { Box::from_raw(cache) });
    }
}

impl StackId {
    pub fn number(self) -> u32 {
        self.0
    }
}

impl Stacks {
    /// Returns the stack of the calling thread.
    #[inline(never)]
    pub fn here(&mut self) -> StackId {
        let marker = 0usize;
        let pointer = &raw const marker as usize;
        // Taken meanwhile: a signal handler that comes here makes another one.
        let cache = CACHE.replace(ptr::null_mut());
        let mut cache = if cache.is_null() {
            Box::new((0..REMEMBERED).map(|_| None).collect())
        } else {
            // SAFETY: this function made it below, and nothing else has the pointer.
            unsafe { Box::from_raw(cache) }
        };
        let id = self.look_up(&mut cache[(pointer >> 4) % REMEMBERED], pointer);
        if !ENDS.get() {
            CACHE.set(Box::into_raw(cache));
        }
        id
    }

    fn look_up(&mut self, entry: &mut Option<Remembered>, pointer: usize) -> StackId {
        let python = python::noted();
        if let Some(known) = entry {
            let same = |&(slot, value): &(usize, usize)| {
                // SAFETY: `pointer`, compared below first, is the same as when `walk` recorded the
                // slots, so all of them lie further up on this thread's stack, which is mapped.
                // They are read as plain numbers.
                unsafe { (slot as *const usize).read_volatile() == value }
            };
            // With Python frames, the native ones end earlier.
            let alike = known.pointer == pointer && (known.python == 0) == (python == 0);
            if alike && known.slots.iter().all(same) {
                if known.python != python {
                    (known.python, known.id) = (python, self.whole(known.native, python));
                }
                return known.id;
            }
        }
        let (frames, slots) = walk(pointer, if python == 0 { &[] } else { python::code() });
        let native = self.intern(frames);
        let id = self.whole(native, python);
        *entry = slots.map(|slots| Remembered { pointer, native, python, id, slots });
        id
    }

    /// Returns the stack of the calling thread from a return address outwards.
    pub fn here_from(&mut self, pc: usize) -> StackId {
        let id = self.here();
        let (native, python) = self.parts[id.0 as usize];
        match self.frames[native as usize].iter().position(|frame| *frame == pc) {
            None | Some(0) => id,
            Some(first) => {
                let native = self.intern(self.frames[native as usize][first..].to_vec());
                self.whole(native, python)
            }
        }
    }

    /// Returns the stack of a number.
    pub fn numbered(&self, number: u32) -> Option<StackId> {
        ((number as usize) < self.parts.len()).then_some(StackId(number))
    }

    /// Returns a stack without frames.
    pub fn unknown(&mut self) -> StackId {
        let native = self.intern(Vec::new());
        self.whole(native, 0)
    }

    fn intern(&mut self, frames: Vec<usize>) -> u32 {
        if let Some(native) = self.by_frames.get(&frames) {
            return *native;
        }
        let native = self.frames.len() as u32;
        self.frames.push(frames.clone());
        self.by_frames.insert(frames, native);
        native
    }

    fn whole(&mut self, native: u32, python: u32) -> StackId {
        *self.by_parts.entry((native, python)).or_insert_with(|| {
            self.parts.push((native, python));
            StackId(self.parts.len() as u32 - 1)
        })
    }

    pub fn has_python(&self, id: StackId) -> bool {
        self.parts[id.0 as usize].1 != 0
    }

    pub fn caller(&self, id: StackId) -> Caller {
        python::user_place(self.parts[id.0 as usize].1).map_or(Caller::Stack(id), Caller::Python)
    }

    /// Returns the functions of a stack, innermost first: native ones, then those of Python.
    pub fn describe(&self, id: StackId) -> Vec<Frame> {
        let (native, python) = self.parts[id.0 as usize];
        let mut found = describe_native(&self.frames[native as usize]);
        found.extend(python::of_list(python).into_iter().map(Frame::of_python));
        found
    }
}

impl Frame {
    fn of_python(place: Place) -> Frame {
        let (function, file) = (shown(place.function.as_bytes()), shown(place.file.as_bytes()));
        let at = if place.file.starts_with('<') {
            Where::Module(format!("{file}:{}", place.line))
        } else {
            Where::Line(file, place.line)
        };
        Frame { function, place: at, module: String::new(), python: Some(place) }
    }

    /// Returns the place: of a Python frame as short as it is clear.
    pub fn at(&self) -> String {
        match &self.place {
            Where::Module(module) => module.clone(),
            Where::Line(file, line) => {
                let here = std::env::current_dir().unwrap_or_default();
                let library = self.python.as_ref().and_then(|place| place.library.as_deref());
                let inside = Path::new(file).strip_prefix(here).ok().and_then(Path::to_str);
                let name = library.map(|name| shown(name.as_bytes()));
                format!("{}:{line}", name.as_deref().or(inside).unwrap_or(file))
            }
        }
    }
}

fn describe_native(frames: &[usize]) -> Vec<Frame> {
    let mut lines = Vec::new();
    for &frame in &frames[..frames.len() - starting_frames(frames)] {
        let mut named = false;
        // The call is the instruction before the return address.
        let address = (frame - 1) as *mut c_void;
        backtrace::resolve(address, |symbol| {
            let name = symbol
                .name()
                .map_or_else(|| "?".to_owned(), |name| shown(format!("{name:#}").as_bytes()));
            let place = match (symbol.filename(), symbol.lineno()) {
                (Some(file), Some(line)) => {
                    Where::Line(shown(file.as_os_str().as_encoded_bytes()), line)
                }
                _ => Where::Module(module_of(frame)),
            };
            lines.push(Frame { function: name, place, module: module_of(frame), python: None });
            named = true;
        });
        if !named {
            let module = module_of(frame);
            let place = Where::Module(module.clone());
            lines.push(Frame { function: format!("{frame:#x}"), place, module, python: None });
        }
    }
    lines
}

/// Returns how many of the outermost frames start the program or the thread. They are the same for
/// all stacks, and not worth a line. They are recognized by their addresses, without symbols: the
/// debug information of libc is compressed where it is installed, and decompressing it takes longer
/// than everything else in a report.
fn starting_frames(frames: &[usize]) -> usize {
    // A stack that was cut off ends somewhere else.
    if frames.len() >= DEPTH {
        return 0;
    }
    let mut outermost = frames.iter().rev().map(|frame| frame - 1).peekable();
    let mut found = 0;
    // SAFETY: `getauxval` accepts any number.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    // `_start` is shorter than this, and `main` is further away or not its caller.
    if outermost.next_if(|frame| (entry..entry + 64).contains(frame)).is_some() {
        found += 1;
    }
    // One or two functions of libc call `main`; two call the function of a thread. Some of them
    // have names that are not exported, unlike `exit`, `qsort` and others, which programs call.
    let libc = libc_base();
    let starts = |frame: &usize| {
        symbol_of(*frame).is_some_and(|(base, name)| {
            Some(base) == libc
                && name.is_none_or(|name| {
                    let names: [&[u8]; 3] = [b"__libc_start_main", b"clone", b"__clone"];
                    names.contains(&name)
                })
        })
    };
    for _ in 0..2 {
        if outermost.next_if(starts).is_none() {
            break;
        }
        found += 1;
    }
    found
}

/// Returns where the module of the functions lies that start programs and threads.
fn libc_base() -> Option<usize> {
    static BASE: OnceLock<Option<usize>> = OnceLock::new();
    let known = libc::getauxval as unsafe extern "C" fn(libc::c_ulong) -> libc::c_ulong as usize;
    *BASE.get_or_init(|| symbol_of(known).map(|(base, _)| base))
}

/// Returns the frames outside of own libraries, up to one in `until`, and the places of their return
/// addresses if all are known.
fn walk(pointer: usize, until: &[Range<usize>]) -> (Vec<usize>, Option<Vec<(usize, usize)>>) {
    let own = own_code();
    let is_own = |ip: usize| own.iter().any(|range| range.contains(&ip));
    let mut frames = Vec::with_capacity(DEPTH);
    let mut slots = Vec::with_capacity(DEPTH + 8);
    let (mut known, mut ended) = (true, false);
    let mut before = pointer;
    // SAFETY: the lock that `trace_unsynchronized` requires guards symbolization, which is not done
    // here. A slot is read only if it is within 1 MiB above `pointer`, which is in the current
    // frame: that part of the stack is mapped, because the frames above are on it.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let ip = frame.ip() as usize;
            let sp = frame.sp() as usize;
            // The outermost frame has no caller.
            if ip == 0 {
                return false;
            }
            // A return address is just below the frame that it returns to.
            let slot = [sp.wrapping_sub(8), before.wrapping_sub(8)].into_iter().find(|slot| {
                *slot >= pointer
                    && *slot < pointer + (1 << 20)
                    && (*slot as *const usize).read_volatile() == ip
            });
            before = sp;
            if slot.is_none_or(|slot| slot < pointer) {
                // The first frames are this function's and its caller's own.
                known &= frames.is_empty() && is_own(ip);
            }
            slots.extend(slot.map(|slot| (slot, ip)));
            ended = until.iter().any(|range| range.contains(&ip));
            if ended {
                return false;
            }
            if !is_own(ip) {
                frames.push(ip);
            }
            frames.len() < DEPTH
        });
    }
    let known = known && slots.len() >= frames.len() && (ended || !frames.is_empty());
    (frames, known.then_some(slots))
}

/// Libraries between the program and the driver, or between a thread and its function: the
/// preloaded ones, and CUDA's runtime library.
const BETWEEN: [&[u8]; 4] =
    [b"libcudasim_threads.so", b"libcudasim_redirect.so", b"libcudart.so.12", b"libcudart.so.13"];

/// Returns the address ranges of this library's code and of the libraries `BETWEEN`, whose frames
/// do not help users. All of them stay loaded. A runtime library that is loaded after the first
/// stack was taken keeps its frames.
fn own_code() -> &'static [Range<usize>] {
    static CODE: OnceLock<Vec<Range<usize>>> = OnceLock::new();
    let own = own_code as fn() -> &'static [Range<usize>] as usize;
    CODE.get_or_init(|| {
        code_of(|path, code| BETWEEN.contains(&name_of(path)) || code.contains(&own))
    })
}

fn module_of(address: usize) -> String {
    let Some(info) = dladdr(address) else { return "?".to_owned() };
    if info.dli_fname.is_null() {
        return "?".to_owned();
    }
    // SAFETY: the name lives as long as the module, which is not unloaded during the call.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    let copied = name_in_memory(path);
    let name = copied.as_deref().unwrap_or_else(|| name_of(path));
    format!("{}+{:#x}", shown(name), address - info.dli_fbase as usize)
}

/// Returns the name of a file in memory, from whose descriptor a module was loaded.
fn name_in_memory(path: &CStr) -> Option<Vec<u8>> {
    let path = path.to_str().ok()?.strip_prefix("/proc/self/fd/")?;
    let link = std::fs::read_link(Path::new("/proc/self/fd").join(path)).ok()?;
    let name = link.as_os_str().as_encoded_bytes().strip_prefix(b"/memfd:")?;
    Some(name.strip_suffix(b" (deleted)").unwrap_or(name).to_vec())
}

/// Returns where the module of an address lies, and the exported name of the function.
fn symbol_of(address: usize) -> Option<(usize, Option<&'static [u8]>)> {
    let info = dladdr(address)?;
    // SAFETY: the name lives as long as the module. Callers look only at names of libc, which is
    // never unloaded.
    let name = (!info.dli_sname.is_null()).then(|| unsafe { CStr::from_ptr(info.dli_sname) });
    Some((info.dli_fbase as usize, name.map(CStr::to_bytes)))
}

fn dladdr(address: usize) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` accepts any address, and fills `info` where it does not return 0.
    unsafe {
        (libc::dladdr(address as *const c_void, info.as_mut_ptr()) != 0).then(|| info.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::fd::FromRawFd;

    #[test]
    fn a_module_in_memory_has_the_name_of_its_file() {
        // SAFETY: the names are NUL-terminated, the descriptor is new, and the module stays loaded.
        let address = unsafe {
            let libm = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
            let found = dladdr(libc::dlsym(libm, c"hypot".as_ptr()) as usize).unwrap();
            let path = CStr::from_ptr(found.dli_fname).to_str().unwrap();
            let descriptor = libc::memfd_create(c"libcopy.so.1".as_ptr(), libc::MFD_CLOEXEC);
            let mut copy = std::fs::File::from_raw_fd(descriptor);
            std::io::copy(&mut std::fs::File::open(path).unwrap(), &mut copy).unwrap();
            std::mem::forget(copy);
            let path = CString::new(format!("/proc/self/fd/{descriptor}")).unwrap();
            let copied = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            libc::dlsym(copied, c"hypot".as_ptr()) as usize
        };
        assert!(module_of(address).starts_with("libcopy.so.1+0x"), "{}", module_of(address));
        assert!(module_of(module_of as *const () as usize).contains("cudasim_core"));
    }
}
