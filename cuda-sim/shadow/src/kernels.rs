//! Names of real kernels: for reports, and for kernels registered by cudasim.h.

use crate::passed_on::passed_on;
use cudasim_core::ffi::get;
use cudasim_core::follow::follow;
use cudasim_core::results::Code;
use cudasim_core::sim::{Function, Locked};
use std::ffi::{CStr, CString, c_char};

/// Records the name of a function. The driver returns the same handle for the same function.
fn name(sim: &mut Locked, handle: *const u64, name: CString) -> cudasim_core::results::Result {
    let handle = get(handle)?;
    sim.functions.remove(handle);
    cudasim_core::handles::GIVEN.set(handle);
    sim.functions.insert(Function { name, module: 0 });
    Ok(())
}

fn named(
    symbol: &'static str,
    real: impl FnOnce() -> i32,
    to: *const u64,
    text: *const c_char,
) -> i32 {
    follow(symbol, 1, real, std::ptr::null(), |sim, _| {
        // SAFETY: the real call succeeded, so the driver read NUL-terminated text here.
        name(sim, to, unsafe { CStr::from_ptr(text) }.to_owned())
    })
}

passed_on! {
    fn cuModuleGetFunction(to: *mut u64, module: u64, name: *const c_char) |real| {
        named("cuModuleGetFunction", || real(to, module, name), to, name)
    }
    fn cuLibraryGetKernel(to: *mut u64, library: u64, name: *const c_char) |real| {
        named("cuLibraryGetKernel", || real(to, library, name), to, name)
    }
    fn cuKernelGetFunction(to: *mut u64, kernel: u64) |real| {
        follow("cuKernelGetFunction", 1, || real(to, kernel), std::ptr::null(), |sim, _| {
            let of = sim.functions.get(kernel).ok_or(Code::INVALID_HANDLE)?.name.clone();
            name(sim, to, of)
        })
    }
}
