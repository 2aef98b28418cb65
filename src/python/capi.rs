//! CPython, found in the process that loaded this library: nothing is linked. Its structures, and
//! what it says about threads and about its end.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::ops::Range;

use crate::abi::{self, _object};
use crate::error::{Failure, Result, fail, failure};
use crate::library::Library;
use crate::memory;
use crate::published::Published;
pub use crate::python::py::Capi;
use crate::python::py::{Attached, find_places};

pub type Object = _object;

pub type CapsuleDestructor = unsafe extern "C-unwind" fn(*mut Object);

/// `PyType_Slot`
#[repr(C)]
pub struct TypeSlot {
    pub slot: c_int,
    pub function: *mut c_void,
}

/// `PyType_Spec`
#[repr(C)]
pub struct TypeSpec {
    pub name: *const c_char,
    pub basicsize: c_int,
    pub itemsize: c_int,
    pub flags: u32,
    pub slots: *mut TypeSlot,
}

/// `PyMethodDef`
#[repr(C)]
pub struct MethodDef {
    pub name: *const c_char,
    pub function: *const c_void,
    pub flags: c_int,
    pub doc: *const c_char,
}

// SAFETY: plain data. Definitions in statics refer to constants, and CPython does not change them.
unsafe impl Sync for MethodDef {}

/// `PyGetSetDef`
#[repr(C)]
pub struct GetSetDef {
    pub name: *const c_char,
    pub get: Option<unsafe extern "C-unwind" fn(*mut Object, *mut c_void) -> *mut Object>,
    pub set: *const c_void,
    pub doc: *const c_char,
    pub closure: *mut c_void,
}

/// `PyMemberDef`
#[repr(C)]
pub struct MemberDef {
    pub name: *const c_char,
    pub r#type: c_int,
    pub offset: isize,
    pub flags: c_int,
    pub doc: *const c_char,
}

/// `Py_buffer`
#[repr(C)]
pub struct PyBuffer {
    pub buf: *mut c_void,
    pub obj: *mut Object,
    pub len: isize,
    pub itemsize: isize,
    pub readonly: c_int,
    pub ndim: c_int,
    pub format: *const c_char,
    pub shape: *const isize,
    pub strides: *const isize,
    pub suboffsets: *const isize,
    pub internal: *mut c_void,
}

/// `PyBUF_FULL_RO`
pub(super) const BUFFER_FULL_RO: c_int = 0x11c;
/// `PyBUF_WRITABLE`
pub(super) const BUFFER_WRITABLE: c_int = 1;
/// `PyBUF_FORMAT`
pub(super) const BUFFER_FORMAT: c_int = 4;
/// `PyBUF_ND`
pub(super) const BUFFER_ND: c_int = 8;
/// The bits beside `PyBUF_ND` of `PyBUF_STRIDES`, `PyBUF_C_CONTIGUOUS` and the others.
pub(super) const BUFFER_STRIDES: c_int = 0x10;
pub(super) const BUFFER_C_CONTIGUOUS: c_int = 0x20;
pub(super) const BUFFER_F_CONTIGUOUS: c_int = 0x40;
pub(super) const BUFFER_ANY_CONTIGUOUS: c_int = 0x80;
pub(super) const BF_GETBUFFER: c_int = 1;
pub(super) const BF_RELEASEBUFFER: c_int = 2;
pub(super) const TP_DEALLOC: c_int = 52;
pub(super) const TP_DOC: c_int = 56;
pub(super) const TP_GETATTRO: c_int = 58;
pub(super) const TP_GETSET: c_int = 73;
pub(super) const TP_MEMBERS: c_int = 72;
pub(super) const TP_METHODS: c_int = 64;
pub(super) const TP_REPR: c_int = 66;
pub(super) const TP_ALLOC: c_int = 47;
pub(super) const TP_FREE: c_int = 74;
pub(super) const MP_LENGTH: c_int = 4;
pub(super) const NB_BOOL: c_int = 9;
pub(super) const TPFLAGS_DEFAULT: u32 = 1 << 18;
pub(super) const TPFLAGS_DISALLOW_INSTANTIATION: u32 = 1 << 7;
pub(super) const METH_VARARGS_KEYWORDS: c_int = 1 | 2;
pub(super) const METH_VARARGS: c_int = 1;
pub(super) const METH_FASTCALL_KEYWORDS: c_int = 0x80 | 2;
pub(super) const METH_NOARGS: c_int = 4;
pub(super) const T_PYSSIZET: c_int = 19;
pub(super) const READONLY: c_int = 1;

static CAPI: Published<Capi> = Published::nothing();

/// Returns CPython's functions if they were found before.
#[inline(always)]
pub fn found() -> Option<&'static Capi> {
    CAPI.get()
}

/// Returns CPython's functions. If CPython is missing, the next call searches again.
#[inline]
pub fn capi() -> Result<&'static Capi> {
    match found() {
        Some(capi) => Ok(capi),
        None => find(),
    }
}

fn is_initialized(library: &Library) -> Option<extern "C-unwind" fn() -> c_int> {
    // SAFETY: the type is that of CPython's documentation, and any thread may call it at any time.
    unsafe { library.get(c"Py_IsInitialized") }
}

#[cold]
fn wrong_version(found: &str, first: &str) -> Failure {
    let status = abi::CAI_ERR_PYTHON_VERSION;
    failure!(status, "python"; found "{found}"; expected "{first} or later")
}

#[cold]
#[inline(never)]
fn find() -> Result<&'static Capi> {
    let nowhere = || {
        fail!(CAI_ERR_NO_PYTHON, "python";
            found "none in this process"; expected "a running CPython, 3.9 or later")
    };
    let Some(library) = library() else { return nowhere() };
    let Some(is_initialized) = is_initialized(&library) else { return nowhere() };
    if is_initialized() == 0 {
        return nowhere();
    }
    let mut capi = Capi::find(&library)?;
    if capi.thread_state.is_none() && capi.thread_state_before.is_none() {
        return Err(wrong_version("a CPython without PyThreadState_GetUnchecked", "3.9"));
    }
    // SAFETY: the function returns a constant text.
    let text = unsafe { CStr::from_ptr((capi.get_version)()) }.to_string_lossy();
    let mut numbers =
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    capi.set_version(numbers.next().unwrap_or(0) << 8 | numbers.next().unwrap_or(0));
    capi.facts.free_threaded = text.contains("free-threading");
    if capi.facts.version < 0x0309 {
        return Err(wrong_version(&text, "3.9"));
    }
    if capi.facts.free_threaded && (capi.section_begin.is_none() || capi.section_end.is_none()) {
        return Err(wrong_version(
            "a free-threaded CPython without PyCriticalSection_Begin",
            "3.13",
        ));
    }
    let Some(facts) = Attached::with(&capi, |attached| attached.map(find_places)) else {
        return Err(not_attached());
    };
    capi.facts = facts;
    // Leaked. Where another thread was faster, its table has the same contents.
    let capi = Box::leak(memory::boxed(capi)?);
    CAPI.set(Some(capi));
    Ok(capi)
}

/// Returns a library that contains CPython: the global symbols, or a libpython with local symbols.
fn library() -> Option<Library> {
    let global = Library::program();
    if is_initialized(&global).is_some() {
        return Some(global);
    }
    loaded_libpython()
}

#[cfg(target_os = "linux")]
fn loaded_libpython() -> Option<Library> {
    const SIZE: usize = libc::PATH_MAX as usize;

    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes its own structure and text; `found` is the array that was
        // passed to `dl_iterate_phdr`.
        let (name, found) = unsafe { ((*info).dlpi_name, &mut *found.cast::<[u8; SIZE]>()) };
        if name.is_null() {
            return 0;
        }
        // SAFETY: not NULL (checked above); a terminated text of the loader.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        // libpython3.so only forwards to the versioned library.
        if file.starts_with(b"libpython3.") && !file.starts_with(b"libpython3.so") {
            // Copied: the loader's own lock is held here, so nothing can be opened.
            for (to, from) in found[..SIZE - 1].iter_mut().zip(name.to_bytes()) {
                *to = *from;
            }
            return 1;
        }
        0
    }
    let mut found = [0; SIZE];
    // SAFETY: the function receives the array that it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    Library::loaded(CStr::from_bytes_until_nul(&found).ok().filter(|name| !name.is_empty())?)
}

/// On Windows each minor version has a library of its own name; `t` marks free-threaded builds.
#[cfg(windows)]
fn loaded_libpython() -> Option<Library> {
    (9..40).flat_map(|minor| [(minor, ""), (minor, "t")]).find_map(|(minor, kind)| {
        let name = format!("python3{minor}{kind}.dll\0");
        Library::loaded(CStr::from_bytes_with_nul(name.as_bytes()).ok()?)
    })
}

#[cfg(not(any(target_os = "linux", windows)))]
fn loaded_libpython() -> Option<Library> {
    None
}

/// Copies a word that another thread may free meanwhile. `None` if the memory is not there any more.
#[cfg(target_os = "linux")]
fn copy_word(address: *mut c_ulong) -> Option<c_ulong> {
    let mut word: c_ulong = 0;
    let length = size_of::<c_ulong>();
    let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: length };
    let from = libc::iovec { iov_base: address.cast(), iov_len: length };
    // SAFETY: only the local word is written. The kernel reads the other one, and reports memory
    // that is not mapped.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    usize::try_from(copied).is_ok_and(|copied| copied == length).then_some(word)
}

#[cfg(not(target_os = "linux"))]
fn copy_word(_: *mut c_ulong) -> Option<c_ulong> {
    None
}

/// The failure for a calling thread that does not hold the GIL.
#[cold]
#[inline(never)]
pub fn not_attached() -> Failure {
    failure!(abi::CAI_ERR_PYTHON_LOCK, "python";
        found "a thread without the GIL";
        expected "the GIL to be held (ctypes.PyDLL holds it, ctypes.CDLL releases it)")
}

impl Capi {
    /// Returns true if the calling thread holds the GIL, or is attached in a free-threaded build.
    /// May be called by any thread.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        let Some(current) = self.thread_state.or(self.thread_state_before) else {
            return false;
        };
        let state = current();
        // Before 3.12 that is the state of whichever thread holds the lock.
        !state.is_null()
            && (self.facts.version >= 0x030c
                || state == (self.this_thread_state)()
                || self.is_in_another_interpreter(state))
    }

    /// Returns whether `state`, of the thread that held the GIL a moment ago, is one of this thread.
    ///
    /// Up to 3.11, CPython has no function for that. A thread keeps the state that it had first,
    /// also while it is in a sub-interpreter with another one, and `PyGILState_Check` returns true
    /// for every thread once there was a sub-interpreter. Each state contains the number of its
    /// thread: its place is looked up in the thread's own first state, and compared in `state`. If
    /// `state` belongs to another thread, that thread may free it meanwhile, so the kernel copies the
    /// word. Where it cannot, as on other systems than Linux, sub-interpreters of CPython 3.9 to 3.11
    /// are reported as not attached.
    #[cold]
    #[inline(never)]
    fn is_in_another_interpreter(&self, state: *mut c_void) -> bool {
        // The shortest state, that of 3.11, has more words than that.
        const WORDS: Range<usize> = 3..28;
        let (Some(gil_check), Some(thread_ident)) = (self.gil_check, self.thread_ident) else {
            return false;
        };
        let (own, ident) = ((self.this_thread_state)().cast::<c_ulong>(), thread_ident());
        // A thread without a state of its own is in no interpreter. Where there are no
        // sub-interpreters, the check fails.
        if own.is_null() || gil_check() == 0 {
            return false;
        }
        // SAFETY: the state that this thread had first ends no earlier than the thread, and has
        // these words.
        let word = WORDS.into_iter().find(|&word| unsafe { own.add(word).read() } == ident);
        word.is_some_and(|word| {
            copy_word(state.cast::<c_ulong>().wrapping_add(word)) == Some(ident)
        })
    }

    /// Returns true if the interpreter has begun to finalize. May be called by any thread.
    pub fn is_ending(&self) -> bool {
        let is_finalizing = self.is_finalizing.or(self.is_finalizing_before);
        (self.is_initialized)() == 0
            || is_finalizing.is_some_and(|is_finalizing| is_finalizing() != 0)
    }
}
