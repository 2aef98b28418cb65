//! The modules of the process: the program, and the libraries that it has loaded.

use std::ffi::{CStr, c_void};
use std::ops::Range;

/// Calls a function with each part of a module that is code, and the module's path, which is empty
/// for the program. Takes the lock of the dynamic linker.
pub fn for_each_code(mut run: impl FnMut(&CStr, Range<usize>)) {
    // SAFETY: `visit` has the type of the callback and gets the function's own type, which outlives
    // the call.
    unsafe { libc::dl_iterate_phdr(Some(visit_with(&run)), (&raw mut run).cast()) };
}

type Visit = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> i32;

fn visit_with<F: FnMut(&CStr, Range<usize>)>(_: &F) -> Visit {
    visit::<F>
}

unsafe extern "C" fn visit<F: FnMut(&CStr, Range<usize>)>(
    info: *mut libc::dl_phdr_info,
    _: usize,
    run: *mut c_void,
) -> i32 {
    // SAFETY: the dynamic linker passes a valid description with `dlpi_phnum` headers and a
    // NUL-terminated name or NULL, and `run` is the function of `for_each_code`.
    unsafe {
        let (info, run) = (&*info, &mut *run.cast::<F>());
        let path = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
        for i in 0..info.dlpi_phnum as usize {
            let header = &*info.dlpi_phdr.add(i);
            if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 {
                let start = (info.dlpi_addr + header.p_vaddr) as usize;
                run(path, start..start + header.p_memsz as usize);
            }
        }
    }
    0
}

/// Returns the last part of a path.
pub fn name_of(path: &CStr) -> &[u8] {
    let path = path.to_bytes();
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Returns the code of which the module's path and the range fulfil a condition.
pub fn code_of(is_wanted: impl Fn(&CStr, &Range<usize>) -> bool) -> Vec<Range<usize>> {
    let mut code = Vec::new();
    for_each_code(|path, range| {
        if is_wanted(path, &range) {
            code.push(range);
        }
    });
    code
}
