//! Queries about addresses.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{
    CUcontext, CUmemorytype_enum as MemoryType, CUpointer_attribute as Attribute,
};

use crate::abi::{self, cai_device, cai_pointer_info};
use crate::driver::context::CallingThread;
use crate::driver::load::{self, Driver};
use crate::driver::result::{INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED};
use crate::error::{Failure, Result, fail};

/// The ordinal that the driver returns for memory that it does not know.
const NO_DEVICE: i32 = -2;

struct Query {
    attribute: Attribute,
    result: *mut c_void,
}

/// Makes several queries about any address in one call. Results that the driver does not know keep
/// their defaults. No capture forbids it with CUDA: launchers of kernels make such a query for each
/// pointer, while they capture too. [cuPointerGetAttributes]
fn query_all<const N: usize>(driver: &Driver, address: u64, queries: [Query; N]) -> Result<()> {
    let mut attributes = queries.each_ref().map(|query| query.attribute as i32);
    let mut results = queries.map(|query| query.result);
    driver.pointer_attributes(N as u32, attributes.as_mut_ptr(), results.as_mut_ptr(), address).ok()
}

fn query<T>(attribute: Attribute, result: &mut T) -> Query {
    Query { attribute, result: ptr::from_mut(result).cast() }
}

/// What memory belongs to.
pub struct Home {
    /// NULL if it belongs to no single context.
    pub context: CUcontext,
    /// `None` if the driver does not know the memory.
    pub device: Option<i32>,
    /// The context is the same until the memory is freed: it was not registered with the driver.
    pub is_fixed: bool,
}

/// Returns the context and the device that memory belongs to.
pub fn home(driver: &Driver, address: u64) -> Result<Home> {
    let (mut context, mut device): (CUcontext, i32) = (ptr::null_mut(), NO_DEVICE);
    if driver.is_hip() {
        let queries = [query(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &mut device)];
        driver.relaxed(|| query_all(driver, address, queries))?;
        return Ok(Home { context, device: (device >= 0).then_some(device), is_fixed: false });
    }
    let mut kind = 0_u32;
    query_all(
        driver,
        address,
        [
            query(Attribute::CU_POINTER_ATTRIBUTE_CONTEXT, &mut context),
            query(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &mut device),
            query(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &mut kind),
        ],
    )?;
    let is_fixed = kind == MemoryType::CU_MEMORYTYPE_DEVICE as u32;
    Ok(Home { context, device: (device >= 0).then_some(device), is_fixed })
}

/// Returns the kind of memory for two of the driver's results.
fn type_of(kind: u32, managed: bool) -> i32 {
    const HOST: u32 = MemoryType::CU_MEMORYTYPE_HOST as u32;
    const DEVICE: u32 = MemoryType::CU_MEMORYTYPE_DEVICE as u32;
    match kind {
        _ if managed => abi::CAI_DEVICE_CUDA_MANAGED,
        DEVICE => abi::CAI_DEVICE_CUDA,
        HOST => abi::CAI_DEVICE_CUDA_HOST,
        _ => abi::CAI_DEVICE_CPU,
    }
}

/// Returns the location of memory, as [`attributes`] does, in one call: kind, device and context.
pub fn location(driver: &Driver, address: *const c_void) -> Result<(cai_device, CUcontext)> {
    let (mut kind, mut managed, mut device): (u32, u32, i32) = (0, 0, NO_DEVICE);
    let mut context: CUcontext = ptr::null_mut();
    query_all(
        driver,
        address as u64,
        [
            query(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &mut kind),
            query(Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, &mut managed),
            query(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &mut device),
            query(Attribute::CU_POINTER_ATTRIBUTE_CONTEXT, &mut context),
        ],
    )?;
    match type_of(kind, managed != 0) {
        abi::CAI_DEVICE_CPU => {
            Ok((cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 }, ptr::null_mut()))
        }
        r#type => Ok((cai_device { r#type, id: device.max(0) }, context)),
    }
}

/// Returns the location of memory, and its context for CUDA. If the process has loaded HIP, it is
/// asked about memory that CUDA does not know.
pub fn locate(address: *const c_void) -> Result<(cai_device, CUcontext)> {
    let found = load::driver().and_then(|driver| location(driver, address));
    if matches!(&found, Ok((device, _)) if device.r#type != abi::CAI_DEVICE_CPU) {
        return found;
    }
    match load::hip_if_loaded() {
        Some(hip) => match hip.relaxed(|| rocm_location(hip, address))? {
            Some(device) => Ok((device, ptr::null_mut())),
            None => found,
        },
        None => found,
    }
}

fn rocm_location(hip: &Driver, address: *const c_void) -> Result<Option<cai_device>> {
    let (mut host, mut id): (*mut c_void, i32) = (ptr::null_mut(), NO_DEVICE);
    query_all(
        hip,
        address as u64,
        [
            query(Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, &mut host),
            query(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &mut id),
        ],
    )?;
    // The kinds of memory have other numbers since ROCm 6. What the host can use is at an address
    // for it.
    Ok(match host.is_null() {
        _ if id < 0 => None,
        true => Some(cai_device { r#type: abi::CAI_DEVICE_ROCM, id }),
        false => Some(cai_device { r#type: abi::CAI_DEVICE_ROCM_HOST, id: 0 }),
    })
}

/// Returns the CUDA device of an array without memory: that of its context, or else that of the
/// current context, or else the first device, also without a driver. [cuCtxGetDevice]
pub fn device_without_memory(context: *mut c_void) -> cai_device {
    let device = || {
        let thread = CallingThread::new(load::driver()?);
        let context = if context.is_null() { thread.current()? } else { context.cast() };
        let mut device = 0;
        if !context.is_null() {
            let _entered = thread.enter(context)?;
            thread.context_device(&raw mut device).ok()?;
        }
        Ok::<_, Failure>(device)
    };
    cai_device { r#type: abi::CAI_DEVICE_CUDA, id: device().unwrap_or(0) }
}

/// Returns the device of the current context, if there is one. [cuCtxGetDevice]
pub fn current_device() -> Option<i32> {
    let thread = CallingThread::new(load::driver().ok()?);
    let context = thread.current().ok()?;
    let mut device = 0;
    let is_known = !context.is_null() && thread.context_device(&raw mut device).is_ok();
    is_known.then_some(device)
}

/// Nothing is known about an address.
pub const NO_INFO: cai_pointer_info = cai_pointer_info {
    device: cai_device { r#type: abi::CAI_DEVICE_UNKNOWN, id: 0 },
    context: ptr::null_mut(),
    device_pointer: ptr::null_mut(),
    host_pointer: ptr::null_mut(),
    base: ptr::null_mut(),
    size: 0,
    buffer_id: 0,
    pool: ptr::null_mut(),
    host_accessible: false,
    managed: false,
    mapped: false,
    reserved: [0; 61],
};

/// Returns everything that the driver knows about an address.
pub fn attributes(thread: &CallingThread, address: *const c_void) -> Result<cai_pointer_info> {
    let address = address as u64;
    let (mut kind, mut device): (u32, i32) = (0, NO_DEVICE);
    let (mut device_pointer, mut base, mut size): (u64, u64, usize) = (0, 0, 0);
    let (mut context, mut host_pointer): (CUcontext, *mut c_void) =
        (ptr::null_mut(), ptr::null_mut());
    let (mut managed, mut mapped): (u32, u32) = (0, 0);
    let (mut buffer_id, mut pool): (u64, *mut c_void) = (0, ptr::null_mut());
    query_all(
        thread,
        address,
        [
            query(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &mut kind),
            query(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &mut device),
            query(Attribute::CU_POINTER_ATTRIBUTE_CONTEXT, &mut context),
            query(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, &mut device_pointer),
            query(Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, &mut host_pointer),
            query(Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, &mut managed),
            query(Attribute::CU_POINTER_ATTRIBUTE_MAPPED, &mut mapped),
            query(Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID, &mut buffer_id),
            query(Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, &mut pool),
            query(Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &mut base),
            query(Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, &mut size),
        ],
    )?;
    let r#type = type_of(kind, managed != 0);
    if r#type == abi::CAI_DEVICE_CPU {
        // For memory that the driver does not know, its results are defaults.
        return Ok(cai_pointer_info {
            device: cai_device { r#type, id: 0 },
            host_pointer: address as *mut c_void,
            host_accessible: true,
            mapped: true,
            ..NO_INFO
        });
    }
    // The range attributes describe the reserved addresses; this call describes the allocation.
    if let Some((start, bytes)) = allocation(thread, device_pointer, context, device)? {
        (base, size) = (start, bytes);
    }
    let host_accessible = r#type != abi::CAI_DEVICE_CUDA;
    Ok(cai_pointer_info {
        device: cai_device { r#type, id: device.max(0) },
        context: context.cast(),
        device_pointer: device_pointer as *mut c_void,
        host_pointer: if host_accessible { host_pointer } else { ptr::null_mut() },
        base: base as *mut c_void,
        size: size as u64,
        buffer_id,
        pool,
        host_accessible,
        managed: managed != 0,
        mapped: mapped != 0,
        reserved: [0; 61],
    })
}

/// Returns the number of the allocation that contains a device address, which no other allocation of
/// the process ever has. 0 if the driver does not know the memory.
pub fn buffer_id(driver: &Driver, address: *const c_void) -> Result<u64> {
    let mut id = 0_u64;
    let queries = [query(Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID, &mut id)];
    query_all(driver, address as u64, queries)?;
    Ok(id)
}

/// Returns the allocation that contains a device address, if the driver can tell. Needs a context
/// that can access it. [cuMemGetAddressRange]
fn allocation(
    thread: &CallingThread,
    address: u64,
    context: CUcontext,
    device: i32,
) -> Result<Option<(u64, usize)>> {
    let ask = || {
        let (mut base, mut size) = (0, 0);
        let call = thread.address_range(&raw mut base, &raw mut size, address);
        match call.code {
            // The call does not support this kind of memory.
            INVALID_VALUE | NOT_FOUND | NOT_SUPPORTED => Ok(None),
            _ => call.ok().map(|()| Some((base, size))),
        }
    };
    if !context.is_null() {
        let _entered = thread.enter(context)?;
        return ask();
    }
    if !thread.current()?.is_null() {
        return ask();
    }
    let primary = thread.primary(device)?;
    let result = thread.enter(primary).and_then(|_entered| ask());
    thread.release_primary(device);
    result
}

/// Returns true if the bytes from `low` up to `high` are in one allocation. Memory of the virtual
/// memory functions may be mapped piece by piece: adjacent pieces count as one.
pub fn is_inside(
    thread: &CallingThread,
    info: &cai_pointer_info,
    low: u64,
    high: u64,
) -> Result<bool> {
    let in_pieces = |info: &cai_pointer_info| {
        info.device.r#type == abi::CAI_DEVICE_CUDA
            && info.context.is_null()
            && info.pool.is_null()
            && info.size > 0
    };
    let ends =
        |info: &cai_pointer_info| (info.base as u64, (info.base as u64).saturating_add(info.size));
    let (mut start, mut end) = ends(info);
    if start <= low && high <= end {
        return Ok(true);
    }
    if !in_pieces(info) {
        return Ok(false);
    }
    while end < high {
        let next = attributes(thread, end as *const c_void)?;
        if !in_pieces(&next) || ends(&next).0 != end {
            return Ok(false);
        }
        end = ends(&next).1;
    }
    while low < start {
        let before = attributes(thread, (start - 1) as *const c_void)?;
        if !in_pieces(&before) || ends(&before).1 != start {
            return Ok(false);
        }
        start = ends(&before).0;
    }
    Ok(true)
}

/// Returns the address that kernels of the current context use for memory.
pub fn device_pointer(thread: &CallingThread, address: *const c_void) -> Result<*mut c_void> {
    thread.some_current().map_err(|failure| failure.at(format_args!("context")))?;
    let mut out: u64 = 0;
    let call = thread.pointer_attribute(
        ptr::from_mut(&mut out).cast(),
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER as i32,
        address as u64,
    );
    match call.code {
        INVALID_VALUE => {
            let known = attributes(thread, address)?.device.r#type != abi::CAI_DEVICE_CPU;
            if known {
                fail!(CAI_ERR_NOT_ACCESSIBLE, "pointer";
                    found "{address:p}, {call}";
                    expected "memory that the current context can access")
            } else {
                fail!(CAI_ERR_NOT_DEVICE_POINTER, "pointer";
                    found "{address:p}, which the CUDA driver does not know";
                    expected "memory of the device, or page-locked, registered or managed memory")
            }
            .map_err(|failure| failure.driver(call.code))
        }
        _ => {
            call.ok()?;
            Ok(out as *mut c_void)
        }
    }
}
