//! The functions of the CUDA driver and the HIP runtime that this library uses, each optional.
//!
//! The exported name specifies the version of a function: `cuCtxPushCurrent_v2`, and the names
//! without `_ptsz` and `_spt`, for which stream 0 would be the legacy default stream. So no version
//! has to be negotiated.
//!
//! The functions of both libraries that stand in one row have the same parameters, and their codes
//! and flags the same values, as the test `hip` compares with HIP's headers.
//!
//! Results are plain integers: a driver may return codes that no header knows yet, and an enum with
//! such a value would be undefined behaviour.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdeviceptr, CUevent, CUgraph, CUgraphNode, CUhostFn,
    CUipcEventHandle, CUipcMemHandle, CUmemoryPool, CUstream, CUuserObject,
};

use crate::abi;
use crate::library::{Address, Library};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Api {
    /// The CUDA driver.
    Cuda,
    /// The HIP runtime of ROCm.
    Hip,
}

impl Api {
    pub const COUNT: usize = 2;

    /// Returns the one whose streams work on data of this device type is enqueued on.
    pub fn of(device_type: i32) -> Api {
        match device_type {
            abi::CAI_DEVICE_ROCM | abi::CAI_DEVICE_ROCM_HOST => Api::Hip,
            _ => Api::Cuda,
        }
    }

    /// The names of its functions, in the order of [`Function`]: empty for those that it lacks.
    fn names(self) -> impl Iterator<Item = &'static CStr> {
        let names = if self == Api::Cuda { CUDA } else { HIP };
        let ends = |byte: &u8| *byte == 0;
        let one = |bytes| CStr::from_bytes_with_nul(bytes).unwrap_or_default();
        names.as_bytes().split_inclusive(ends).map(one)
    }
}

/// A call of the driver that has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Call {
    /// Its `CUresult` or `hipError_t`, or [`MISSING`].
    pub code: i32,
    function: Function,
    pub api: Api,
}

/// The code of a call whose function this driver lacks; no driver returns it.
pub(crate) const MISSING: i32 = i32::MIN;

impl Call {
    pub fn is_of(self, function: Function) -> bool {
        self.function == function
    }

    pub fn name(self) -> &'static str {
        let name = self.api.names().nth(self.function as usize);
        name.and_then(|name| name.to_str().ok()).unwrap_or_default()
    }
}

/// Not in cudarc's types for versions before 12.4, which programs in Rust may choose.
type CUgreenCtx = *mut c_void;

macro_rules! table {
    ($($field:ident = $cuda:literal $(, $hip:literal)? ($($argument:ident: $type:ty),*);)*) => {
        /// The functions. One that only CUDA has is named by its own name alone.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        #[allow(non_camel_case_types)]
        pub enum Function {
            $(#[doc = concat!($cuda, " ", $($hip)?)] $field,)*
        }

        const COUNT: usize = [$($cuda),*].len();
        const CUDA: &str = concat!($($cuda, "\0"),*);
        const HIP: &str = concat!($($($hip,)? "\0"),*);

        impl Table {
            $(
                #[doc = concat!($cuda, " ", $($hip)?)]
                #[inline]
                pub fn $field(&self, $($argument: $type),*) -> Call {
                    type Typed = unsafe extern "system-unwind" fn($($type),*) -> i32;
                    let code = match self.functions[Function::$field as usize] {
                        Some(address) => {
                            // SAFETY: the address was found by the name in this row, whose type in
                            // cuda.h and in hip_runtime_api.h this is.
                            let function = unsafe { transmute::<Address, Typed>(address) };
                            // SAFETY: the driver made the handles (the C API requires that of its
                            // callers); all other pointers refer to locals of the caller.
                            unsafe { function($($argument),*) }
                        }
                        None => MISSING,
                    };
                    self.result(Function::$field, code)
                }
            )*
        }
    };
}

pub struct Table {
    functions: [Option<Address>; COUNT],
    api: Api,
}

impl Table {
    pub fn find(api: Api, library: &Library) -> Table {
        let mut functions = [None; COUNT];
        for (function, name) in functions.iter_mut().zip(api.names()) {
            if !name.is_empty() {
                *function = library.function(name);
            }
        }
        Table { functions, api }
    }

    pub fn api(&self) -> Api {
        self.api
    }

    pub fn is_hip(&self) -> bool {
        self.api == Api::Hip
    }

    /// Returns where the first function is in memory.
    #[cfg(unix)]
    pub fn address(&self) -> Option<*const c_void> {
        self.functions[Function::init as usize].map(|function| function as *const c_void)
    }

    /// Returns the first of these functions that the driver lacks, as a call.
    pub fn lacks(&self, functions: &[Function]) -> Option<Call> {
        let lacks = |function: &&Function| self.functions[**function as usize].is_none();
        functions.iter().find(lacks).map(|&function| self.result(function, MISSING))
    }

    fn result(&self, function: Function, code: i32) -> Call {
        Call { code, function, api: self.api }
    }
}

table! {
    init = "cuInit", "hipInit"(flags: u32);
    driver_version = "cuDriverGetVersion", "hipDriverGetVersion"(out: *mut i32);
    error_name = "cuGetErrorName", "hipDrvGetErrorName"(code: i32, out: *mut *const c_char);
    error_text = "cuGetErrorString", "hipDrvGetErrorString"(code: i32, out: *mut *const c_char);
    device_count = "cuDeviceGetCount", "hipGetDeviceCount"(out: *mut i32);
    primary_retain = "cuDevicePrimaryCtxRetain"(out: *mut CUcontext, device: CUdevice);
    primary_release = "cuDevicePrimaryCtxRelease_v2"(device: CUdevice);
    context_current = "cuCtxGetCurrent"(out: *mut CUcontext);
    context_set = "cuCtxSetCurrent"(context: CUcontext);
    context_push = "cuCtxPushCurrent_v2"(context: CUcontext);
    context_pop = "cuCtxPopCurrent_v2"(out: *mut CUcontext);
    context_id = "cuCtxGetId"(context: CUcontext, out: *mut u64);
    context_device = "cuCtxGetDevice"(out: *mut CUdevice);
    context_synchronize = "cuCtxSynchronize", "hipDeviceSynchronize"();
    context_record = "cuCtxRecordEvent"(context: CUcontext, event: CUevent);
    context_wait = "cuCtxWaitEvent"(context: CUcontext, event: CUevent);
    context_of_green = "cuCtxFromGreenCtx"(out: *mut CUcontext, green: CUgreenCtx);
    device_current = "", "hipGetDevice"(out: *mut i32);
    device_set = "", "hipSetDevice"(device: i32);
    stream_create = "cuStreamCreate"(out: *mut CUstream, flags: u32);
    stream_destroy = "cuStreamDestroy_v2"(stream: CUstream);
    stream_context = "cuStreamGetCtx"(stream: CUstream, out: *mut CUcontext);
    stream_device = "", "hipStreamGetDevice"(stream: CUstream, out: *mut i32);
    stream_contexts = "cuStreamGetCtx_v2"(stream: CUstream, out: *mut CUcontext,
        green: *mut CUgreenCtx);
    stream_id = "cuStreamGetId"(stream: CUstream, out: *mut u64);
    stream_flags = "cuStreamGetFlags", "hipStreamGetFlags"(stream: CUstream, out: *mut u32);
    stream_wait = "cuStreamWaitEvent", "hipStreamWaitEvent"(stream: CUstream, event: CUevent,
        flags: u32);
    stream_write = "cuStreamWriteValue64_v2"(stream: CUstream, to: CUdeviceptr, number: u64,
        flags: u32);
    stream_wait_value = "cuStreamWaitValue64_v2"(stream: CUstream, at: CUdeviceptr, number: u64,
        flags: u32);
    stream_synchronize = "cuStreamSynchronize", "hipStreamSynchronize"(stream: CUstream);
    stream_is_capturing = "cuStreamIsCapturing", "hipStreamIsCapturing"(stream: CUstream,
        status: *mut i32);
    stream_capture_info = "cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2"(
        stream: CUstream, status: *mut i32, id: *mut u64,
        graph: *mut CUgraph, dependencies: *mut *const CUgraphNode, count: *mut usize);
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode",
        "hipThreadExchangeStreamCaptureMode"(mode: *mut i32);
    event_create = "cuEventCreate", "hipEventCreateWithFlags"(out: *mut CUevent, flags: u32);
    event_destroy = "cuEventDestroy_v2", "hipEventDestroy"(event: CUevent);
    event_record = "cuEventRecord", "hipEventRecord"(event: CUevent, stream: CUstream);
    event_query = "cuEventQuery", "hipEventQuery"(event: CUevent);
    event_synchronize = "cuEventSynchronize", "hipEventSynchronize"(event: CUevent);
    user_object_create = "cuUserObjectCreate", "hipUserObjectCreate"(out: *mut CUuserObject,
        pointer: *mut c_void, destroy: CUhostFn, references: u32, flags: u32);
    user_object_release = "cuUserObjectRelease", "hipUserObjectRelease"(object: CUuserObject,
        count: u32);
    graph_retain_user_object = "cuGraphRetainUserObject", "hipGraphRetainUserObject"(
        graph: CUgraph, object: CUuserObject, count: u32, flags: u32);
    pointer_attributes = "cuPointerGetAttributes", "hipDrvPointerGetAttributes"(count: u32,
        attributes: *mut i32,
        data: *mut *mut c_void, pointer: CUdeviceptr);
    pointer_attribute = "cuPointerGetAttribute"(data: *mut c_void, attribute: i32,
        pointer: CUdeviceptr);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: CUdeviceptr, bytes: usize,
        stream: CUstream);
    copy_to_device = "cuMemcpyHtoDAsync_v2"(to: CUdeviceptr, from: *const c_void, bytes: usize,
        stream: CUstream);
    copy_rows = "cuMemcpy2DAsync_v2"(copy: *const CUDA_MEMCPY2D, stream: CUstream);
    address_range = "cuMemGetAddressRange_v2"(base: *mut CUdeviceptr, size: *mut usize,
        pointer: CUdeviceptr);
    memory_allocate = "cuMemAlloc_v2"(out: *mut CUdeviceptr, bytes: usize);
    memory_fill = "cuMemsetD8Async"(to: CUdeviceptr, byte: u8, bytes: usize, stream: CUstream);
    memory_free = "cuMemFree_v2"(pointer: CUdeviceptr);
    device_attribute = "cuDeviceGetAttribute"(out: *mut i32, attribute: i32, device: CUdevice);
    device_uuid = "cuDeviceGetUuid_v2"(out: *mut [u8; 16], device: CUdevice);
    ipc_memory_handle = "cuIpcGetMemHandle"(out: *mut CUipcMemHandle, pointer: CUdeviceptr);
    ipc_open_memory = "cuIpcOpenMemHandle_v2"(out: *mut CUdeviceptr, handle: CUipcMemHandle,
        flags: u32);
    ipc_close_memory = "cuIpcCloseMemHandle"(pointer: CUdeviceptr);
    ipc_event_handle = "cuIpcGetEventHandle"(out: *mut CUipcEventHandle, event: CUevent);
    ipc_open_event = "cuIpcOpenEventHandle"(out: *mut CUevent, handle: CUipcEventHandle);
    pool_export = "cuMemPoolExportToShareableHandle"(out: *mut c_void, pool: CUmemoryPool,
        kind: i32, flags: u64);
    pool_import = "cuMemPoolImportFromShareableHandle"(out: *mut CUmemoryPool,
        handle: *mut c_void, kind: i32, flags: u64);
    pool_export_pointer = "cuMemPoolExportPointer"(out: *mut [u8; 64], pointer: CUdeviceptr);
    pool_import_pointer = "cuMemPoolImportPointer"(out: *mut CUdeviceptr, pool: CUmemoryPool,
        data: *mut [u8; 64]);
    pool_destroy = "cuMemPoolDestroy"(pool: CUmemoryPool);
    mapped_handle = "cuMemRetainAllocationHandle"(out: *mut u64, address: *mut c_void);
    handle_export = "cuMemExportToShareableHandle"(out: *mut c_void, handle: u64, kind: i32,
        flags: u64);
    handle_import = "cuMemImportFromShareableHandle"(out: *mut u64, handle: *mut c_void,
        kind: i32);
    handle_release = "cuMemRelease"(handle: u64);
    address_reserve = "cuMemAddressReserve"(out: *mut CUdeviceptr, bytes: usize,
        alignment: usize, wanted: CUdeviceptr, flags: u64);
    address_free = "cuMemAddressFree"(address: CUdeviceptr, bytes: usize);
    map = "cuMemMap"(address: CUdeviceptr, bytes: usize, offset: usize, handle: u64, flags: u64);
    unmap = "cuMemUnmap"(address: CUdeviceptr, bytes: usize);
    set_access = "cuMemSetAccess"(address: CUdeviceptr, bytes: usize, access: *const [i32; 3],
        count: usize);
}
