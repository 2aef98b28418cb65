//! The CUDA driver, and queries about memory, for C.
//!
//! May use: `abi`, `driver`, `ffi::guard`, `ffi::ptr`.
//! Unsafe: follows a caller's pointers, whose contract the C documentation states.

use std::ffi::c_void;

use super::guard::guard;
use super::ptr::given;
use crate::abi::{cai_driver_info, cai_error, cai_pointer_info, cai_status};
use crate::driver;

/// Finds the CUDA driver, if no function needed it before, and says which one it is: `libcuda.so.1`, or the
/// file that the environment variable `CAI_CUDA_DRIVER` names. Starts it (`cuInit`) but makes no context.
///
/// Nobody has to call it: every function that needs the driver finds it by itself. Where there is none, those
/// functions answer `CAI_ERR_NO_DRIVER` and look again the next time; all others work.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what the driver may answer to any call: `CAI_ERR_NO_DRIVER`,
/// `CAI_ERR_DRIVER_FUNCTION`, `CAI_ERR_FORKED`, `CAI_ERR_DRIVER_EXIT`, `CAI_ERR_DEVICE_LOST`,
/// `CAI_ERR_CONTEXT_DESTROYED`, `CAI_ERR_DRIVER` with its own code in `driver_code`.
/// Thread safety: any thread. After `fork` the child is answered `CAI_ERR_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_driver_info_get(
    out: *mut cai_driver_info,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(out, "out")?;
        let info = driver::driver()?.info()?;
        // SAFETY: not NULL (checked above), and writable as the header requires.
        unsafe { out.write(info) };
        Ok(())
    })
}

/// What the CUDA driver knows about an address, which may point into the middle of an allocation: kind of
/// memory, device, owning context, whether the host can reach it, whether it is managed, and the allocation
/// that it lies in.
///
/// Memory that the driver does not know is answered as host memory (`CAI_DEVICE_CPU`), not as a failure.
/// Must not be asked about memory that was given to `cuMemFreeAsync`.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what the driver may answer to any call (`cai_driver_info_get`).
/// Thread safety: any thread; needs no current context. Source: CAI version 3, "Pointer Attributes";
/// `cuPointerGetAttributes`, `cuMemGetAddressRange`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_pointer_info_get(
    pointer: *const c_void,
    out: *mut cai_pointer_info,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(pointer, "pointer")?;
        given(out, "out")?;
        let driver = driver::driver()?;
        let info = driver.relaxed(|| driver::attributes(driver, pointer))?;
        // SAFETY: not NULL (checked above), and writable as the header requires.
        unsafe { out.write(info) };
        Ok(())
    })
}
