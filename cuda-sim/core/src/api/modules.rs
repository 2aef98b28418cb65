//! Modules, functions and launches.
//!
//! There is no device code: a function is one that the program registered under that name, see
//! cudasim.h.

use crate::access::{Access, WRITE};
use crate::api::macros::api;
use crate::capture::submit;
use crate::cudasim::Grid;
use crate::ffi::{get, put, slice};
use crate::memory;
use crate::results::{Code, Result, refuse_if};
use crate::shown::shown;
use crate::sim::{Function, Locked, Registered, lock};
use crate::work::{KernelBody, Launch, StreamRef, Work};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;

pub fn name_of(name: *const c_char) -> Result<CString> {
    refuse_if(name.is_null(), Code::INVALID_VALUE)?;
    // SAFETY: the pointer was checked for NULL, and callers of the driver pass NUL-terminated text
    // for this argument of cuda.h.
    Ok(unsafe { CStr::from_ptr(name) }.to_owned())
}

fn function(sim: &mut Locked, to: *mut u64, module: u64, name: *const c_char) -> Result {
    let name = name_of(name)?;
    refuse_if(to.is_null(), Code::INVALID_VALUE)?;
    if !sim.kernels.contains_key(name.as_bytes()) && sim.declared.find(name.as_bytes()).is_none() {
        sim.undeclared_kernel(&shown(name.as_bytes()));
        return Err(Code::NOT_FOUND);
    }
    let known = sim
        .functions
        .iter()
        .find(|(_, found)| found.module == module && found.name == name)
        .map(|(f, _)| f);
    put(to, known.unwrap_or_else(|| sim.functions.insert(Function { name, module })))
}

/// The arguments of a launch in one buffer, with the offset of each.
struct Arguments {
    bytes: Vec<u128>,
    offsets: Vec<usize>,
}

impl Arguments {
    fn copy(pointers: &[*mut c_void], sizes: &[usize]) -> Result<Arguments> {
        let mut arguments = Arguments { bytes: Vec::new(), offsets: Vec::new() };
        for (pointer, size) in pointers.iter().zip(sizes) {
            refuse_if(pointer.is_null(), Code::INVALID_VALUE)?;
            arguments.offsets.push(arguments.bytes.len());
            let at = arguments.bytes.len();
            arguments.bytes.resize(at + size.div_ceil(16), 0);
            // SAFETY: cuLaunchKernel requires `arguments` to have a pointer for each argument of
            // the kernel, and the program registered the kernel with these sizes. The copy has
            // `size` bytes at this offset.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    pointer.cast::<u8>(),
                    arguments.bytes[at..].as_mut_ptr().cast(),
                    *size,
                );
            }
        }
        Ok(arguments)
    }

    fn argument(&self, index: usize, size: usize) -> &[u8] {
        let at = self.offsets[index];
        // SAFETY: `copy` reserved `size` bytes, rounded up, at this offset, and any byte of the
        // numbers may be read.
        unsafe { std::slice::from_raw_parts(self.bytes[at..].as_ptr().cast(), size) }
    }

    /// Unpacks the buffer of `extra`, in which arguments are aligned to their sizes, up to 8 bytes.
    fn unpack(buffer: *mut u8, length: usize, sizes: &[usize]) -> Result<Arguments> {
        let mut pointers = Vec::with_capacity(sizes.len());
        let mut offset = 0usize;
        for size in sizes {
            offset = offset.next_multiple_of(size.next_power_of_two().clamp(1, 8));
            refuse_if(offset + size > length, Code::INVALID_VALUE)?;
            pointers.push(buffer.wrapping_add(offset).cast());
            offset += size;
        }
        Arguments::copy(&pointers, sizes)
    }
}

/// Returns the buffer and its length from a list of keys and values that ends with 0.
fn extra_buffer(extra: *mut *mut c_void) -> Result<(*mut u8, usize)> {
    let (mut buffer, mut length) = (std::ptr::null_mut::<u8>(), 0);
    for i in 0..8 {
        match get(extra.wrapping_add(2 * i))? as usize {
            0 => break,
            1 => buffer = get(extra.wrapping_add(2 * i + 1))?.cast(),
            2 => length = get(get(extra.wrapping_add(2 * i + 1))?.cast::<usize>())?,
            _ => return Err(Code::INVALID_VALUE),
        }
    }
    if buffer.is_null() { Err(Code::INVALID_VALUE) } else { Ok((buffer, length)) }
}

/// Overwrites what a kernel without a function writes: its results are not known.
pub fn overwrite(fills: &[(u8, Access)]) {
    // Kernels run with the lock released.
    if let Some(sim) = lock() {
        sim.overwrite(fills);
    }
}

/// Returns what is overwritten of these accesses.
pub fn fills(accesses: &[Access]) -> Vec<(u8, Access)> {
    let written = accesses.iter().filter(|access| access.mode & WRITE != 0);
    written.map(|access| (memory::UNKNOWN, *access)).collect()
}

/// Returns the work of a launch and its accesses.
fn prepare(
    sim: &mut Locked,
    handle: u64,
    grid: Grid,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<(Work, Vec<Access>)> {
    let name = sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?.name.clone();
    let kernel = sim.kernels.get(name.as_bytes()).copied();
    let declared = sim.declared.find(name.as_bytes());
    let limits = grid.grid.iter().chain(&grid.block).all(|n| *n > 0);
    let threads: u64 = grid.block.iter().map(|n| u64::from(*n)).product();
    refuse_if(!limits || threads > 1024, Code::INVALID_VALUE)?;
    let sizes = match (kernel, declared) {
        (Some(kernel), _) => slice(kernel.sizes, kernel.nargs)?,
        (None, Some(declared)) => &declared.sizes,
        (None, None) => return Err(Code::NOT_FOUND),
    };
    let arguments = if !extra.is_null() {
        let (buffer, length) = extra_buffer(extra)?;
        Arguments::unpack(buffer, length, sizes)?
    } else {
        Arguments::copy(slice(arguments, sizes.len())?, sizes)?
    };
    let (None, Some(declared)) = (kernel, declared) else {
        return registered(sim, handle, kernel.ok_or(Code::NOT_FOUND)?, grid, arguments);
    };
    let found = declared.accesses(
        &grid,
        |index| arguments.argument(index, sizes[index]),
        |address| sim.memory.find(address).map(|found| found.end_from(address)),
    );
    let launch = Launch {
        handle,
        function: KernelBody::Unknown(overwrite),
        grid,
        arguments: arguments.bytes,
        offsets: arguments.offsets,
        fills: found.fills,
    };
    Ok((Work::Kernel(Arc::new(launch)), found.all))
}

/// The same for a kernel of `cudasim_register`.
fn registered(
    sim: &Locked,
    handle: u64,
    kernel: Registered,
    grid: Grid,
    arguments: Arguments,
) -> Result<(Work, Vec<Access>)> {
    let mut accesses = Vec::new();
    let needed = sim.checker.is_some() || sim.devices.len() > 1 || kernel.run.is_none();
    if let (Some(declare), true) = (kernel.accesses, needed) {
        let mut copy = arguments.bytes.clone();
        let base = copy.as_mut_ptr();
        // SAFETY: `offsets` was computed for `copy`, so they are inside of it; it lives to the end
        // of this block.
        let mut pointers: Vec<*mut c_void> =
            arguments.offsets.iter().map(|at| unsafe { base.add(*at) }.cast()).collect();
        accesses.resize(16, Access::range(0, 0, 0));
        // SAFETY: the program registered `declare` for a kernel with these arguments. It writes at
        // most as many accesses as the last argument.
        let mut count =
            unsafe { declare(&grid, pointers.as_mut_ptr(), accesses.as_mut_ptr(), accesses.len()) };
        if count > accesses.len() {
            accesses.resize(count, Access::range(0, 0, 0));
            // SAFETY: the same call with as many elements as the first call returned.
            count = unsafe {
                declare(&grid, pointers.as_mut_ptr(), accesses.as_mut_ptr(), accesses.len())
            }
            .min(accesses.len());
        }
        accesses.truncate(count);
    }
    let launch = Launch {
        handle,
        function: kernel.run.map_or(KernelBody::Unknown(overwrite), KernelBody::Named),
        grid,
        arguments: arguments.bytes,
        offsets: arguments.offsets,
        fills: if kernel.run.is_none() { fills(&accesses) } else { Vec::new() },
    };
    Ok((Work::Kernel(Arc::new(launch)), accesses))
}

/// Does the same for real functions, too: an unregistered one has no known work or accesses.
pub fn prepare_known(
    sim: &mut Locked,
    handle: u64,
    grid: Grid,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<(Work, Vec<Access>)> {
    match prepare(sim, handle, grid, arguments, extra) {
        Err(_) if crate::real_driver::is_present() => Ok((Work::Nothing, Vec::new())),
        known => known,
    }
}

fn launch(
    sim: &mut Locked,
    function: u64,
    grid: Grid,
    stream: StreamRef,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result {
    let (work, accesses) = prepare_known(sim, function, grid, arguments, extra)?;
    let label = sim.kernel_label(function);
    submit(sim, stream, work, accesses, label)?;
    Ok(())
}

fn load(sim: &mut Locked, to: *mut u64, image: *const c_void) -> Result {
    sim.current_context()?;
    refuse_if(image.is_null() || to.is_null(), Code::INVALID_VALUE)?;
    put(to, sim.modules.insert(()))
}

fn load_library(sim: &mut Locked, to: *mut u64, image: *const c_void) -> Result {
    refuse_if(image.is_null() || to.is_null(), Code::INVALID_VALUE)?;
    put(to, sim.libraries.insert(()))
}

/// Returns an attribute of a function that only exists on the host.
fn attribute(which: i32) -> Result<i32> {
    Ok(match which {
        0 => 1024,     // MAX_THREADS_PER_BLOCK
        1..=3 => 0,    // SHARED_SIZE_BYTES, CONST_SIZE_BYTES, LOCAL_SIZE_BYTES
        4 => 32,       // NUM_REGS
        5 | 6 => 90,   // PTX_VERSION, BINARY_VERSION
        7 => 0,        // CACHE_MODE_CA
        8 => 48 << 10, // MAX_DYNAMIC_SHARED_SIZE_BYTES
        9..=15 => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: u64,
    attributes: u64,
    count: u32,
}

api! {
    fn cuModuleLoadData, cuModuleLoadFatBinary(to: *mut u64, image: *const c_void) |sim| { load(sim, to, image) }
    fn cuModuleLoadDataEx(
        to: *mut u64, image: *const c_void, count: u32, options: *const i32, values: *const u64,
    ) |sim| {
        load(sim, to, image)
    }
    fn cuModuleLoad(to: *mut u64, path: *const c_char) |sim| {
        let path = name_of(path)?;
        refuse_if(!std::path::Path::new(&*path.to_string_lossy()).exists(), Code::FILE_NOT_FOUND)?;
        load(sim, to, path.as_ptr().cast())
    }
    fn cuModuleUnload(module: u64) |sim| { sim.modules.remove(module).ok_or(Code::INVALID_HANDLE) }
    fn cuModuleGetFunction(to: *mut u64, module: u64, name: *const c_char) |sim| {
        sim.modules.get(module).ok_or(Code::INVALID_HANDLE)?;
        function(sim, to, module, name)
    }
    fn cuModuleGetGlobal_v2(to: *mut u64, size: *mut usize, module: u64, name: *const c_char) |sim| {
        sim.modules.get(module).ok_or(Code::INVALID_HANDLE)?;
        let _ = (to, size, name_of(name)?);
        Err(Code::NOT_FOUND)
    }
    fn cuModuleGetLoadingMode(mode: *mut i32) |sim| {
        let _ = &sim;
        put(mode, 2)
    }
    fn cuLibraryLoadData(
        to: *mut u64, image: *const c_void, jit: *const i32, jit_values: *const u64, jit_count: u32,
        options: *const i32, values: *const u64, count: u32,
    ) |sim| {
        load_library(sim, to, image)
    }
    fn cuLibraryUnload(library: u64) |sim| { sim.libraries.remove(library).ok_or(Code::INVALID_HANDLE) }
    fn cuLibraryGetKernel(to: *mut u64, library: u64, name: *const c_char) |sim| {
        sim.libraries.get(library).ok_or(Code::INVALID_HANDLE)?;
        function(sim, to, library, name)
    }
    fn cuLibraryGetModule(to: *mut u64, library: u64) |sim| {
        sim.libraries.get(library).ok_or(Code::INVALID_HANDLE)?;
        put(to, sim.modules.insert(()))
    }
    fn cuLibraryGetKernelCount(count: *mut u32, library: u64) |sim| {
        sim.libraries.get(library).ok_or(Code::INVALID_HANDLE)?;
        put(count, sim.kernels.len() as u32)
    }
    fn cuLibraryGetGlobal(to: *mut u64, size: *mut usize, library: u64, name: *const c_char) |sim| {
        sim.libraries.get(library).ok_or(Code::INVALID_HANDLE)?;
        let _ = (to, size, name_of(name)?);
        Err(Code::NOT_FOUND)
    }
    fn cuKernelGetFunction(to: *mut u64, kernel: u64) |sim| {
        sim.functions.get(kernel).ok_or(Code::INVALID_HANDLE)?;
        put(to, kernel)
    }
    fn cuKernelGetAttribute(value: *mut i32, which: i32, kernel: u64, device: i32) |sim| {
        super::devices::check(sim, device)?;
        sim.functions.get(kernel).ok_or(Code::INVALID_HANDLE)?;
        put(value, attribute(which)?)
    }
    fn cuKernelSetAttribute(which: i32, value: i32, kernel: u64, device: i32) |sim| {
        super::devices::check(sim, device)?;
        sim.functions.get(kernel).ok_or(Code::INVALID_HANDLE)?;
        attribute(which).map(|_| ())
    }
    fn cuFuncGetAttribute(value: *mut i32, which: i32, handle: u64) |sim| {
        sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?;
        put(value, attribute(which)?)
    }
    fn cuFuncSetAttribute(handle: u64, which: i32, value: i32) |sim| {
        sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?;
        attribute(which).map(|_| ())
    }
    fn cuFuncSetCacheConfig(handle: u64, config: i32) |sim| {
        sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?;
        if (0..4).contains(&config) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
    fn cuFuncGetModule, cuKernelGetLibrary(to: *mut u64, handle: u64) |sim| {
        put(to, sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?.module)
    }
    fn cuFuncGetName, cuKernelGetName(name: *mut *const c_char, handle: u64) |sim| {
        refuse_if(name.is_null() || handle == 0, Code::INVALID_VALUE)?;
        let found = sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?;
        put(name, found.name.as_ptr())
    }
    fn cuFuncIsLoaded(state: *mut i32, handle: u64) |sim| {
        sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?;
        put(state, 1)
    }
    fn cuFuncLoad(handle: u64) |sim| { sim.functions.get(handle).map(|_| ()).ok_or(Code::INVALID_HANDLE) }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(count: *mut i32, handle: u64, block: i32, shared: usize) |sim| {
        sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?;
        put(count, (2048 / block.clamp(1, 1024)).min(32))
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut i32, handle: u64, block: i32, shared: usize, flags: u32,
    ) |sim| {
        sim.functions.get(handle).ok_or(Code::INVALID_HANDLE)?;
        put(count, (2048 / block.clamp(1, 1024)).min(32))
    }
    fn cuLaunchKernel / cuLaunchKernel_ptsz(
        handle: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared_bytes: u32, stream: u64,
        arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) |sim, default, stream| {
        let grid = Grid { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes };
        launch(sim, handle, grid, stream, arguments, extra)
    }
    fn cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(
        handle: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared_bytes: u32, stream: u64,
        arguments: *mut *mut c_void,
    ) |sim, default, stream| {
        let grid = Grid { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes };
        launch(sim, handle, grid, stream, arguments, std::ptr::null_mut())
    }
    fn cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
        config: *const LaunchConfig, handle: u64, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) |sim, default| {
        let config = get(config)?;
        let grid = Grid { grid: config.grid, block: config.block, shared_bytes: config.shared_bytes };
        let stream = sim.stream(config.stream, default)?;
        launch(sim, handle, grid, stream, arguments, extra)
    }
}
