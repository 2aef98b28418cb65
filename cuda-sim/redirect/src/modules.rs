//! The modules of this process, as the dynamic linker lists them for debuggers, and a call for each
//! change of the list.

use crate::patch::{self, JUMP, Stubs};
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

/// `struct link_map` of link.h.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// `struct r_debug_extended` of link.h. `next` is there from version 2 on.
#[repr(C)]
struct Debug {
    version: c_int,
    list: *const LinkMap,
    notify: usize,
    state: c_int,
    linker: usize,
    next: *const Debug,
}

/// The list is complete: nothing is being added or removed.
const CONSISTENT: c_int = 0;

/// A loaded module. Two modules that are loaded at the same time differ in both addresses.
pub struct Module {
    pub path: String,
    pub bias: usize,
    pub dynamic: usize,
}

fn debug() -> *const Debug {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let find = || {
        // SAFETY: the name is NUL-terminated.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) as usize }
    };
    *FOUND.get_or_init(find) as *const Debug
}

/// Returns the loaded modules. None: the list is being changed.
pub fn list() -> Option<Vec<Module>> {
    let mut found = Vec::new();
    let mut space = debug();
    while !space.is_null() {
        // SAFETY: the dynamic linker's own structure, which is always there. `next` is not read
        // in version 1.
        let (version, state, mut map) =
            unsafe { ((*space).version, (*space).state, (*space).list) };
        if state != CONSISTENT {
            return None;
        }
        let mut first = space == debug();
        while !map.is_null() {
            // SAFETY: the entries of a consistent list are valid; their names are NULL or
            // NUL-terminated.
            let (entry, name) = unsafe {
                let name = (*map).name;
                (&*map, if name.is_null() { c"" } else { CStr::from_ptr(name) })
            };
            // The first one is the program itself, without a name. Names without a slash are not
            // files: the part of the kernel.
            let name = if first { "/proc/self/exe".into() } else { name.to_string_lossy() };
            first = false;
            if name.contains('/') {
                let (bias, dynamic) = (entry.bias, entry.dynamic);
                found.push(Module { path: name.into_owned(), bias, dynamic });
            }
            map = entry.next;
        }
        // SAFETY: version 2 has the member.
        space = if version >= 2 { unsafe { (*space).next } } else { std::ptr::null() };
    }
    Some(found)
}

/// Calls a function after each change of the list, before the initializers of new modules run. The
/// function must not call the dynamic linker. Returns false if this dynamic linker has no
/// such notification that is known here.
pub fn on_change(function: extern "C" fn()) -> bool {
    let debug = debug();
    if debug.is_null() {
        return false;
    }
    // SAFETY: the dynamic linker's structure; the member is set before any initializer runs.
    let notify = unsafe { (*debug).notify };
    if notify == 0 {
        return false;
    }
    let mut code = [MaybeUninit::<u8>::uninit(); 16];
    // SAFETY: functions of the dynamic linker are followed by others, or by the end of its page,
    // and compilers align them to 16 bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(notify as *const MaybeUninit<u8>, code.as_mut_ptr(), 16)
    };
    // SAFETY: all bytes were written by the copy.
    let code = code.map(|byte| unsafe { byte.assume_init() });
    let Some(at) = returns_at(notify, &code) else { return false };
    static TARGET: AtomicUsize = AtomicUsize::new(0);
    TARGET.store(function as usize, std::sync::atomic::Ordering::Release);
    let Some(mut stubs) = Stubs::new(notify, notify + 16, 1) else { return false };
    let from = notify + at;
    let jump = stubs.add(&TARGET).and_then(|stub| patch::jump(from, stub));
    let Some(jump) = jump.filter(|_| stubs.seal()) else { return false };
    // The dynamic linker is never unloaded.
    std::mem::forget(stubs);
    // SAFETY: `returns_at` found a return and unused bytes there. The function does nothing else,
    // is called with the linker's lock held, and only while a library is loaded: not in the
    // initializer of the first library.
    unsafe { patch::write(&[(from, jump)], libc::PROT_READ | libc::PROT_EXEC) }
}

/// Returns where in an empty function a jump can be written: at its return instruction, if that and
/// the unused bytes behind have space.
#[cfg(not(target_arch = "aarch64"))]
fn returns_at(address: usize, code: &[u8; 16]) -> Option<usize> {
    let at = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    // What assemblers fill gaps with: long instructions that do nothing, or traps.
    const GAPS: [&[u8]; 8] = [
        &[0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84],
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84],
        &[0x0f, 0x1f, 0x84],
        &[0x0f, 0x1f, 0x80],
        &[0x0f, 0x1f, 0x44],
        &[0x66, 0x0f, 0x1f, 0x44],
        &[0xcc, 0xcc, 0xcc, 0xcc],
        &[0x90, 0x90, 0x90, 0x90],
    ];
    let rest = &code[at + 1..];
    let fits = address % 16 == 0
        && at + JUMP <= 16
        && code[at] == 0xc3
        && GAPS.iter().any(|gap| rest.starts_with(gap));
    fits.then_some(at)
}

/// Returns where in an empty function a jump can be written: at its return instruction.
#[cfg(target_arch = "aarch64")]
fn returns_at(_address: usize, code: &[u8; 16]) -> Option<usize> {
    const RETURN: [u8; JUMP] = 0xd65f_03c0_u32.to_le_bytes();
    const LANDING: [u8; 4] = 0xd503_245f_u32.to_le_bytes();
    let at = if code.starts_with(&LANDING) { 4 } else { 0 };
    (code[at..at + 4] == RETURN).then_some(at)
}
