//! The FFI boundary: what every function of the driver does before and after its own work.

use crate::console::print;
use crate::context;
use crate::environment::variable;
use crate::instrumented;
use crate::missing;
use crate::python;
use crate::results::{self, Code, Result, refuse_if};
use crate::sim::{self, EXITED, Locked, PROCESS};
use crate::work::INSIDE;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};

/// Set in a forked child: a driver that was initialized before does not work there.
pub static FORKED: AtomicBool = AtomicBool::new(false);
/// Whether every call returns `CUDA_ERROR_STUB_LIBRARY`.
pub static STUB: AtomicBool = AtomicBool::new(false);

/// Whether refused calls are reported too.
pub static STRICT: AtomicBool = AtomicBool::new(false);

/// The beginnings of functions that are called often, and have nothing to report but a refusal: the
/// frames of their callers are not needed.
const ASKED_OFTEN: [&str; 10] = [
    "cuStreamQuery",
    "cuEventQuery",
    "cuCtxGet",
    "cuCtxSetCurrent",
    "cuCtxPush",
    "cuCtxPop",
    "cuDeviceGet",
    "cuPointerGet",
    "cuStreamGet",
    "cuStreamIsCapturing",
];

fn read_stub_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let stub = variable("CUDASIM_STUB").is_some_and(|value| !value.is_empty() && value != "0");
        STUB.store(stub, Ordering::Relaxed);
    });
}

pub fn number(result: Result) -> i32 {
    result.map_or_else(|code| code.0, |()| 0)
}

/// Runs a function that needs no initialized driver and no state.
pub fn free(body: impl FnOnce() -> Result) -> i32 {
    read_stub_once();
    if STUB.load(Ordering::Relaxed) {
        return Code::STUB_LIBRARY.0;
    }
    catch_unwind(AssertUnwindSafe(body)).map_or(Code::UNKNOWN.0, number)
}

/// Runs the body of a function of the driver. `default`: the stream that the handle 0 names.
pub fn enter(
    symbol: &'static str,
    default: u64,
    body: impl FnOnce(&mut Locked, u64) -> Result,
) -> i32 {
    if EXITED.load(Ordering::Acquire) {
        return Code::DEINITIALIZED.0;
    }
    if PROCESS.load(Ordering::Acquire) == 0 || FORKED.load(Ordering::Relaxed) {
        read_stub_once();
        let stub = STUB.load(Ordering::Relaxed);
        return if stub { Code::STUB_LIBRARY.0 } else { Code::NOT_INITIALIZED.0 };
    }
    if sim::is_locked_here() {
        report_once(symbol, |symbol| {
            format!("{symbol} is refused in a function that declares the accesses of a kernel")
        });
        return Code::NOT_PERMITTED.0;
    }
    if INSIDE.get() {
        report_ignored(symbol);
        return Code::NOT_PERMITTED.0;
    }
    instrumented::flush();
    context::look_around();
    if !ASKED_OFTEN.iter().any(|name| symbol.starts_with(name)) || STRICT.load(Ordering::Relaxed) {
        python::look();
    }
    let Some(mut sim) = sim::lock() else { return Code::NOT_INITIALIZED.0 };
    context::adopt_current(&mut sim);
    if let Err(code) = inject(&mut sim, symbol) {
        return code.0;
    }
    let result = catch_unwind(AssertUnwindSafe(|| body(&mut sim, default)));
    match result {
        Ok(Err(code @ Code(900..=908))) => sim.refused_in_capture(symbol, code),
        Ok(Err(Code::NOT_SUPPORTED)) => missing::log("refused", symbol),
        Ok(Err(code)) => report_failed(symbol, code),
        _ => {}
    }
    sim.publish_host();
    sim.report_now();
    result.map_or(Code::UNKNOWN.0, number)
}

/// Reports a function of cudasim.h that a host function or a kernel called, once for each. The
/// program does not notice by itself: these functions have no result that says so.
fn report_ignored(symbol: &'static str) {
    if !symbol.starts_with("cudasim_") {
        return;
    }
    let instead = match symbol {
        "cudasim_host_read" | "cudasim_host_write" | "cudasim_accesses" => {
            "declare the accesses with cudasim_accesses, before or after it is enqueued"
        }
        _ => "call it in another thread",
    };
    report_once(symbol, |symbol| {
        format!("{symbol} does nothing in a host function or a kernel: {instead}")
    });
}

/// Reports a function of cudasim.h that failed and has no result that says so, once for each.
fn report_failed(symbol: &'static str, code: Code) {
    if symbol.starts_with("cudasim_") && symbol != "cudasim_synchronize" {
        let name = results::find(code.0).map_or("", |row| row.1.trim_end_matches('\0'));
        report_once(symbol, |symbol| format!("{symbol} has no effect: {name}"));
    }
}

/// Prints a message about a function, once for each function.
fn report_once(symbol: &'static str, message: impl FnOnce(&str) -> String) {
    static REPORTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let mut reported = REPORTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !reported.contains(&symbol) {
        reported.push(symbol);
        print(&format!("cuda-sim: {}\n", message(symbol)));
    }
}

/// Enters an event that a library reports. It is not a call of the driver: it may come from host
/// functions, in which arrays may be released, and it does not count for injected faults.
pub fn note(body: impl FnOnce(&mut Locked)) {
    let gone = EXITED.load(Ordering::Acquire) || FORKED.load(Ordering::Relaxed);
    if gone || PROCESS.load(Ordering::Acquire) == 0 || sim::is_locked_here() {
        return;
    }
    if !INSIDE.get() {
        context::look_around();
    }
    python::look();
    let Some(mut sim) = sim::lock() else { return };
    if !INSIDE.get() {
        context::adopt_current(&mut sim);
    }
    let _ = catch_unwind(AssertUnwindSafe(|| body(&mut sim)));
    sim.report_now();
}

/// Returns the name of a function without its version and twin: `cuMemAlloc` for `cuMemAlloc_v2`.
pub fn base_name(symbol: &str) -> &str {
    let name = symbol.trim_end_matches("_ptsz").trim_end_matches("_ptds");
    match name.rsplit_once("_v") {
        Some((base, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

/// Returns the error of an injected fault, if this call has one.
fn inject(sim: &mut Locked, symbol: &'static str) -> Result {
    if sim.config.faults.is_empty() {
        return Ok(());
    }
    let name = base_name(symbol);
    sim.every_call += 1;
    let every = sim.every_call;
    let count = sim.calls.entry(name).or_insert(0);
    *count += 1;
    let count = *count;
    let hit = |fault: &&crate::config::Fault| {
        (fault.call == "*" && fault.nth == every) || (fault.call == name && fault.nth == count)
    };
    let Some(fault) = sim.config.faults.iter().find(hit).cloned() else { return Ok(()) };
    if fault.sticky {
        // A lost device is lost for all contexts.
        sim.contexts.iter_mut().for_each(|(_, context)| context.error = Some(fault.code));
    }
    Err(fault.code)
}

/// Counts a call of a function that is not simulated.
pub fn missing(symbol: &'static str) -> i32 {
    if EXITED.load(Ordering::Acquire) {
        return Code::DEINITIALIZED.0;
    }
    if missing::count(symbol) == 1 {
        missing::log("called", symbol);
    }
    Code::NOT_SUPPORTED.0
}

// --- memory of callers ---

/// Writes a result. Fails if the pointer is NULL.
pub fn put<T>(to: *mut T, value: T) -> Result {
    refuse_if(to.is_null(), Code::INVALID_VALUE)?;
    if crate::real_driver::is_present() {
        // The real driver wrote the result.
        return Ok(());
    }
    // SAFETY: `to` is not NULL, and callers of the driver pass a pointer to one writable value for
    // every output in cuda.h. The write does not assume alignment.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes a result unless the pointer is NULL.
pub fn put_if<T>(to: *mut T, value: T) {
    let _ = put(to, value);
}

pub fn get<T: Copy>(from: *const T) -> Result<T> {
    refuse_if(from.is_null(), Code::INVALID_VALUE)?;
    // SAFETY: `from` is not NULL, and callers of the driver pass a pointer to one initialized value
    // for every input in cuda.h. The read does not assume alignment.
    Ok(unsafe { from.read_unaligned() })
}

/// Returns the elements of an array of the caller. The pointer is ignored if there are none.
pub fn slice<'a, T>(from: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    refuse_if(from.is_null(), Code::INVALID_VALUE)?;
    // SAFETY: `from` is not NULL, and callers of the driver pass as many initialized elements as
    // they count. The slice is used during the call only.
    Ok(unsafe { std::slice::from_raw_parts(from, count) })
}

/// Writes a list as the driver does: its length if `to` is NULL, otherwise as many elements as fit.
pub fn put_list<T: Copy + Default>(to: *mut T, count: *mut usize, values: &[T]) -> Result {
    let capacity = get(count)?;
    if !to.is_null() {
        // The rest is filled with zeros. [cuGraphGetNodes]
        let zeros = std::iter::repeat(T::default());
        for (i, value) in values.iter().copied().chain(zeros).take(capacity).enumerate() {
            // SAFETY: `to` is not NULL and has the number of elements that the caller wrote into
            // `count`; `i` is less.
            unsafe { to.add(i).write_unaligned(value) };
        }
    }
    put(count, if to.is_null() { values.len() } else { values.len().min(capacity) })
}

/// Copies text into a buffer of the caller, truncated to fit with its NUL.
pub fn put_text(to: *mut std::ffi::c_char, capacity: i32, text: &str) -> Result {
    refuse_if(to.is_null() || capacity <= 0, Code::INVALID_VALUE)?;
    let length = text.len().min(capacity as usize - 1);
    // SAFETY: `to` is not NULL and has the number of bytes that the caller passed; `length` is
    // less, which leaves one byte for the NUL.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), length);
        to.add(length).write(0);
    }
    Ok(())
}
