//! Allocations that the simulated driver does not have.

use crate::passed_on::passed_on;
use cudasim_core::api::ipc::IpcHandle;
use cudasim_core::api::memory::{allocate, enter, register};
use cudasim_core::ffi::get;
use cudasim_core::follow::{follow, notify, outside};
use cudasim_core::memory::{Allocation, Kind};
use cudasim_core::sim::Locked;
use std::ffi::{c_char, c_void};

fn begin(sim: &mut Locked, kind: Kind, base: u64, size: u64, label: &'static str) {
    let (context, device) = cudasim_core::handles::CURRENT.get();
    let context = if kind == Kind::Imported { context } else { 0 };
    enter(sim, Allocation::new(kind, base, size, device, context), label);
}

/// Enters memory of another process, of which only the address is known.
fn import(symbol: &'static str, real: impl FnOnce() -> i32, to: *const u64) -> i32 {
    let result = outside(real);
    let (mut base, mut size) = (0, 0usize);
    let range = crate::real::function!(cuMemGetAddressRange_v2(*mut u64, *mut usize, u64));
    let imported = get(to).unwrap_or(0);
    if result == 0 && outside(|| range(&mut base, &mut size, imported)) == 0 {
        notify(symbol, 1, 0, |sim, _| {
            // A handle that is open gives the same address again.
            let found = sim.memory.allocations.get_mut(&base);
            match found.filter(|found| found.kind == Kind::Imported && found.size == size as u64) {
                Some(found) => found.opened += 1,
                None => begin(sim, Kind::Imported, base, size as u64, symbol),
            }
            Ok(())
        });
    }
    result
}

/// Variables of modules are not followed; they may reuse freed memory.
fn variable(
    symbol: &'static str,
    real: impl FnOnce() -> i32,
    to: *const u64,
    size: *const usize,
) -> i32 {
    follow(symbol, 1, real, std::ptr::null(), |sim, _| {
        if let (Ok(base), Ok(size)) = (get(to), get(size)) {
            sim.memory.begins_again(base, base.saturating_add(size as u64));
        }
        Ok(())
    })
}

passed_on! {
    fn cuModuleGetGlobal_v2(to: *mut u64, size: *mut usize, module: u64, name: *const c_char) |real| {
        variable("cuModuleGetGlobal", || real(to, size, module, name), to, size)
    }
    fn cuLibraryGetGlobal(to: *mut u64, size: *mut usize, library: u64, name: *const c_char) |real| {
        variable("cuLibraryGetGlobal", || real(to, size, library, name), to, size)
    }
    fn cuLibraryGetManaged(to: *mut u64, size: *mut usize, library: u64, name: *const c_char) |real| {
        variable("cuLibraryGetManaged", || real(to, size, library, name), to, size)
    }
    fn cuMemAllocPitch_v2(to: *mut u64, pitch: *mut usize, width: usize, rows: usize, element: u32) |real| {
        follow("cuMemAllocPitch", 1, || real(to, pitch, width, rows, element), to, |sim, _| {
            allocate(sim, to, get(pitch)? as u64 * rows as u64, "cuMemAllocPitch")
        })
    }
    fn cuMemHostRegister_v2(address: u64, size: usize, flags: u32) |real| {
        let result = outside(|| real(address, size, flags));
        let mut there = 0;
        let place = crate::real::function!(cuMemHostGetDevicePointer_v2(*mut u64, u64, u32));
        if result == 0 {
            outside(|| place(&mut there, address, 0));
            notify("cuMemHostRegister", 1, there, |sim, _| {
                register(sim, address, size as u64, flags)
            });
        }
        result
    }
    fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64) |real| {
        follow("cuMemMap", 1, || real(address, size, offset, handle, flags), std::ptr::null(), |sim, _| {
            begin(sim, Kind::Virtual, address, size as u64, "cuMemMap");
            sim.memory.is_at(address, handle);
            Ok(())
        })
    }
    fn cuIpcOpenMemHandle(to: *mut u64, handle: IpcHandle, flags: u32) |real| {
        import("cuIpcOpenMemHandle", || real(to, handle, flags), to)
    }
    fn cuIpcOpenMemHandle_v2(to: *mut u64, handle: IpcHandle, flags: u32) |real| {
        import("cuIpcOpenMemHandle", || real(to, handle, flags), to)
    }
    fn cuMemPoolImportPointer(to: *mut u64, pool: u64, data: *const c_void) |real| {
        import("cuMemPoolImportPointer", || real(to, pool, data), to)
    }
}
