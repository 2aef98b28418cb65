//! Memory that processes share.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::{mem, ptr};

use cudarc::driver::sys::{CUcontext, CUevent, CUipcEventHandle, CUipcMemHandle, CUmemoryPool};

use crate::abi::{self, cai_pointer_info};
use crate::driver::context::{CallingThread, KnownContext};
use crate::driver::load::{self, Driver};
use crate::driver::result::{INVALID_VALUE, NOT_SUPPORTED};
use crate::driver::table::Call;
use crate::error::{Count, Result, fail};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const FILE_DESCRIPTOR: i32 = 1;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag, which is required.
const LAZY_PEER_ACCESS: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`
const ON_DEVICE: i32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_AND_WRITE: i32 = 3;

/// A file descriptor that is closed when this is dropped.
pub struct Descriptor(i32);

impl Descriptor {
    pub fn into_raw(self) -> i32 {
        let raw = self.0;
        mem::forget(self);
        raw
    }
}

#[cfg(target_os = "linux")]
impl std::os::fd::AsFd for Descriptor {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        // SAFETY: it is open until this is dropped.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use std::os::fd::{FromRawFd, OwnedFd};
            // SAFETY: the driver opened it for `export_memory`, and `into_raw` did not give it
            // away, so this is its only owner.
            drop(unsafe { OwnedFd::from_raw_fd(self.0) });
        }
    }
}

/// Mechanism by which another process gets memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// By the handle of an allocation of `cuMemAlloc`.
    Plain,
    /// By the descriptor of a pool, and the handle of an allocation in it.
    Pool,
    /// By the descriptor of physical memory of `cuMemCreate`.
    Mapped,
}

impl MemoryKind {
    /// Returns the kind of an allocation, which is device memory.
    pub fn of(info: &cai_pointer_info) -> MemoryKind {
        if !info.pool.is_null() {
            MemoryKind::Pool
        } else if info.context.is_null() {
            MemoryKind::Mapped
        } else {
            MemoryKind::Plain
        }
    }

    pub fn needs_descriptor(self) -> bool {
        self != MemoryKind::Plain
    }
}

/// An allocation of device memory, as another process opens it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Allocation {
    pub kind: MemoryKind,
    pub uuid: [u8; 16],
    pub size: u64,
    /// Zero for mapped memory.
    pub handle: [u8; 64],
}

#[cfg(test)]
impl Allocation {
    /// Contents of unused places of a list.
    pub const NONE: Self =
        Allocation { kind: MemoryKind::Plain, uuid: [0; 16], size: 0, handle: [0; 64] };
}

/// Fails if a call refused memory because of how it was made.
#[inline(never)]
fn shareable(call: Call, info: &cai_pointer_info) -> Result<()> {
    if call.code != INVALID_VALUE && call.code != NOT_SUPPORTED {
        return call.ok();
    }
    fail!(CAI_ERR_IPC_MEMORY, "data";
        found "memory at {:p}, {call}", info.base;
        expected "memory that this process got from cuMemAlloc, or from a pool or cuMemCreate with \
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")
    .map_err(|failure| failure.driver(call.code))
}

/// Returns the handle of an allocation, and its descriptor unless that is known. Which of them
/// there are depends on its kind. [cuIpcGetMemHandle, cuMemPoolExportPointer,
/// cuMemExportToShareableHandle]
pub fn export_memory(
    thread: &CallingThread,
    info: &cai_pointer_info,
    descriptor: &mut Option<Descriptor>,
) -> Result<[u8; 64]> {
    let base = info.base as u64;
    let mut opened = -1i32;
    let to = (&raw mut opened).cast::<c_void>();
    match MemoryKind::of(info) {
        MemoryKind::Plain => {
            let _entered = thread.enter(info.context.cast())?;
            let mut handle = CUipcMemHandle { reserved: [0; 64] };
            shareable(thread.ipc_memory_handle(&raw mut handle, base), info)?;
            Ok(bytes(handle.reserved))
        }
        MemoryKind::Pool => {
            let mut data = [0; 64];
            shareable(thread.pool_export_pointer(&raw mut data, base), info)?;
            if descriptor.is_none() {
                shareable(thread.pool_export(to, info.pool.cast(), FILE_DESCRIPTOR, 0), info)?;
                *descriptor = Some(Descriptor(opened));
            }
            Ok(data)
        }
        MemoryKind::Mapped => {
            let mut handle = 0;
            shareable(thread.mapped_handle(&raw mut handle, info.base), info)?;
            let exported = thread.handle_export(to, handle, FILE_DESCRIPTOR, 0);
            // The handle is a reference of its own.
            let _ = thread.handle_release(handle);
            shareable(exported, info)?;
            *descriptor = Some(Descriptor(opened));
            Ok([0; 64])
        }
    }
}

pub(super) fn bytes(handle: [c_char; 64]) -> [u8; 64] {
    handle.map(|byte| byte as u8)
}

pub(super) fn chars(handle: [u8; 64]) -> [c_char; 64] {
    handle.map(|byte| byte as c_char)
}

/// Returns the UUID of a device, which is the same in all processes. [cuDeviceGetUuid]
pub fn uuid_of(driver: &Driver, device: i32) -> Result<[u8; 16]> {
    let mut uuid = [0; 16];
    driver.device_uuid(&raw mut uuid, device).ok()?;
    Ok(uuid)
}

pub fn device_of(driver: &Driver, uuid: &[u8; 16]) -> Result<i32> {
    let mut count = 0;
    driver.device_count(&raw mut count).ok()?;
    for device in 0..count {
        if uuid_of(driver, device)? == *uuid {
            return Ok(device);
        }
    }
    fail!(CAI_ERR_IPC_DEVICE, "device";
        found "a device with the UUID {:032x}", u128::from_be_bytes(*uuid);
        expected "a device of this process, which has {}: see CUDA_VISIBLE_DEVICES",
            Count(count, "device"))
}

/// A context of a device, with a reference to it if it is the primary one.
pub(super) struct DeviceContext {
    pub driver: &'static Driver,
    known: KnownContext,
    pub device: i32,
    is_primary: bool,
}

impl DeviceContext {
    /// A context of a device, without a reference to it.
    pub fn borrowed(driver: &'static Driver, context: CUcontext, device: i32) -> DeviceContext {
        let known = KnownContext::new(driver, context);
        DeviceContext { driver, known, device, is_primary: false }
    }

    pub fn handle(&self) -> CUcontext {
        self.known.handle
    }

    /// Returns true if what was made in it is still there.
    pub fn exists(&self) -> bool {
        self.known.exists(self.driver)
    }

    /// Returns the current context if it is one of this device, or else the primary one.
    pub fn of(thread: &CallingThread, device: i32) -> Result<DeviceContext> {
        let driver = thread.driver();
        let context = thread.current()?;
        if !context.is_null() {
            let mut found = 0;
            thread.context_device(&raw mut found).ok()?;
            if found == device {
                return Ok(DeviceContext::borrowed(driver, context, device));
            }
        }
        let known = KnownContext::new(driver, driver.primary(device)?);
        Ok(DeviceContext { driver, known, device, is_primary: true })
    }
}

impl Drop for DeviceContext {
    fn drop(&mut self) {
        if self.is_primary {
            self.driver.release_primary(self.device);
        }
    }
}

/// A pool of another process, which is closed when this is dropped: after all memory of it.
pub struct SharedPool {
    driver: &'static Driver,
    pool: CUmemoryPool,
}

// SAFETY: handles of the driver are those of the process, and its functions may be called on any
// thread.
unsafe impl Send for SharedPool {}
// SAFETY: a reference only reads the handle, which does not change.
unsafe impl Sync for SharedPool {}

impl SharedPool {
    /// Opens the pool of a descriptor. [cuMemPoolImportFromShareableHandle]
    fn open(thread: &CallingThread, file: *mut c_void) -> Result<Arc<SharedPool>> {
        let mut pool = ptr::null_mut();
        opened(thread.pool_import(&raw mut pool, file, FILE_DESCRIPTOR, 0))?;
        Ok(Arc::new(SharedPool { driver: thread.driver(), pool }))
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        if !load::is_forked() {
            let thread = &CallingThread::new(self.driver);
            let _ = thread.relaxed(|| thread.pool_destroy(self.pool).ok());
        }
    }
}

/// Steps that are undone to close memory, the last one first.
enum Opened {
    Nothing,
    Plain(u64),
    Pool(Arc<SharedPool>, u64),
    Reserved(u64),
    Mapped(u64),
}

/// Memory and an event of another process. Dropping it closes both.
pub struct SharedMemory {
    opened: Opened,
    size: usize,
    event: CUevent,
    /// Dropped after the memory was closed.
    context: DeviceContext,
}

// SAFETY: handles of the driver are those of the process. Drop makes the context current that it
// needs.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Opens an allocation of another process on a device. Memory of a pool needs `pool`, which is
    /// opened from the descriptor if there is none. [cuIpcOpenMemHandle, cuMemPoolImportPointer,
    /// cuMemImportFromShareableHandle]
    pub fn open(
        thread: &CallingThread,
        device: i32,
        from: &Allocation,
        descriptor: i32,
        pool: &mut Option<Arc<SharedPool>>,
    ) -> Result<SharedMemory> {
        let size = usize::try_from(from.size).unwrap_or(usize::MAX);
        let context = DeviceContext::of(thread, device)?;
        let mut memory =
            SharedMemory { opened: Opened::Nothing, size, event: ptr::null_mut(), context };
        let _entered = thread.enter(memory.context.handle())?;
        let file = descriptor as isize as *mut c_void;
        let mut base = 0;
        match from.kind {
            MemoryKind::Plain => {
                let handle = CUipcMemHandle { reserved: chars(from.handle) };
                opened(thread.ipc_open_memory(&raw mut base, handle, LAZY_PEER_ACCESS))?;
                memory.opened = Opened::Plain(base);
            }
            MemoryKind::Pool => {
                let shared = match pool {
                    Some(known) => known,
                    None => pool.insert(SharedPool::open(thread, file)?),
                };
                let mut data = from.handle;
                opened(thread.pool_import_pointer(&raw mut base, shared.pool, &raw mut data))?;
                memory.opened = Opened::Pool(shared.clone(), base);
            }
            MemoryKind::Mapped => {
                let mut physical = 0;
                opened(thread.handle_import(&raw mut physical, file, FILE_DESCRIPTOR))?;
                let mapped = memory.map(thread, device, physical);
                // The mapping holds a reference of its own.
                let _ = thread.handle_release(physical);
                mapped?;
            }
        }
        Ok(memory)
    }

    fn map(&mut self, thread: &CallingThread, device: i32, physical: u64) -> Result<()> {
        let mut base = 0;
        opened(thread.address_reserve(&raw mut base, self.size, 0, 0, 0))?;
        self.opened = Opened::Reserved(base);
        opened(thread.map(base, self.size, 0, physical, 0))?;
        self.opened = Opened::Mapped(base);
        let access = [ON_DEVICE, device, READ_AND_WRITE];
        opened(thread.set_access(base, self.size, &raw const access, 1))
    }

    pub fn base(&self) -> u64 {
        match self.opened {
            Opened::Plain(base) | Opened::Pool(_, base) | Opened::Mapped(base) => base,
            Opened::Nothing | Opened::Reserved(_) => 0,
        }
    }

    pub fn device(&self) -> i32 {
        self.context.device
    }

    pub fn context(&self) -> CUcontext {
        self.context.handle()
    }

    /// Writes a number that streams wait for and nobody else will write.
    pub fn write_number(&self, address: u64, number: u64) -> Result<()> {
        self.context.write_number(address, number)
    }

    /// Opens an event as well, and returns it. [cuIpcOpenEventHandle]
    pub fn open_event(&mut self, thread: &CallingThread, handle: [u8; 64]) -> Result<CUevent> {
        let _entered = thread.enter(self.context.handle())?;
        let handle = CUipcEventHandle { reserved: chars(handle) };
        opened(thread.ipc_open_event(&raw mut self.event, handle))?;
        Ok(self.event)
    }

    /// Closes everything. After a failure of the driver there is nothing left to close.
    fn close(&mut self) -> Result<()> {
        let thread = &CallingThread::new(self.context.driver);
        thread.relaxed(|| {
            // Event and plain memory end with their context; the others do not.
            let entered = match self.context.exists() {
                true => thread.enter(self.context.handle()).ok(),
                false => None,
            };
            if entered.is_some() && !self.event.is_null() {
                let _ = thread.event_destroy(self.event);
            }
            let size = self.size;
            let _ = match mem::replace(&mut self.opened, Opened::Nothing) {
                Opened::Nothing => return Ok(()),
                Opened::Plain(_) if entered.is_none() => return Ok(()),
                Opened::Plain(base) => thread.ipc_close_memory(base),
                // Before the exporter frees it, and before `_pool` may close the pool.
                Opened::Pool(_pool, base) => thread.memory_free(base),
                Opened::Reserved(base) => thread.address_free(base, size),
                Opened::Mapped(base) => {
                    let _ = thread.unmap(base, size);
                    thread.address_free(base, size)
                }
            };
            Ok(())
        })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if !load::is_forked() {
            let _ = self.close();
        }
    }
}

/// Fails if a call refused to open what another process exported. Drivers return different codes
/// for the same reason; the context, which they may blame, was made current.
#[inline(never)]
pub(super) fn opened(call: Call) -> Result<()> {
    let Err(failure) = call.ok() else { return Ok(()) };
    match failure.status() {
        abi::CAI_ERR_DRIVER | abi::CAI_ERR_NO_CONTEXT | abi::CAI_ERR_STREAM_HANDLE => {
            fail!(CAI_ERR_IPC_MEMORY, "bytes";
            found "{call}"; expected "an export of another process, which is alive and holds it")
            .map_err(|failure| failure.driver(call.code))
        }
        _ => Err(failure),
    }
}
