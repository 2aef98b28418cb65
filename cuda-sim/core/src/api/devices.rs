//! Devices and their primary contexts.

use crate::api::macros::api;
use crate::ffi::{get, put, put_if, put_text};
use crate::resources;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{DEVICE, Locked, PINNED, PoolLocation, Sim, end_context, new_context};
use std::ffi::c_char;

pub type Device = i32;

pub fn check(sim: &Sim, device: Device) -> Result<usize> {
    usize::try_from(device).ok().filter(|d| *d < sim.devices.len()).ok_or(Code::INVALID_DEVICE)
}

/// Returns an attribute by its number in `CUdevice_attribute`. Others than those listed are 0.
fn attribute(sim: &Sim, device: Device, which: i32) -> i32 {
    match which {
        1 => 1024,                            // MAX_THREADS_PER_BLOCK
        2 | 3 => 1024,                        // MAX_BLOCK_DIM_X, Y
        4 => 64,                              // MAX_BLOCK_DIM_Z
        5 => i32::MAX,                        // MAX_GRID_DIM_X
        6 | 7 => 65535,                       // MAX_GRID_DIM_Y, Z
        8 => 48 << 10,                        // MAX_SHARED_MEMORY_PER_BLOCK
        9 => 64 << 10,                        // TOTAL_CONSTANT_MEMORY
        10 => 32,                             // WARP_SIZE
        11 => i32::MAX,                       // MAX_PITCH
        12 => 65536,                          // MAX_REGISTERS_PER_BLOCK
        13 => 1_980_000,                      // CLOCK_RATE
        14 => 512,                            // TEXTURE_ALIGNMENT
        15 => 1,                              // GPU_OVERLAP
        16 => resources::SM_COUNT as i32,     // MULTIPROCESSOR_COUNT
        19 => 1,                              // CAN_MAP_HOST_MEMORY
        31 => 1,                              // CONCURRENT_KERNELS
        33 => device + 1,                     // PCI_BUS_ID
        36 => 2_619_000,                      // MEMORY_CLOCK_RATE
        37 => 5120,                           // GLOBAL_MEMORY_BUS_WIDTH
        38 => 4 << 20,                        // L2_CACHE_SIZE
        39 => 2048,                           // MAX_THREADS_PER_MULTIPROCESSOR
        40 => 3,                              // ASYNC_ENGINE_COUNT
        41 => 1,                              // UNIFIED_ADDRESSING
        51 => 512,                            // TEXTURE_PITCH_ALIGNMENT
        75 => 9,                              // COMPUTE_CAPABILITY_MAJOR
        76 => 0,                              // COMPUTE_CAPABILITY_MINOR
        78 => 1,                              // STREAM_PRIORITIES_SUPPORTED
        79 | 80 => 1,                         // GLOBAL_L1_CACHE_SUPPORTED, LOCAL
        81 => 228 << 10,                      // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        82 => 65536,                          // MAX_REGISTERS_PER_MULTIPROCESSOR
        83 => 1,                              // MANAGED_MEMORY
        85 => device,                         // MULTI_GPU_BOARD_GROUP_ID
        88 => 0,                              // PAGEABLE_MEMORY_ACCESS: no HMM
        89 => 1,                              // CONCURRENT_MANAGED_ACCESS
        90 => 1,                              // COMPUTE_PREEMPTION_SUPPORTED
        91 => i32::from(!sim.config.shifted), // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        92..=94 => 1, // CAN_USE_STREAM_MEM_OPS (v1), 64_BIT_STREAM_MEM_OPS, WAIT_VALUE_NOR
        95 => 0,      // COOPERATIVE_LAUNCH
        97 => 227 << 10, // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        99 => 1,      // HOST_REGISTER_SUPPORTED
        102 => 1,     // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        103 => 1,     // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        106 => 32,    // MAX_BLOCKS_PER_MULTIPROCESSOR
        111 => 1024,  // RESERVED_SHARED_MEMORY_PER_BLOCK
        115 => 1,     // MEMORY_POOLS_SUPPORTED
        119 => 1,     // MEMPOOL_SUPPORTED_HANDLE_TYPES: file descriptors
        121 => 0,     // DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED
        122 | 123 => 1, // CAN_USE_64_BIT_STREAM_MEM_OPS, CAN_USE_STREAM_WAIT_VALUE_NOR
        125 => 1,     // IPC_EVENT_SUPPORTED
        _ => 0,
    }
}

const NAME: &str = "cuda-sim";

fn pci_id(device: Device) -> String {
    format!("0000:{:02X}:00.0", device + 1)
}

fn uuid(device: Device) -> [u8; 16] {
    let mut uuid = *b"cuda-sim device\0";
    uuid[15] = device as u8;
    uuid
}

/// Retains the primary context of a device, and creates it if there is none.
pub fn retain_primary(sim: &mut Locked, device: Device) -> Result<u64> {
    let at = check(sim, device)?;
    if sim.devices[at].primary == 0 {
        let flags = sim.devices[at].primary_flags;
        sim.devices[at].primary = new_context(sim, device, flags, true, 3020, None);
    }
    sim.devices[at].primary_refs += 1;
    Ok(sim.devices[at].primary)
}

fn reset_primary(sim: &mut Locked, device: Device) -> Result {
    let at = check(sim, device)?;
    let context = std::mem::take(&mut sim.devices[at].primary);
    sim.devices[at].primary_refs = 0;
    if context != 0 {
        end_context(sim, context);
    }
    Ok(())
}

pub fn release_primary(sim: &mut Locked, device: Device) -> Result {
    let at = check(sim, device)?;
    refuse_if(sim.devices[at].primary_refs == 0, Code::INVALID_CONTEXT)?;
    sim.devices[at].primary_refs -= 1;
    if sim.devices[at].primary_refs == 0 { reset_primary(sim, device) } else { Ok(()) }
}

api! {
    fn cuDeviceGet(device: *mut Device, ordinal: i32) |sim| {
        check(sim, ordinal)?;
        put(device, ordinal)
    }
    fn cuDeviceGetCount(count: *mut i32) |sim| { put(count, sim.devices.len() as i32) }
    fn cuDeviceGetName(name: *mut c_char, length: i32, device: Device) |sim| {
        check(sim, device)?;
        put_text(name, length, NAME)
    }
    fn cuDeviceGetUuid, cuDeviceGetUuid_v2(to: *mut [u8; 16], device: Device) |sim| {
        check(sim, device)?;
        put(to, uuid(device))
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: Device) |sim| {
        check(sim, device)?;
        put(bytes, sim.config.memory as usize)
    }
    fn cuDeviceGetAttribute(value: *mut i32, which: i32, device: Device) |sim| {
        check(sim, device)?;
        refuse_if(!(1..=200).contains(&which), Code::INVALID_VALUE)?;
        put(value, attribute(sim, device, which))
    }
    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: Device) |sim| {
        check(sim, device)?;
        put(major, attribute(sim, device, 75))?;
        put(minor, attribute(sim, device, 76))
    }
    fn cuDeviceGetPCIBusId(text: *mut c_char, length: i32, device: Device) |sim| {
        check(sim, device)?;
        put_text(text, length, &pci_id(device))
    }
    fn cuDeviceGetByPCIBusId(device: *mut Device, text: *const c_char) |sim| {
        refuse_if(text.is_null(), Code::INVALID_VALUE)?;
        // SAFETY: the pointer was checked for NULL, and callers of the driver pass NUL-terminated
        // text for this argument of cuda.h.
        let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().to_uppercase();
        let found =
            (0..sim.devices.len() as i32).find(|d| pci_id(*d).ends_with(&text) && !text.is_empty());
        put(device, found.ok_or(Code::INVALID_DEVICE)?)
    }
    fn cuDeviceCanAccessPeer(can: *mut i32, device: Device, peer: Device) |sim| {
        check(sim, device)?;
        check(sim, peer)?;
        put(can, i32::from(device != peer && sim.config.peers))
    }
    fn cuDeviceGetP2PAttribute(value: *mut i32, which: i32, device: Device, peer: Device) |sim| {
        check(sim, device)?;
        check(sim, peer)?;
        refuse_if(device == peer, Code::INVALID_DEVICE)?;
        refuse_if(!(1..=4).contains(&which), Code::INVALID_VALUE)?;
        // 2: access is supported; the others are ranks and special abilities.
        put(value, i32::from(which == 2 && sim.config.peers))
    }
    fn cuDeviceGetDefaultMemPool(pool: *mut u64, device: Device) |sim| {
        let at = check(sim, device)?;
        put(pool, sim.devices[at].default_pool)
    }
    fn cuDeviceGetMemPool(pool: *mut u64, device: Device) |sim| {
        let at = check(sim, device)?;
        put(pool, sim.devices[at].current_pool)
    }
    fn cuDeviceSetMemPool(device: Device, pool: u64) |sim| {
        let at = check(sim, device)?;
        let place = PoolLocation { kind: PINNED, location: DEVICE, id: device };
        refuse_if(!sim.pools.get(pool).is_some_and(|pool| pool.place == place && !pool.imported), Code::INVALID_VALUE)?;
        sim.devices[at].current_pool = pool;
        Ok(())
    }
    fn cuDevicePrimaryCtxRetain(context: *mut u64, device: Device) |sim| {
        refuse_if(context.is_null(), Code::INVALID_VALUE)?;
        put(context, retain_primary(sim, device)?)
    }
    fn cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2(device: Device) |sim| { release_primary(sim, device) }
    fn cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2(device: Device) |sim| { reset_primary(sim, device) }
    fn cuDevicePrimaryCtxGetState(device: Device, flags: *mut u32, active: *mut i32) |sim| {
        let at = check(sim, device)?;
        put_if(flags, sim.devices[at].primary_flags);
        put(active, i32::from(sim.devices[at].primary != 0))
    }
    fn cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2(device: Device, flags: u32) |sim| {
        let at = check(sim, device)?;
        refuse_if(flags & !0xff != 0 || matches!(flags & 7, 3 | 5..), Code::INVALID_VALUE)?;
        sim.devices[at].primary_flags = flags;
        let context = sim.devices[at].primary;
        if let Some(context) = sim.contexts.get_mut(context) {
            context.flags = flags;
        }
        Ok(())
    }
    fn cuDeviceGetProperties(properties: *mut [i32; 11], device: Device) |sim| {
        check(sim, device)?;
        // maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], then one each.
        let of = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(|which| attribute(sim, device, which));
        put(properties, of)
    }
    fn cuDeviceGetLuid(luid: *mut [u8; 8], mask: *mut u32, device: Device) |sim| {
        check(sim, device)?;
        let _ = (get(luid), get(mask));
        // Only on Windows. [cuDeviceGetLuid]
        Err(Code::NOT_SUPPORTED)
    }
}
