//! Loaded modules: where they are, what they export, and which one called.
//!
//! Takes no lock of the loader once the driver is initialized: a thread that loads a library
//! may wait for one that asks.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `struct dl_find_object` of glibc.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    module: *const Module,
    reserved: [u64; 8],
}

/// The public members of `struct link_map`.
#[repr(C)]
struct Module {
    base: usize,
    name: *const c_char,
    dynamic: *const Entry,
}

#[repr(C)]
struct Entry {
    tag: i64,
    value: usize,
}

/// `Elf64_Sym`
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

type FindObject = unsafe extern "C" fn(*const c_void, *mut Found) -> c_int;

/// Looks up the functions that this module needs.
pub fn prepare() {
    find_object();
}

/// Returns `_dl_find_object`, which glibc has since 2.35.
fn find_object() -> Option<FindObject> {
    static FUNCTION: AtomicUsize = AtomicUsize::new(1);
    let mut found = FUNCTION.load(Ordering::Relaxed);
    if found == 1 {
        // SAFETY: the name is a NUL-terminated constant.
        found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) } as usize;
        FUNCTION.store(found, Ordering::Relaxed);
    }
    // SAFETY: glibc defines this function with this type; NULL is `None`.
    unsafe { std::mem::transmute::<usize, Option<FindObject>>(found) }
}

fn module(address: *const c_void) -> Option<&'static Module> {
    let mut found = Found {
        flags: 0,
        start: std::ptr::null(),
        end: std::ptr::null(),
        module: std::ptr::null(),
        reserved: [0; 8],
    };
    // SAFETY: `found` is as large as glibc's structure, which has 7 reserved words at its end.
    if unsafe { find_object()?(address, &raw mut found) } != 0 {
        return None;
    }
    // SAFETY: the caller's address is inside a module, which stays loaded while its code runs.
    unsafe { found.module.as_ref() }
}

/// Returns true if a variable may be shared by modules: its own exports it, or is not known.
pub fn is_exported<T>(variable: *const T) -> bool {
    let Some(module) = module(variable.cast()) else { return true };
    let entry = |tag: i64| {
        // SAFETY: a dynamic section ends with an entry of tag 0.
        (0..)
            .map(|at| unsafe { &*module.dynamic.add(at) })
            .take_while(|entry| entry.tag != 0)
            .find(|entry| entry.tag == tag)
    };
    let (Some(symbols), Some(hash)) = (entry(DT_SYMTAB), entry(DT_GNU_HASH)) else { return true };
    let at = |value: usize| if value < module.base { value + module.base } else { value };
    let (symbols, hash) = (at(symbols.value) as *const Symbol, at(hash.value) as *const u32);
    let value = (variable.addr() - module.base) as u64;
    // SAFETY: the table of the GNU hash: number of buckets, first symbol, words of the
    // filter, a shift; the filter, the buckets, and one number for each symbol. The last
    // number of a chain is odd.
    unsafe {
        let [buckets, first, filter] = [0, 1, 2].map(|at| *hash.add(at) as usize);
        let bucket = hash.add(4 + 2 * filter);
        let chains = bucket.add(buckets);
        let Some(mut last) = (0..buckets).map(|at| *bucket.add(at) as usize).max() else {
            return true;
        };
        if last < first {
            return false;
        }
        while *chains.add(last - first) & 1 == 0 {
            last += 1;
        }
        (first..=last).any(|at| (*symbols.add(at)).value == value)
    }
}

/// Returns the addresses of the module that has an address; none if there is no such module.
pub fn range(address: usize) -> Range<usize> {
    struct Search {
        address: usize,
        found: Range<usize>,
    }
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a module, and what `range` passed.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        // SAFETY: the module has so many headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let from = (info.dlpi_addr + header.p_vaddr) as usize;
            from..from + header.p_memsz as usize
        });
        let (from, to) = loaded
            .fold((usize::MAX, 0), |(from, to), part| (from.min(part.start), to.max(part.end)));
        if (from..to).contains(&search.address) {
            search.found = from..to;
            return 1;
        }
        0
    }
    let mut search = Search { address, found: 0..0 };
    // SAFETY: the search lives longer than the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// Returns the address from which code outside these addresses called, or 0.
pub fn caller(own: Range<usize>) -> usize {
    struct Search {
        own: Range<usize>,
        found: usize,
    }
    extern "C" fn each(frame: *mut c_void, search: *mut c_void) -> c_int {
        const GO_ON: c_int = 0;
        const STOP: c_int = 4;
        // SAFETY: the unwinder passes a frame, and what `caller` passed.
        let (address, search) = unsafe { (_Unwind_GetIP(frame), &mut *search.cast::<Search>()) };
        if search.own.contains(&address) {
            return GO_ON;
        }
        search.found = address;
        STOP
    }
    let mut search = Search { own, found: 0 };
    // SAFETY: the search lives longer than the call.
    unsafe { _Unwind_Backtrace(each, (&raw mut search).cast()) };
    search.found
}
