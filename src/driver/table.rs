//! The functions of the driver that this library uses, each of them optional.
//!
//! May use: `driver::result`, `error`, `library`.
//! Unsafe: calls the driver's functions.
//!
//! The exported name specifies the version of a function: `cuCtxPushCurrent_v2`, and the names
//! without `_ptsz`, for which stream 0 would be the legacy default stream (0 is never passed). So
//! no version has to be negotiated.
//!
//! Results are plain integers: a driver may return codes that no header knows yet, and an enum with
//! such a value would be undefined behaviour.

use std::ffi::c_void;

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdeviceptr, CUevent, CUgraph, CUgraphNode, CUgreenCtx,
    CUhostFn, CUipcEventHandle, CUipcMemHandle, CUmemoryPool, CUstream, CUuserObject,
};

use crate::driver::result::{Call, MISSING};
use crate::error::Result;
use crate::library::{self, Library};

macro_rules! table {
    ($($field:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        /// The functions that the driver has.
        pub struct Table {
            $($field: Option<unsafe extern "system-unwind" fn($($type),*) -> i32>,)*
        }

        impl Table {
            /// Fails with the name of the first of these functions that the driver lacks.
            pub fn require(&self, names: &[&str]) -> Result<()> {
                $(
                    if self.$field.is_none() && names.contains(&$symbol) {
                        return Call { name: $symbol, code: MISSING }.ok();
                    }
                )*
                Ok(())
            }

            /// Looks up every function.
            pub fn find(library: &Library) -> Table {
                Table {
                    // SAFETY: the types are those of cuda.h for exactly these names.
                    $($field: unsafe { library.get(library::name(concat!($symbol, "\0"))) },)*
                }
            }

            $(
                #[doc = $symbol]
                #[inline]
                pub fn $field(&self, $($argument: $type),*) -> Call {
                    let code = match self.$field {
                        // SAFETY: the driver made the handles (the C API requires that of its
                        // callers); all other pointers refer to locals of the caller.
                        Some(function) => unsafe { function($($argument),*) },
                        None => MISSING,
                    };
                    Call { name: $symbol, code }
                }
            )*
        }
    };
}

table! {
    init = "cuInit"(flags: u32);
    driver_version = "cuDriverGetVersion"(out: *mut i32);
    device_count = "cuDeviceGetCount"(out: *mut i32);
    primary_retain = "cuDevicePrimaryCtxRetain"(out: *mut CUcontext, device: CUdevice);
    primary_release = "cuDevicePrimaryCtxRelease_v2"(device: CUdevice);
    context_current = "cuCtxGetCurrent"(out: *mut CUcontext);
    context_set = "cuCtxSetCurrent"(context: CUcontext);
    context_push = "cuCtxPushCurrent_v2"(context: CUcontext);
    context_pop = "cuCtxPopCurrent_v2"(out: *mut CUcontext);
    context_id = "cuCtxGetId"(context: CUcontext, out: *mut u64);
    context_device = "cuCtxGetDevice"(out: *mut CUdevice);
    context_synchronize = "cuCtxSynchronize"();
    context_record = "cuCtxRecordEvent"(context: CUcontext, event: CUevent);
    context_wait = "cuCtxWaitEvent"(context: CUcontext, event: CUevent);
    context_of_green = "cuCtxFromGreenCtx"(out: *mut CUcontext, green: CUgreenCtx);
    stream_create = "cuStreamCreate"(out: *mut CUstream, flags: u32);
    stream_destroy = "cuStreamDestroy_v2"(stream: CUstream);
    stream_context = "cuStreamGetCtx"(stream: CUstream, out: *mut CUcontext);
    stream_contexts = "cuStreamGetCtx_v2"(stream: CUstream, out: *mut CUcontext,
        green: *mut CUgreenCtx);
    stream_id = "cuStreamGetId"(stream: CUstream, out: *mut u64);
    stream_wait = "cuStreamWaitEvent"(stream: CUstream, event: CUevent, flags: u32);
    stream_synchronize = "cuStreamSynchronize"(stream: CUstream);
    stream_is_capturing = "cuStreamIsCapturing"(stream: CUstream, status: *mut i32);
    stream_capture_info = "cuStreamGetCaptureInfo_v2"(stream: CUstream, status: *mut i32,
        id: *mut u64,
        graph: *mut CUgraph, dependencies: *mut *const CUgraphNode, count: *mut usize);
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut i32);
    event_create = "cuEventCreate"(out: *mut CUevent, flags: u32);
    event_destroy = "cuEventDestroy_v2"(event: CUevent);
    event_record = "cuEventRecord"(event: CUevent, stream: CUstream);
    event_query = "cuEventQuery"(event: CUevent);
    event_synchronize = "cuEventSynchronize"(event: CUevent);
    user_object_create = "cuUserObjectCreate"(out: *mut CUuserObject, pointer: *mut c_void,
        destroy: CUhostFn,
        references: u32, flags: u32);
    user_object_release = "cuUserObjectRelease"(object: CUuserObject, count: u32);
    graph_retain_user_object = "cuGraphRetainUserObject"(graph: CUgraph, object: CUuserObject,
        count: u32, flags: u32);
    pointer_attributes = "cuPointerGetAttributes"(count: u32, attributes: *mut i32,
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
    memory_free = "cuMemFree_v2"(pointer: CUdeviceptr);
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
