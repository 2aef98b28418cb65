//! The CUDA driver, and queries about memory, for C.

use std::ffi::c_void;

use super::guard::guard;
use crate::abi::{cai_driver_info, cai_error, cai_pointer_info, cai_status};
use crate::argument::{Out, arguments};
use crate::driver::{self, CallingThread};
use crate::error::Failure;

/// Reports which CUDA driver the library uses: `libcuda.so.1`, or the file that the environment
/// variable `CAI_CUDA_DRIVER` names. Loads and starts it (`cuInit`) if no function has done so, and
/// creates no context.
///
/// No call is required: every function that needs the driver finds it. Without a driver, such
/// functions return `CAI_ERR_NO_DRIVER` and search again at the next call; all other functions
/// work.
///
/// `out`: needs no initialization; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or a status that any call of the driver can cause:
/// `CAI_ERR_NO_DRIVER`, `CAI_ERR_DRIVER_FUNCTION`, `CAI_ERR_FORKED` in a child of `fork`,
/// `CAI_ERR_DRIVER_EXIT`, `CAI_ERR_DEVICE_LOST`, `CAI_ERR_CONTEXT_DESTROYED`, `CAI_ERR_NO_CONTEXT`,
/// `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_CAPTURE_INVALIDATED`,
/// `CAI_ERR_CAPTURE_MERGE`, `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_NO_MEMORY`, or
/// `CAI_ERR_DRIVER`, each with the driver's code in `driver_code`.
/// Thread safety: any thread; allocates while it loads the driver.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_driver_info_get(
    out: *mut cai_driver_info,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out: Out, error: Out);
    guard(error, || out.fill("out", || driver::driver()?.info()))
}

/// Reports what the CUDA driver knows about an address, which may be inside an allocation: kind of
/// memory, device, owning context, addresses for the device and the host, and the allocation.
///
/// Memory that the driver does not know is reported as host memory (`CAI_DEVICE_CPU`), not as a
/// failure. Memory that was passed to `cuMemFreeAsync` must not be queried.
///
/// `out`: needs no initialization; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or a status of `cai_driver_info_get`.
/// Thread safety: any thread; needs no current context; allocates nothing. Source: CAI version 3,
/// "Pointer Attributes"; `cuPointerGetAttributes`, `cuMemGetAddressRange`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_pointer_info_get(
    pointer: *const c_void,
    out: *mut cai_pointer_info,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out: Out, error: Out);
    guard(error, || {
        if pointer.is_null() {
            return Err(Failure::null("pointer"));
        }
        let out = out.given("out")?;
        let thread = CallingThread::new(driver::driver()?);
        out.write(thread.relaxed(|| driver::attributes(&thread, pointer))?);
        Ok(())
    })
}
