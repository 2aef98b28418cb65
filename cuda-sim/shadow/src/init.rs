//! Initialization, lookup of functions, and the end of contexts.

use crate::exports::FOLLOWED;
use crate::passed_on::passed_on;
use cudasim_core::api::init::{address_of, begin, find_entry};
use cudasim_core::config::{Config, Schedule};
use cudasim_core::follow::{follow, notify, outside};
use cudasim_core::sim::end_context;
use std::ffi::{CStr, c_char, c_void};

/// Returns the configuration of the checker: work is done at once, and options of the simulated
/// driver do not apply.
fn configuration(devices: usize) -> Config {
    let config = Config::from_environment();
    Config {
        schedule: Schedule::Eager,
        devices,
        memory: u64::MAX,
        faults: Vec::new(),
        without: Vec::new(),
        stub: false,
        guard: false,
        shifted: false,
        ..config
    }
}

/// Replaces a function that the driver found by the one of this library that follows it.
fn replace(name: *const c_char, to: *mut *mut c_void, version: i32, flags: u64) {
    if name.is_null() || to.is_null() {
        return;
    }
    // SAFETY: neither pointer is NULL, and the driver just read the name and wrote `to`.
    let (name, found) = unsafe { (CStr::from_ptr(name), to.read()) };
    let Ok(name) = name.to_str() else { return };
    let Ok(&(_, _, symbol, _)) = find_entry(name, version, flags) else { return };
    if FOLLOWED.binary_search(&symbol).is_ok() && !found.is_null() {
        crate::real::found_elsewhere(symbol, found);
        let own = address_of(symbol);
        if !own.is_null() {
            // SAFETY: the driver just wrote `to` successfully.
            unsafe { to.write(own) };
        }
    }
}

/// Ends the primary context of a device, if it is no longer active in the driver.
fn ended_primary(symbol: &'static str, result: i32, device: i32) -> i32 {
    let (mut flags, mut active) = (0, 0);
    let state = crate::real::function!(cuDevicePrimaryCtxGetState(i32, *mut u32, *mut i32));
    if result == 0 && outside(|| state(device, &mut flags, &mut active)) == 0 && active == 0 {
        notify(symbol, 1, 0, |sim, _| {
            let Some(of) = sim.devices.get_mut(device as usize) else { return Ok(()) };
            let context = std::mem::take(&mut of.primary);
            end_context(sim, context);
            Ok(())
        });
    }
    result
}

fn destroyed(symbol: &'static str, result: i32, context: u64) -> i32 {
    if result == 0 {
        notify(symbol, 1, 0, |sim, _| {
            end_context(sim, context);
            Ok(())
        });
    }
    result
}

passed_on! {
    fn cuInit(flags: u32) |real| {
        let result = outside(|| real(flags));
        let mut devices = 0;
        let count = crate::real::function!(cuDeviceGetCount(*mut i32));
        if result == 0 && outside(|| count(&mut devices)) == 0 {
            begin(configuration(devices.max(0) as usize));
        }
        result
    }
    fn cuGetProcAddress(name: *const c_char, to: *mut *mut c_void, version: i32, flags: u64) |real| {
        let result = outside(|| real(name, to, version, flags));
        if result == 0 {
            replace(name, to, version, flags);
        }
        result
    }
    fn cuGetProcAddress_v2(
        name: *const c_char, to: *mut *mut c_void, version: i32, flags: u64, status: *mut i32,
    ) |real| {
        let result = outside(|| real(name, to, version, flags, status));
        if result == 0 {
            replace(name, to, version, flags);
        }
        result
    }
    fn cuDevicePrimaryCtxRetain(to: *mut u64, device: i32) |real| {
        follow("cuDevicePrimaryCtxRetain", 1, || real(to, device), std::ptr::null(), |sim, _| {
            let context = cudasim_core::ffi::get(to)?;
            if let Some(of) = sim.devices.get_mut(device as usize) {
                of.primary = context;
            }
            Ok(())
        })
    }
    fn cuDevicePrimaryCtxRelease(device: i32) |real| {
        ended_primary("cuDevicePrimaryCtxRelease", outside(|| real(device)), device)
    }
    fn cuDevicePrimaryCtxRelease_v2(device: i32) |real| {
        ended_primary("cuDevicePrimaryCtxRelease", outside(|| real(device)), device)
    }
    fn cuDevicePrimaryCtxReset(device: i32) |real| {
        ended_primary("cuDevicePrimaryCtxReset", outside(|| real(device)), device)
    }
    fn cuDevicePrimaryCtxReset_v2(device: i32) |real| {
        ended_primary("cuDevicePrimaryCtxReset", outside(|| real(device)), device)
    }
    fn cuCtxDestroy_v2(context: u64) |real| { destroyed("cuCtxDestroy", outside(|| real(context)), context) }
}
