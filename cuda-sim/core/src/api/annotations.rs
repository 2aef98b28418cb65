//! The functions of cudasim.h: kernels, host accesses, order between threads, allocators, names.

use crate::access::{Access, READ, WRITE};
use crate::api::instrumented;
use crate::api::modules::{fills, overwrite};
use crate::capture::submit;
use crate::conditions::Condition;
use crate::cudasim::{Api, Grid, Kernel, Note};
use crate::ffi::{enter, slice};
use crate::follow;
use crate::real_driver;
use crate::results::{Code, refuse_if};
use crate::shown::shown;
use crate::sim::{PROCESS, Registered, Sim, has_ended, is_locked_here, lock, thread_id};
use crate::work::{FAILED, KernelBody, Launch, Work};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const VERSION: u32 = 7;

static API: Api = Api {
    struct_size: size_of::<Api>() as u32,
    version: VERSION,
    register_kernels,
    launch,
    host_access,
    hb_before,
    hb_after,
    suballoc,
    subfree,
    name_stream,
    label,
    races,
    step,
    host_address,
    take_report,
    fail_kernel,
    cai: Some(cai),
    accesses,
    simulated,
    take_json,
    synchronize,
    set_condition,
    host_waited,
    watch_host: instrumented::watch_host,
    host_place: instrumented::host_place,
    host_access_at: instrumented::host_access_at,
};

/// The same without the function that observes exchanges, as beside a driver without a checker.
static UNOBSERVED: Api = Api { cai: None, ..API };

/// Returns the table of functions, the one symbol that cudasim.h looks up. NULL for a version that
/// this simulator does not know.
pub extern "C" fn cudasim_get_api(version: u32) -> *const Api {
    if version > VERSION {
        return std::ptr::null();
    }
    if crate::config::observes_exchanges() { &API } else { &UNOBSERVED }
}

fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the pointer is not NULL, and cudasim.h requires NUL-terminated text.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

fn text(text: *const c_char) -> Option<String> {
    bytes(text).map(shown)
}

/// Labels of threads from before cuInit.
static EARLY_LABELS: Mutex<Vec<(u32, Arc<str>)>> = Mutex::new(Vec::new());

/// Kernels that were registered before cuInit.
static EARLY: Mutex<Vec<(Vec<u8>, Registered)>> = Mutex::new(Vec::new());

fn early() -> MutexGuard<'static, Vec<(Vec<u8>, Registered)>> {
    EARLY.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn register_kernels(kernels: *const Kernel, count: usize) {
    let Ok(kernels) = slice(kernels, count) else { return };
    let mut early = early();
    for kernel in kernels {
        let Some(name) = bytes(kernel.name) else {
            crate::console::print(
                "cuda-sim: cudasim_register: a kernel without a name is ignored\n",
            );
            continue;
        };
        let Kernel { run, accesses, nargs, sizes, .. } = *kernel;
        let registered = Registered { run, accesses, nargs, sizes };
        early.push((name.to_vec(), registered));
    }
    if let Some(mut sim) = lock() {
        sim.kernels.extend(early.drain(..));
    }
    if let Some(real) = real_driver::simulated() {
        (real.register_kernels)(kernels.as_ptr(), kernels.len());
    }
}

/// Connects the preloaded library that observes locks and joins, if there is one.
pub fn attach_threads() {
    // SAFETY: the preloaded library defines a function of this name and type; a symbol of another
    // library cannot have the prefix `cudasim_`.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"cudasim_threads_attach".as_ptr());
        if !symbol.is_null() {
            let attach: extern "C" fn(*const Api) = std::mem::transmute(symbol);
            attach(&API);
        }
    }
}

/// Takes over the kernels and the labels of threads from before cuInit.
pub fn take_early(sim: &mut Sim) {
    sim.kernels.extend(early().drain(..));
    for (thread, label) in EARLY_LABELS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        sim.threads.entry(thread).or_default().label = Some(label);
    }
}

extern "C" fn launch(
    stream: u64,
    name: *const c_char,
    run: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *const u8,
    size: usize,
    accesses: *const Access,
    count: usize,
) -> i32 {
    if real_driver::is_present() {
        // A real device does not run host functions.
        let Some(real) = real_driver::simulated() else {
            return Code::NOT_SUPPORTED.0;
        };
        let launch = || (real.launch)(stream, name, run, data, size, accesses, count);
        let result = follow::outside(launch);
        if result != 0 {
            return result;
        }
    }
    enter("cuLaunchKernel", 1, |sim, default| {
        let stream = sim.stream(stream, default)?;
        let bytes = slice(data, size)?;
        let accesses = slice(accesses, count)?.to_vec();
        let mut arguments = vec![0u128; size.div_ceil(16)];
        // SAFETY: `arguments` has at least `size` bytes, and `bytes` exactly as many.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), arguments.as_mut_ptr().cast(), size)
        };
        let launch = Launch {
            handle: 0,
            function: run.map_or(KernelBody::Unknown(overwrite), KernelBody::Direct),
            grid: Grid::default(),
            arguments,
            offsets: Vec::new(),
            fills: if run.is_none() { fills(&accesses) } else { Vec::new() },
        };
        let label = text(name).map_or("a kernel", |name| sim.interned(&name));
        submit(sim, stream, Work::Kernel(Arc::new(launch)), accesses, label)?;
        Ok(())
    })
}

/// Records the accesses of an operation, beside the launch of a kernel whose accesses are unknown.
extern "C" fn accesses(stream: u64, name: *const c_char, accesses: *const Access, count: usize) {
    enter("cudasim_accesses", 1, |sim, default| {
        let stream = sim.stream(stream, default)?;
        let label = text(name).map_or("a kernel", |name| sim.interned(&name));
        submit(sim, stream, Work::Nothing, slice(accesses, count)?.to_vec(), label)?;
        Ok(())
    });
}

extern "C" fn host_access(address: u64, nbytes: usize, mode: u32, name: *const c_char) {
    let mode = mode & (READ | WRITE);
    let symbol = if mode == READ { "cudasim_host_read" } else { "cudasim_host_write" };
    enter(symbol, 1, |sim, _| {
        let default = if mode == READ { "a read by the host" } else { "a write by the host" };
        let name = text(name).map_or(Cow::Borrowed(default), Cow::Owned);
        sim.check_host(&[Access::range(address, nbytes as u64, mode)], name);
        Ok(())
    });
}

/// Records that this thread found a number that satisfies a comparison.
extern "C" fn host_waited(address: u64, nbytes: usize, value: u64, flags: u32) {
    enter("cudasim_host_waited", 1, |sim, _| {
        refuse_if(!matches!(nbytes, 4 | 8) || address % nbytes as u64 != 0, Code::INVALID_VALUE)?;
        let value = if nbytes == 8 { value } else { value & 0xffff_ffff };
        sim.host_has_seen(address, nbytes == 8, value, flags);
        Ok(())
    });
}

/// Records an event of an array exchange that a library reports.
extern "C" fn cai(note: *const Note) {
    if note.is_null() {
        return;
    }
    // SAFETY: `note` is not NULL, and its first member is its size, which is read before any other.
    let size = unsafe { (&raw const (*note).struct_size).read() } as usize;
    if size < size_of::<Note>() {
        return;
    }
    crate::ffi::note(|sim| {
        // SAFETY: `struct_size` was checked above: the structure is at least as long as `Note`.
        let note = unsafe { note.read() };
        let rule = text(note.rule);
        let known = crate::rules::RULES.iter().find(|(name, _)| Some(*name) == rule.as_deref());
        sim.exchange(&note, known.map(|(name, _)| *name));
    });
}

extern "C" fn hb_before(object: usize) {
    flush_host();
    if let Some(mut sim) = checking() {
        let host = sim.host_actor();
        if let Some(checker) = &mut sim.checker {
            checker.hb_before(host, object);
        }
        // The destructor that forgets this thread ran before.
        if has_ended() {
            sim.thread_ends(thread_id());
        }
    }
}

extern "C" fn hb_after(object: usize) {
    flush_host();
    if let Some(mut sim) = checking() {
        let host = sim.host_actor();
        if let Some(checker) = &mut sim.checker {
            checker.hb_after(host, object);
        }
    }
}

/// Returns the state if the order of host threads matters.
fn checking() -> Option<crate::sim::Locked> {
    let off =
        crate::sim::EXITED.load(Ordering::Relaxed) || crate::ffi::FORKED.load(Ordering::Relaxed);
    if off || crate::sim::is_locked_here() {
        return None;
    }
    // Locks inside a real driver do not order anything that the program may rely on.
    if follow::is_outside() {
        return None;
    }
    lock().filter(|sim| sim.config.threads_seen && sim.checker.is_some())
}

/// Returns the moment of an operation in a stream, or on this thread.
fn moment_on(
    sim: &mut crate::sim::Locked,
    stream: u64,
    label: &'static str,
) -> Result<Option<crate::site::Moment>, Code> {
    let name = sim.label(label);
    if stream == u64::MAX {
        return Ok(sim.check_host(&[], name));
    }
    let stream = sim.stream(stream, 1)?;
    sim.prepare(stream);
    let actor = sim.stream_mut(stream).actor;
    Ok(actor
        .and_then(|actor| Some(sim.checker.as_mut()?.step(actor, name, u64::from(thread_id())))))
}

extern "C" fn suballoc(address: u64, nbytes: usize, stream: u64) {
    enter("cudasim_suballoc", 1, |sim, _| {
        let Some(moment) = moment_on(sim, stream, "a sub-allocation")? else { return Ok(()) };
        // The bytes begin again: earlier accesses are the allocator's responsibility.
        let found = sim.memory.find_mut(address).ok_or(Code::INVALID_VALUE)?;
        let from = address.clamp(found.base, found.end());
        let to = (address + nbytes as u64).clamp(found.base, found.end());
        found.shadow.restart(from, to, moment.mark);
        if let Some(checker) = &mut sim.checker {
            checker.rules.forget(from, to);
        }
        Ok(())
    });
}

extern "C" fn subfree(address: u64, nbytes: usize, stream: u64) {
    enter("cudasim_subfree", 1, |sim, _| {
        if let Some(moment) =
            moment_on(sim, stream, "a return to an allocator (cuMemFree of a part)")?
        {
            sim.check_at(&moment, &[Access::range(address, nbytes as u64, WRITE)]);
            let memory = &sim.memory;
            let is_known = memory.find(address).is_some() || memory.was_freed(address).is_some();
            return if is_known { Ok(()) } else { Err(Code::INVALID_VALUE) };
        }
        Ok(())
    });
}

extern "C" fn name_stream(stream: u64, name: *const c_char) {
    enter("cudasim_name_stream", 1, |sim, default| {
        let stream = sim.stream(stream, default)?;
        let actor = sim.stream_mut(stream).actor;
        if let (Some(actor), Some(name), Some(checker)) = (actor, text(name), &mut sim.checker) {
            checker.name(actor, &name);
        }
        Ok(())
    });
}

extern "C" fn label(name: *const c_char) {
    if PROCESS.load(Ordering::Acquire) == 0 {
        let mut early = EARLY_LABELS.lock().unwrap_or_else(PoisonError::into_inner);
        early.retain(|(thread, _)| *thread != thread_id());
        early.extend(text(name).map(|name| (thread_id(), Arc::from(&*name))));
        return;
    }
    enter("cudasim_label", 1, |sim, _| {
        sim.thread().label = text(name).map(|name| Arc::from(&*name));
        Ok(())
    });
}

/// Records what instrumented code of this thread has accessed before.
fn flush_host() {
    if !is_locked_here() {
        crate::instrumented::flush();
    }
}

extern "C" fn races() -> usize {
    flush_host();
    lock().map_or(0, |sim| sim.checker.as_ref().map_or(0, |checker| checker.found()))
}

extern "C" fn step(operations: usize) -> usize {
    if real_driver::is_present() {
        return real_driver::simulated().map_or(0, |real| (real.step)(operations));
    }
    let mut ran = 0;
    enter("cudasim_step", 1, |sim, _| {
        ran = Sim::steps(sim, operations);
        Ok(())
    });
    ran
}

extern "C" fn host_address(address: u64) -> u64 {
    if let Some(real) = real_driver::simulated() {
        return (real.host_address)(address);
    }
    // Kernels may call this, because they run with the lock released.
    lock().map_or(address, |sim| sim.memory.host_address(address))
}

extern "C" fn take_report(out: *mut u8, capacity: usize) -> usize {
    flush_host();
    let Some(mut sim) = lock() else { return 0 };
    let Sim { checker, journal, .. } = &mut *sim;
    let Some(checker) = checker else { return 0 };
    checker.end_open_waits();
    let text = checker.texts();
    let count = checker.take(journal.as_mut());
    if !out.is_null() && capacity > 0 {
        put_text(out, &text.as_bytes()[..text.len().min(capacity - 1)]);
    }
    count
}

/// Writes a text and a NUL, for which `out` has room.
fn put_text(out: *mut u8, text: &[u8]) {
    // SAFETY: callers compared the length with the number of bytes that their caller passed.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), out, text.len());
        out.add(text.len()).write(0);
    }
}

/// Moves the races out as JSON, if it fits. Returns its length with the NUL; 0 for no races.
extern "C" fn take_json(out: *mut u8, capacity: usize) -> usize {
    // In a forked child, another thread may have held the lock.
    if crate::ffi::FORKED.load(std::sync::atomic::Ordering::Relaxed) {
        return 0;
    }
    flush_host();
    let Some(mut sim) = lock() else { return 0 };
    let Sim { checker, journal, .. } = &mut *sim;
    let Some(checker) = checker else { return 0 };
    let races = checker.json();
    if races.is_empty() {
        return 0;
    }
    let text = serde_json::Value::from(races).to_string();
    if !out.is_null() && capacity > text.len() {
        put_text(out, text.as_bytes());
        checker.take(journal.as_mut());
    }
    text.len() + 1
}

/// Waits for all work of all contexts, at most for some time. If all is done, it happens before the
/// next work of the calling thread.
extern "C" fn synchronize(milliseconds: u32) -> i32 {
    // Whether a real driver is done is known to the driver.
    if real_driver::is_present() {
        return Code::NOT_SUPPORTED.0;
    }
    enter("cudasim_synchronize", 1, |sim, _| {
        let time = std::time::Duration::from_millis(milliseconds.into());
        refuse_if(!Sim::wait_everything_for(sim, time), Code::NOT_READY)?;
        let contexts: Vec<u64> = sim.contexts.iter().map(|(context, _)| context).collect();
        contexts.into_iter().for_each(|context| sim.host_knows_context(context));
        Ok(())
    })
}

/// Returns whether host functions replace kernels. On a real device they do not.
extern "C" fn simulated() -> i32 {
    i32::from(!real_driver::is_present() || real_driver::simulated().is_some())
}

extern "C" fn set_condition(handle: u64, value: u32) {
    if let Some(real) = real_driver::simulated() {
        (real.set_condition)(handle, value);
    }
    if let Some(condition) = Condition::find(handle) {
        condition.set(value);
    }
}

extern "C" fn fail_kernel(code: i32) {
    if let Some(real) = real_driver::simulated() {
        (real.fail_kernel)(code);
    }
    FAILED.set(code);
}
