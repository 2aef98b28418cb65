//! Functions of the replacement libraries. Each has a slot, a word with an address. At first this
//! is the address of `cudasim_redirect_find`, which finds the function at its first call: a library
//! cannot be loaded while another one is.

use crate::elf::Elf;
use crate::survey::is_cuda_name;
use libc::c_void;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of a replacement library. The address is first: a stub has a pointer to it.
#[repr(C)]
struct Slot {
    target: AtomicUsize,
    name: CString,
    library: &'static Library,
}

/// A replacement library, never freed.
pub struct Library {
    path: CString,
    /// A copy, made before any function is called, which is loaded in its place: a runtime library
    /// that is linked statically has its own last error, which one that the program links
    /// dynamically does not see.
    copy: OnceLock<CString>,
    /// What `dlopen` returned, 0 before. It is not called with a lock held, because initializers of
    /// libraries, which run with the dynamic linker's lock, may come here as well.
    handle: AtomicUsize,
    pub names: BTreeSet<String>,
    slots: OnceLock<BTreeMap<String, Slot>>,
}

unsafe extern "C" {
    /// Jumps to the function of the slot in the scratch register of stubs.
    fn cudasim_redirect_find();
}

impl Library {
    /// Reads the names of a library, without loading it.
    pub fn open(path: &str) -> Option<&'static Library> {
        let exports = Elf::open(path).and_then(|elf| elf.exports(is_cuda_name)).ok()?;
        let names: BTreeSet<String> = exports.into_iter().map(|function| function.name).collect();
        let library: &'static Library = Box::leak(Box::new(Library {
            path: CString::new(path).ok()?,
            copy: OnceLock::new(),
            handle: AtomicUsize::new(0),
            names,
            slots: OnceLock::new(),
        }));
        Some(library)
    }

    pub fn slot(&'static self, name: &str) -> Option<&'static AtomicUsize> {
        let slots = self.slots.get_or_init(|| {
            if let Some(copy) = copied(&self.path) {
                // Not set before: this runs once.
                let _ = self.copy.set(copy);
            }
            let slot = |name: &String| {
                let target = AtomicUsize::new(cudasim_redirect_find as *const () as usize);
                let text = CString::new(name.as_str()).ok()?;
                Some((name.clone(), Slot { target, name: text, library: self }))
            };
            self.names.iter().filter_map(slot).collect()
        });
        slots.get(name).map(|slot| &slot.target)
    }
}

/// The error of a function that was not found: cudaErrorNotSupported.
extern "C" fn not_supported() -> libc::c_int {
    801
}

fn report(library: &Library) {
    // SAFETY: `dlerror` returns NULL or a text that is valid until the next call in this thread.
    let text = unsafe { libc::dlerror() };
    let text = if text.is_null() {
        "not found".into()
    } else {
        // SAFETY: the text is not NULL, and NUL-terminated.
        unsafe { CStr::from_ptr(text) }.to_string_lossy()
    };
    let path = library.path.to_string_lossy();
    eprintln!("cuda-sim: {}: {}", path.escape_debug(), text.escape_debug());
}

/// Copies a file into memory under its own name, and returns the path of the copy. Its descriptor
/// stays open: reports get the names of functions, and that of the file, from it.
fn copied(path: &CStr) -> Option<CString> {
    let path = Path::new(path.to_str().ok()?);
    let name = CString::new(path.file_name()?.as_encoded_bytes()).ok()?;
    let mut from = File::open(path).ok()?;
    // SAFETY: the name is NUL-terminated.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let mut to = unsafe { File::from_raw_fd(descriptor) };
    io::copy(&mut from, &mut to).ok()?;
    CString::new(format!("/proc/self/fd/{}", to.into_raw_fd())).ok()
}

/// Returns the address of the function of a slot, and writes it into the slot.
///
/// # Safety
///
/// `slot` points to a word that `Library::slot` returned.
unsafe extern "C" fn find(slot: *const AtomicUsize) -> usize {
    // SAFETY: the word is the first member of a `Slot`, which is `repr(C)` and never freed. The
    // pointer comes from a stub, which holds the address of the exposed slot.
    let slot = unsafe { &*slot.cast::<Slot>() };
    let library = slot.library;
    let mut handle = library.handle.load(Ordering::Acquire);
    if handle == 0 {
        let path = library.copy.get().unwrap_or(&library.path);
        // SAFETY: the path is NUL-terminated. The replacement's initializers have no requirements.
        handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) } as usize;
        if handle == 0 {
            report(library);
        }
        library.handle.store(handle, Ordering::Release);
    }
    let mut target = 0;
    if handle != 0 {
        // SAFETY: the handle is open for ever, and the name is NUL-terminated.
        target = unsafe { libc::dlsym(handle as *mut c_void, slot.name.as_ptr()) } as usize;
    }
    if target == 0 {
        target = not_supported as *const () as usize;
    }
    slot.target.store(target, Ordering::Release);
    target
}

// Called with the arguments of any function of the runtime, in registers and on the stack: saves
// the registers, because the dynamic linker uses them.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text",
    ".globl cudasim_redirect_find",
    ".hidden cudasim_redirect_find",
    ".type cudasim_redirect_find, @function",
    "cudasim_redirect_find:",
    "push rbp",
    "mov rbp, rsp",
    "push rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "push r10",
    "sub rsp, 128",
    "movups [rsp], xmm0",
    "movups [rsp + 16], xmm1",
    "movups [rsp + 32], xmm2",
    "movups [rsp + 48], xmm3",
    "movups [rsp + 64], xmm4",
    "movups [rsp + 80], xmm5",
    "movups [rsp + 96], xmm6",
    "movups [rsp + 112], xmm7",
    "mov rdi, r11",
    "call {find}",
    "mov r11, rax",
    "movups xmm0, [rsp]",
    "movups xmm1, [rsp + 16]",
    "movups xmm2, [rsp + 32]",
    "movups xmm3, [rsp + 48]",
    "movups xmm4, [rsp + 64]",
    "movups xmm5, [rsp + 80]",
    "movups xmm6, [rsp + 96]",
    "movups xmm7, [rsp + 112]",
    "add rsp, 128",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    "pop rbp",
    "jmp r11",
    ".size cudasim_redirect_find, . - cudasim_redirect_find",
    ".popsection",
    find = sym find,
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text",
    ".globl cudasim_redirect_find",
    ".hidden cudasim_redirect_find",
    ".type cudasim_redirect_find, %function",
    ".balign 4",
    "cudasim_redirect_find:",
    "hint #34", // bti c: stubs jump here
    "stp x29, x30, [sp, #-224]!",
    "mov x29, sp",
    "stp x0, x1, [sp, #16]",
    "stp x2, x3, [sp, #32]",
    "stp x4, x5, [sp, #48]",
    "stp x6, x7, [sp, #64]",
    "str x8, [sp, #80]",
    "stp q0, q1, [sp, #96]",
    "stp q2, q3, [sp, #128]",
    "stp q4, q5, [sp, #160]",
    "stp q6, q7, [sp, #192]",
    "mov x0, x16",
    "bl {find}",
    "mov x16, x0",
    "ldp x0, x1, [sp, #16]",
    "ldp x2, x3, [sp, #32]",
    "ldp x4, x5, [sp, #48]",
    "ldp x6, x7, [sp, #64]",
    "ldr x8, [sp, #80]",
    "ldp q0, q1, [sp, #96]",
    "ldp q2, q3, [sp, #128]",
    "ldp q4, q5, [sp, #160]",
    "ldp q6, q7, [sp, #192]",
    "ldp x29, x30, [sp], #224",
    "br x16",
    ".size cudasim_redirect_find, . - cudasim_redirect_find",
    ".popsection",
    find = sym find,
);
