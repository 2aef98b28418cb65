//! Initialization, versions, errors, and lookup of functions.

use crate::config::{Config, Races};
use crate::environment::variable;
use crate::ffi::{self, FORKED, put, put_if};
use crate::functions::{ENTRIES, Entry};
use crate::missing;
use crate::results::{self, Code, Result, refuse_if};
use crate::sim;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering;

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

pub extern "C" fn cuInit(flags: u32) -> i32 {
    ffi::free(|| {
        refuse_if(flags != 0, Code::INVALID_VALUE)?;
        refuse_if(sim::EXITED.load(Ordering::Acquire), Code::DEINITIALIZED)?;
        if FORKED.load(Ordering::Relaxed) && sim::PROCESS.load(Ordering::Acquire) != 0 {
            return Err(Code::NOT_INITIALIZED);
        }
        if begin(Config::from_environment()) == 0 { Err(Code::NO_DEVICE) } else { Ok(()) }
    })
}

/// Creates the state if there is none yet. Returns the number of devices.
pub fn begin(config: Config) -> usize {
    if config.races != Races::Off {
        crate::python::find();
        ffi::STRICT.store(config.strict, Ordering::Relaxed);
    }
    if sim::start(config) {
        // SAFETY: the registered functions have the required types and live in a library that is
        // never unloaded (`-z nodelete`).
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(sim::at_exit);
        }
        super::annotations::attach_threads();
    }
    sim::lock().map_or(0, |mut sim| {
        super::annotations::take_early(&mut sim);
        sim.config.devices
    })
}

pub extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    ffi::free(|| put(version, driver_version()))
}

/// Returns the driver version, also before cuInit.
fn driver_version() -> i32 {
    sim::lock()
        .map_or_else(|| Config::from_environment().driver_version, |sim| sim.config.driver_version)
}

fn put_result_text(
    code: i32,
    text: *mut *const c_char,
    of: impl Fn(&(i32, &'static str, &'static str)) -> &'static str,
) -> i32 {
    if text.is_null() {
        return Code::INVALID_VALUE.0;
    }
    match results::find(code) {
        Some(row) => ffi::number(put(text, of(row).as_ptr().cast())),
        None => {
            put_if(text, std::ptr::null());
            Code::INVALID_VALUE.0
        }
    }
}

pub extern "C" fn cuGetErrorName(code: i32, name: *mut *const c_char) -> i32 {
    put_result_text(code, name, |row| row.1)
}

pub extern "C" fn cuGetErrorString(code: i32, text: *mut *const c_char) -> i32 {
    put_result_text(code, text, |row| row.2)
}

/// Returns the form of a function for a program of some CUDA version. `flags`: 2 selects the twin
/// whose handle 0 is the per-thread default stream.
pub fn find_entry(
    name: &str,
    version: i32,
    flags: u64,
) -> std::result::Result<&'static Entry, i32> {
    let twin = |symbol: &str| symbol.ends_with("_ptsz") || symbol.ends_with("_ptds");
    let of_name = || ENTRIES.iter().filter(|entry| entry.0 == name);
    let newest = |wanted: bool| {
        of_name()
            .filter(|entry| entry.1 <= version && twin(entry.2) == wanted)
            .max_by_key(|entry| entry.1)
    };
    let found = if flags & 2 != 0 { newest(true).or_else(|| newest(false)) } else { newest(false) };
    // 1: no such symbol. 2: the version is too old.
    found.ok_or(if of_name().next().is_some() { 2 } else { 1 })
}

pub fn address_of(symbol: &str) -> *mut c_void {
    let name = std::ffi::CString::new(symbol).unwrap_or_default();
    // SAFETY: `dladdr` accepts any address and fills `info` on success, `dli_fname` is
    // NUL-terminated text, and `name` outlives the lookup. This library is never unloaded.
    unsafe {
        let mut info = std::mem::zeroed::<libc::Dl_info>();
        if libc::dladdr(address_of as fn(&str) -> *mut c_void as *const c_void, &mut info) == 0 {
            return std::ptr::null_mut();
        }
        let own = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        libc::dlsym(if own.is_null() { libc::RTLD_DEFAULT } else { own }, name.as_ptr())
    }
}

fn look_up(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> std::result::Result<(), (Code, i32)> {
    if symbol.is_null() || pfn.is_null() || flags > 2 {
        return Err((Code::INVALID_VALUE, 1));
    }
    put_if(pfn, std::ptr::null_mut());
    if version > driver_version() {
        return Err((Code::INVALID_VALUE, 1));
    }
    // SAFETY: the pointer was checked for NULL, and callers of the driver pass NUL-terminated text
    // for this argument of cuda.h.
    let name = unsafe { CStr::from_ptr(symbol) }.to_str().map_err(|_| (Code::NOT_FOUND, 1))?;
    let hidden = variable("CUDASIM_WITHOUT").unwrap_or_default();
    if hidden.split(',').any(|hidden| hidden == name) {
        return Err((Code::NOT_FOUND, 1));
    }
    let entry = find_entry(name, version, flags).map_err(|status| {
        missing::log("not-found", name);
        (Code::NOT_FOUND, status)
    })?;
    if !entry.3 || entry.2 == "cuGetExportTable" {
        missing::log("looked-up", entry.2);
    }
    put_if(pfn, address_of(entry.2));
    Ok(())
}

pub extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> i32 {
    ffi::free(|| look_up(symbol, pfn, version, flags).map_err(|(code, _)| code))
}

/// Finds a function. Since CUDA 12.0 a missing function is not an error but a status.
/// [cuGetProcAddress]
pub extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> i32 {
    ffi::free(|| {
        let found = look_up(symbol, pfn, version, flags);
        put_if(status, found.as_ref().map_or_else(|(_, status)| *status, |()| 0));
        match found {
            Err((Code::NOT_FOUND, _)) if !status.is_null() => Ok(()),
            found => found.map_err(|(code, _)| code),
        }
    })
}

/// Finds a private interface between NVIDIA's libraries. There are none, which counts as a function
/// that is not simulated.
pub extern "C" fn cuGetExportTable(table: *mut *const c_void, id: *const c_void) -> i32 {
    let _ = id;
    ffi::free(|| -> Result {
        put(table, std::ptr::null())?;
        ffi::missing("cuGetExportTable");
        Err(Code::NOT_FOUND)
    })
}

/// Does nothing: there is no profiler.
pub extern "C" fn cuProfilerInitialize(
    config: *const c_char,
    output: *const c_char,
    mode: i32,
) -> i32 {
    let _ = (config, output, mode);
    0
}

pub extern "C" fn cuProfilerStart() -> i32 {
    0
}

pub extern "C" fn cuProfilerStop() -> i32 {
    0
}

/// Registers a callback for the driver's log. Nothing is ever logged.
pub extern "C" fn cuLogsRegisterCallback(
    callback: *const c_void,
    data: *mut c_void,
    handle: *mut u64,
) -> i32 {
    let _ = data;
    ffi::free(|| {
        refuse_if(callback.is_null(), Code::INVALID_VALUE)?;
        put_if(handle, 1);
        Ok(())
    })
}

pub extern "C" fn cuLogsUnregisterCallback(handle: u64) -> i32 {
    if handle == 1 { 0 } else { Code::INVALID_VALUE.0 }
}
