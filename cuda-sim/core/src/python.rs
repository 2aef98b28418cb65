//! The Python frames of the calling thread, read from its memory.
//!
//! A thread that calls the driver stays in its Python frames until the call returns: only this
//! thread changes them, and they hold their code objects, whose names and line tables never change.
//! So they are read without the interpreter's lock and without references. To take that lock here
//! would hang correct programs: another thread may have it and wait for a lock of the program that
//! this one holds.
//!
//! CPython from 3.13 publishes where everything is (`_Py_DebugOffsets`); 3.9 to 3.12 do not change
//! any more. The first frames of a process are read through the kernel, which cannot fault, and
//! must have the types that the offsets promise. Otherwise, and with other versions, there are no
//! Python frames, and reports say so.
//!
//! `look` runs before the simulator is locked: what it calls in the interpreter takes no lock today,
//! but may in a later version. One window is left: a thread that Python ends with the process
//! (a daemon) is here while the main thread frees its frames.

mod offsets;
mod places;

pub use places::{Place, of_list, user_place};

use crate::modules::{code_of, for_each_code, name_of};
use offsets::{Instruction, Offsets};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// A way to read memory of this process.
trait Memory {
    /// # Safety
    ///
    /// The address is that of a `T`, unless the implementation permits others.
    unsafe fn read<T: Copy>(address: usize) -> Option<T>;
}

struct Direct;

impl Memory for Direct {
    #[inline]
    unsafe fn read<T: Copy>(address: usize) -> Option<T> {
        // SAFETY: the caller guarantees it.
        Some(unsafe { direct(address) })
    }
}

/// Through the kernel: any address is permitted.
struct Checked;

impl Memory for Checked {
    unsafe fn read<T: Copy>(address: usize) -> Option<T> {
        let mut value = std::mem::MaybeUninit::<T>::uninit();
        let own = libc::iovec { iov_base: value.as_mut_ptr().cast(), iov_len: size_of::<T>() };
        let other = libc::iovec { iov_base: address as *mut c_void, iov_len: size_of::<T>() };
        // SAFETY: `own` describes `value`. The kernel checks `other`. Callers read numbers, of which
        // all bytes are valid.
        unsafe {
            let read = libc::process_vm_readv(libc::getpid(), &own, 1, &other, 1, 0);
            (read == size_of::<T>() as isize).then(|| value.assume_init())
        }
    }
}

/// A frame: its code object, and the place in that, in bytes.
#[derive(Clone, Copy)]
struct Raw {
    code: usize,
    offset: usize,
}

/// Frames that are read, from the innermost one.
const DEPTH: usize = 32;

type GetState = unsafe extern "C" fn() -> usize;
type GetFlag = unsafe extern "C" fn() -> c_int;
type GetLine = unsafe extern "C" fn(usize, c_int) -> c_int;
type GetLetter = unsafe extern "C" fn(usize, isize) -> u32;

struct Python {
    version: String,
    offsets: Offsets,
    /// Its code, if that is not a part of the program's own.
    code: Vec<Range<usize>>,
    this_state: GetState,
    /// From 3.12: the state that is attached to the thread.
    attached: Option<GetState>,
    is_initialized: GetFlag,
    is_finalizing: GetFlag,
    line_of: GetLine,
    letter_of: GetLetter,
    /// The types of code objects, texts and bytes.
    types: [usize; 3],
}

static PYTHON: OnceLock<Python> = OnceLock::new();
/// Why there are no Python frames, although there is a Python.
static REFUSED: OnceLock<String> = OnceLock::new();
/// Whether the first frames were as expected.
static CHECKED: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const GOOD: u8 = 1;
const BAD: u8 = 2;

/// Looks for Python, until it is found. Takes the dynamic linker's lock: the caller has no other.
pub fn find() {
    if PYTHON.get().is_some() || REFUSED.get().is_some() {
        return;
    }
    match Python::find() {
        Ok(Some(python)) => drop(PYTHON.get_or_init(|| python)),
        Ok(None) => {}
        Err(what) => refuse(&what),
    }
}

fn refuse(what: &str) {
    let _ = REFUSED.set(format!("no Python lines: {what}"));
}

/// Returns why there are no Python frames, if there is a Python.
pub fn refused() -> Option<&'static str> {
    REFUSED.get().map(String::as_str)
}

/// Returns the handle of the module that has a symbol: also one whose symbols others do not see.
fn module_with(name: &CStr) -> Option<*mut c_void> {
    let has = |module: &*mut c_void| {
        // SAFETY: the handle is that of a loaded module, and the name is NUL-terminated.
        !unsafe { libc::dlsym(*module, name.as_ptr()) }.is_null()
    };
    if has(&libc::RTLD_DEFAULT) {
        return Some(libc::RTLD_DEFAULT);
    }
    let mut paths: Vec<CString> = Vec::new();
    for_each_code(|path, _| {
        if name_of(path).starts_with(b"libpython3") {
            paths.push(path.to_owned());
        }
    });
    let open = |path: CString| {
        // SAFETY: the path is NUL-terminated. The module stays loaded: the handle is not closed.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
    };
    paths.into_iter().map(open).find(|module| !module.is_null() && has(module))
}

impl Python {
    /// Fails with a text if there is one whose frames are not known.
    fn find() -> Result<Option<Python>, String> {
        if module_with(c"pypy_setup_home").is_some() {
            return Err("PyPy is not known".to_owned());
        }
        let Some(module) = module_with(c"_PyRuntime") else { return Ok(None) };
        let address = |names: &[&CStr]| {
            let find = |name: &&CStr| {
                // SAFETY: the handle is that of a loaded module, and the name is NUL-terminated.
                unsafe { libc::dlsym(module, name.as_ptr()) as usize }
            };
            names.iter().map(find).find(|found| *found != 0)
        };
        let get = |names: &[&CStr]| {
            let missing = || format!("this Python has no {}", names[0].to_string_lossy());
            address(names).ok_or_else(missing)
        };
        let version = get(&[c"Py_GetVersion"])?;
        // SAFETY: the function has this type, may be called at any time, and returns NUL-terminated
        // text that stays.
        let text = unsafe {
            let version = transmute::<usize, unsafe extern "C" fn() -> *const c_char>(version);
            CStr::from_ptr(version()).to_string_lossy().into_owned()
        };
        let name = text.split(' ').next().unwrap_or_default();
        let unknown = || format!("CPython {name} is not known");
        let minor = minor_of(name).ok_or_else(unknown)?;
        let runtime = get(&[c"_PyRuntime"])?;
        let offsets = match minor {
            // SAFETY: from 3.13, the variable begins with at least as many words as are asked for
            // if the first two are as expected, which is tested first.
            13.. => Offsets::published(minor, |at| unsafe { *(runtime as *const usize).add(at) }),
            _ => Offsets::fixed(minor),
        };
        let offsets = offsets.ok_or_else(unknown)?;
        let attached = match minor {
            ..12 => 0,
            _ => get(&[c"PyThreadState_GetUnchecked", c"_PyThreadState_UncheckedGet"])?,
        };
        let finalizing = get(&[c"Py_IsFinalizing", c"_Py_IsFinalizing"])?;
        // SAFETY: functions of these names have these types in all versions that are known, and
        // none is at 0, which stands for `None`.
        unsafe {
            Ok(Some(Python {
                version: name.to_owned(),
                offsets,
                code: code_of_interpreter(version),
                this_state: transmute::<usize, GetState>(get(&[c"PyGILState_GetThisThreadState"])?),
                attached: transmute::<usize, Option<GetState>>(attached),
                is_initialized: transmute::<usize, GetFlag>(get(&[c"Py_IsInitialized"])?),
                is_finalizing: transmute::<usize, GetFlag>(finalizing),
                line_of: transmute::<usize, GetLine>(get(&[c"PyCode_Addr2Line"])?),
                letter_of: transmute::<usize, GetLetter>(get(&[c"PyUnicode_ReadChar"])?),
                types: [
                    get(&[c"PyCode_Type"])?,
                    get(&[c"PyUnicode_Type"])?,
                    get(&[c"PyBytes_Type"])?,
                ],
            }))
        }
    }

    /// Returns the calling thread's state; 0 if it has none, or may not read it.
    fn state(&self) -> usize {
        // SAFETY: these functions read variables of the interpreter and of this thread only, and may
        // be called at any time. Once the interpreter ends, it frees the states of other threads.
        unsafe {
            let may = if (self.is_finalizing)() != 0 {
                libc::gettid() == libc::getpid()
            } else {
                (self.is_initialized)() != 0
            };
            match self.attached.map_or(0, |attached| attached()) {
                _ if !may => 0,
                0 => (self.this_state)(),
                state => state,
            }
        }
    }

    /// Adds the frames of a state. `None`: memory that cannot be read.
    ///
    /// # Safety
    ///
    /// The state is the calling thread's, and the offsets are right unless `M` permits any address.
    #[inline]
    unsafe fn walk<M: Memory>(&self, state: usize, out: &mut Vec<Raw>) -> Option<()> {
        let o = &self.offsets;
        // SAFETY: the state has a frame or NULL, and so have frames; they are those of the calling
        // thread, which is not in them now. Each has a code object and a place in its bytecode.
        unsafe {
            let mut next: usize = M::read(state + o.frame)?;
            if let (Some(inner), true) = (o.inner, next != 0) {
                next = M::read(next + inner)?;
            }
            for _ in 0..4 * DEPTH {
                if next == 0 || out.len() == DEPTH {
                    break;
                }
                let frame = next;
                next = M::read(frame + o.previous)?;
                if let Some((at, least)) = o.owner {
                    if M::read::<u8>(frame + at)? >= least {
                        continue;
                    }
                }
                // The lowest bits of a counted reference are flags.
                let code = M::read::<usize>(frame + o.code)? & !3;
                if code == 0 {
                    continue;
                }
                let offset = match o.instruction {
                    Instruction::Number { at, unit } => {
                        M::read::<c_int>(frame + at)?.max(0) as usize * unit
                    }
                    Instruction::Pointer { at, begins } => {
                        let mut begin = code + begins;
                        if let Some(copy) = o.copy {
                            let number = M::read::<c_int>(frame + copy)?;
                            let copies: usize = M::read(code + o.copies)?;
                            if copies != 0 && number >= 0 && (number as isize) < M::read(copies)? {
                                let own = M::read(copies + 8 + 8 * number as usize)?;
                                begin = if own == 0 { begin } else { own };
                            }
                        }
                        M::read::<usize>(frame + at)?.saturating_sub(begin)
                    }
                };
                out.push(Raw { code, offset });
            }
        }
        Some(())
    }

    /// Returns whether a state and its frames are what the offsets promise: `UNKNOWN` without
    /// frames. `None`: memory that cannot be read.
    fn verdict(&self, state: usize) -> Option<u8> {
        let o = &self.offsets;
        let [codes, texts, tables] = self.types;
        let mut frames = Vec::new();
        // SAFETY: `Checked` permits any address, and `pthread_self` may be called at any time.
        unsafe {
            if Checked::read::<usize>(state + o.thread)? != libc::pthread_self() as usize {
                return Some(BAD);
            }
            self.walk::<Checked>(state, &mut frames)?;
            let of = |object: usize, at: usize| Checked::read::<usize>(object.wrapping_add(at));
            for Raw { code, .. } in &frames {
                let [file, name, lines] = [o.file, o.name, o.lines].map(|at| of(*code, at));
                let (file, name, lines) = (file?, name?, lines?);
                let objects = [(*code, codes), (file, texts), (name, texts), (lines, tables)];
                for (object, kind) in objects {
                    if of(object, o.kind)? != kind {
                        return Some(BAD);
                    }
                }
                let lengths = [of(file, o.length)?, of(name, o.length)?, of(lines, o.size)?];
                if lengths.iter().any(|length| *length > 1 << 28) {
                    return Some(BAD);
                }
            }
        }
        Some(if frames.is_empty() { UNKNOWN } else { GOOD })
    }

    /// Returns whether frames may be read directly, if there are any.
    #[cold]
    fn check(&self, state: usize) -> bool {
        let verdict = self.verdict(state).unwrap_or(BAD);
        // SAFETY: `Checked` permits any address.
        if verdict == BAD && unsafe { Checked::read::<u8>(&raw const verdict as usize) }.is_none() {
            refuse("this process may not call process_vm_readv");
        } else if verdict == BAD {
            refuse(&format!("the frames of CPython {} are not as expected", self.version));
        }
        let _ = CHECKED.compare_exchange(UNKNOWN, verdict, Ordering::AcqRel, Ordering::Relaxed);
        CHECKED.load(Ordering::Acquire) == GOOD
    }

    /// Returns the list of the frames of a state, which is that of the calling thread; 0 for none.
    fn list(&self, state: usize, seen: &mut Seen) -> u32 {
        let checked = CHECKED.load(Ordering::Acquire);
        if checked == BAD || checked == UNKNOWN && !self.check(state) {
            return 0;
        }
        let Seen { raw, identities, lists } = seen;
        raw.clear();
        // SAFETY: the state is that of the calling thread, and the offsets were checked.
        let _ = unsafe { self.walk::<Direct>(state, raw) };
        if raw.is_empty() {
            return 0;
        }
        identities.clear();
        identities.extend(raw.iter().map(|raw| self.identity(*raw)));
        let mut hash = Hash(identities.len() as u64);
        identities.iter().for_each(|identity| hash.add(*identity));
        let known = &mut lists[hash.0 as usize % KNOWN];
        if known.0 != hash.0 {
            let list = places::list(hash.0, identities, |at| self.place(raw[at]));
            *known = (hash.0, list);
        }
        known.1
    }

    /// Returns a number for a place: the same for the same file, function and line table, however
    /// often that code is made anew, and another one if new code has the address of old one.
    fn identity(&self, raw: Raw) -> u64 {
        let o = &self.offsets;
        // SAFETY: the code object is that of a frame of the calling thread, which holds it, and it
        // holds its texts and its line table, of which as many bytes are read as it has.
        unsafe {
            let [file, name, lines] =
                [o.file, o.name, o.lines].map(|at| direct::<usize>(raw.code + at));
            let first: u32 = direct(raw.code + o.first);
            let size: usize = direct(lines + o.size);
            let mut hash = Hash(raw.offset as u64);
            hash.add(u64::from(first) << 32 | size as u64);
            hash.add(self.hash_of_text(file));
            hash.add(self.hash_of_text(name));
            let table = std::slice::from_raw_parts((lines + o.bytes) as *const u8, size);
            // Generated code has the same name again and again.
            if size <= 16 || direct::<u8>(file + o.ascii) == b'<' {
                hash.add_bytes(table);
            } else {
                hash.add(direct(lines + o.bytes));
                hash.add(direct(lines + o.bytes + size - 8));
            }
            hash.0
        }
    }

    /// # Safety
    ///
    /// `object` is a text that stays.
    unsafe fn hash_of_text(&self, object: usize) -> u64 {
        let o = &self.offsets;
        // SAFETY: a text has its length, and behind that the hash of its contents, or -1. One in
        // ASCII has its letters at `ascii`; another one has a number there, whose highest byte is 0.
        unsafe {
            let (length, known): (usize, u64) =
                (direct(object + o.length), direct(object + o.length + 8));
            if known != u64::MAX {
                return known;
            }
            let mut hash = Hash(length as u64);
            let is_ascii = length >= 8 && !direct::<[u8; 8]>(object + o.ascii).contains(&0);
            if is_ascii {
                let letters = (object + o.ascii) as *const u8;
                hash.add_bytes(std::slice::from_raw_parts(letters, length));
            } else {
                self.letters(object).for_each(|letter| hash.add(letter.into()));
            }
            hash.0
        }
    }

    /// # Safety
    ///
    /// `object` is a text that stays.
    unsafe fn letters(&self, object: usize) -> impl Iterator<Item = u32> {
        // SAFETY: the caller's text has this member.
        let length: isize = unsafe { direct(object + self.offsets.length) };
        // SAFETY: the numbers are less than the length.
        (0..length.min(4096)).map(move |at| unsafe { (self.letter_of)(object, at) })
    }

    fn place(&self, raw: Raw) -> Place {
        // SAFETY: as in `identity`; `line_of` accepts any place in the code.
        let (file, function, line) = unsafe {
            let text = |at: usize| -> String {
                let letters = self.letters(direct(raw.code + at));
                letters.map(|letter| char::from_u32(letter).unwrap_or('\u{fffd}')).collect()
            };
            let line = (self.line_of)(raw.code, raw.offset as c_int);
            (text(self.offsets.file), text(self.offsets.name), line)
        };
        Place::new(file, line.max(0) as u32, function)
    }
}

/// # Safety
///
/// The address is that of a `T`.
unsafe fn direct<T: Copy>(address: usize) -> T {
    // SAFETY: the caller guarantees it.
    unsafe { (address as *const T).read_unaligned() }
}

/// Returns the second number of a version that is no preview: of `3.12.1`, `3.11.2+`.
fn minor_of(version: &str) -> Option<u32> {
    let mut parts = version.trim_end_matches('+').split('.');
    let numbers: [&str; 3] = [parts.next()?, parts.next()?, parts.next()?];
    numbers[2].parse::<u32>().ok()?;
    (numbers[0] == "3").then(|| numbers[1].parse().ok())?
}

/// Returns the code of the module of a function if that is an interpreter alone. A program that
/// contains one has functions of its own there.
fn code_of_interpreter(function: usize) -> Vec<Range<usize>> {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().as_encoded_bytes();
    code_of(|path, code| {
        let name = if path.is_empty() { program } else { name_of(path) };
        let is_python = name.starts_with(b"python") || name.starts_with(b"libpython3");
        is_python && code.contains(&function)
    })
}

struct Hash(u64);

impl Hash {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in words.by_ref() {
            self.add(word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
        let rest = words.remainder();
        self.add(rest.iter().fold(rest.len() as u64, |word, byte| word << 8 | u64::from(*byte)));
    }
}

// --- the calling thread ---

/// Number of lists that a thread remembers.
const KNOWN: usize = 64;

/// What a thread keeps, so that it allocates nothing in most calls.
struct Seen {
    raw: Vec<Raw>,
    identities: Vec<u64>,
    /// By hash: the hash and the number.
    lists: [(u64, u32); KNOWN],
}

thread_local! {
    /// The frames from which the calling thread calls the driver.
    static LIST: Cell<u32> = const { Cell::new(0) };
    /// Made by `Box::into_raw`; NULL before it is needed.
    static SEEN: Cell<*mut Seen> = const { Cell::new(ptr::null_mut()) };
    /// Whether it looks for its frames, or ends: a signal handler may come in between, and nothing
    /// would free what its last destructors need.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Notes the frames from which the calling thread calls the driver, until its lock is released.
/// Must be called before that is taken.
#[inline]
pub fn look() {
    if let Some(python) = PYTHON.get() {
        look_with(python);
    }
}

fn look_with(python: &Python) {
    let state = python.state();
    if state == 0 || BUSY.replace(true) {
        LIST.set(0);
        return;
    }
    if SEEN.get().is_null() {
        let seen = Seen { raw: Vec::new(), identities: Vec::new(), lists: [(0, 0); KNOWN] };
        SEEN.set(Box::into_raw(Box::new(seen)));
    }
    // SAFETY: made above, and freed by `forget` only. `BUSY` keeps others of this thread away.
    LIST.set(python.list(state, unsafe { &mut *SEEN.get() }));
    BUSY.set(false);
}

/// Returns the number of the list of frames that were noted; 0 for none.
pub fn noted() -> u32 {
    LIST.get()
}

/// Replaces what is noted, around functions of the program that call the driver.
pub fn note(list: u32) {
    LIST.set(list);
}

/// Frees what the calling thread keeps, which ends.
pub fn forget() {
    BUSY.set(true);
    let seen = SEEN.replace(ptr::null_mut());
    if !seen.is_null() {
        // SAFETY: `look_with` made it, and nothing else has the pointer.
        drop(unsafe { Box::from_raw(seen) });
    }
}

/// Returns the code of the interpreter, if it is no part of another program.
pub fn code() -> &'static [Range<usize>] {
    PYTHON.get().map_or(&[], |python| &python.code)
}
