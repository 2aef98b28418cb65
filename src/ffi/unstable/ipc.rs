//! Arrays for other processes, for C.

use std::ffi::c_void;

use super::super::guard::guard;
use crate::abi::{self, CAI_UNSTABLE_IPC_SIZE, cai_array, cai_error, cai_owner, cai_status};
use crate::argument::{Buffer, In, List, Out, arguments};
use crate::error::{Result, fail};
use crate::ipc::{self, Source};
use crate::memory;

/// Describes an array of device memory in bytes, from which another process on this machine makes
/// an array over the same memory with `cai_unstable_ipc_import`. The caller sends the bytes by any means.
///
/// The bytes contain type, shape and strides of the array and of each of its masks, the fields, and
/// where the elements lie: the handle and the size of the allocation, the offset in it, and the
/// UUID of the device. They also contain an event that completes after the work that is now pending
/// on the array and its masks. The handle covers the whole allocation: the other process can read
/// and write all of it, including other arrays in it, even if this array is read-only.
///
/// | memory | `*out_fd` |
/// |---|---|
/// | `cuMemAlloc`, `cudaMalloc` | -1 |
/// | `cuMemAllocAsync` from a pool with file descriptors | the pool |
/// | `cuMemCreate` with a file descriptor, in one piece | the physical memory |
///
/// A file descriptor is valid in its own process only: send it with the bytes, over a Unix socket
/// with `SCM_RIGHTS`, and close it afterwards. Every call returns a new descriptor. The array and
/// its masks must share one descriptor.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`. Its stream,
/// and those of its masks, must not be capturing. For `CAI_STREAM_UNKNOWN` without an event, the
/// event in the bytes is recorded after all streams of the context, as with
/// `CAI_SYNC_CONSERVATIVE`.
/// `flags`: 0.
/// `buffer`, `size`: gets the bytes; `CAI_UNSTABLE_IPC_SIZE` bytes always suffice. NULL with a `size` of 0
/// asks for the number of bytes only: nothing is exported, and `out_fd` and `out_owner` are not
/// used.
/// `out_size`: number of bytes; may be NULL.
/// `out_fd`: the descriptor, or -1. May be NULL if there is none.
/// `out_owner`: keeps the memory and the event alive. Release it with `cai_owner_release` when the
/// other process has opened the array and released it, or has ended. CUDA does not define what
/// happens to memory that is freed here while another process has it open. All outputs are written
/// on success only.
///
/// The bytes prove nothing about their sender, do not keep this process alive, and do not report
/// when the other process is done. For that, let it send a message after it has synchronized its
/// work and released the array. If this process is killed before its pending work has run, the
/// event may never complete.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_CONVERT_MASK` for a mask that needs a second
/// descriptor, `CAI_ERR_CONVERT_TYPE` for fields with a `dtype_code`, or whose text has more than
/// `CAI_UNSTABLE_IPC_FIELDS` bytes, `CAI_ERR_CONVERT_DEVICE` for another device than CUDA's,
/// `CAI_ERR_IPC_MEMORY` for host, managed, imported and other memory that cannot be shared,
/// `CAI_ERR_IPC_SYSTEM` without a free descriptor, `CAI_ERR_OUT_OF_ALLOCATION`,
/// `CAI_ERR_DRIVER_FUNCTION`, `CAI_ERR_NO_MEMORY`, a status of
/// `cai_array_validate`, of `cai_array_consume_begin` for the array's stream, or of
/// `cai_pointer_info_get`.
/// Thread safety: any thread. Allocates two blocks if there is an event. Source: CUDA driver API,
/// `cuIpcGetMemHandle`, `cuMemPoolExportPointer`, `cuMemExportToShareableHandle`,
/// `cuIpcGetEventHandle`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_ipc_export(
    array: *const cai_array,
    flags: u32,
    buffer: *mut c_void,
    size: usize,
    out_size: *mut usize,
    out_fd: *mut i32,
    out_owner: *mut *mut cai_owner,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, buffer: Buffer(buffer.cast::<u8>(), size), out_size: Out);
    arguments!(out_fd: Out, out_owner: Out, error: Out);
    let mut buffer = buffer;
    guard(error, || {
        let given = array.given("array")?;
        given.array()?;
        no_flags(flags)?;
        buffer.given(size, "buffer")?;
        if buffer.is_given() {
            out_owner.given("out_owner")?;
        }
        let source = Source::new(given.valid(abi::CAI_CHECK_LAYOUT)?)?;
        let length = source.length;
        if buffer.is_given() {
            if size < length {
                return fail!(CAI_ERR_BUFFER_SIZE, "size";
                    found "{size}"; expected "at least {length}");
            }
            if source.needs_descriptor() {
                out_fd.given("out_fd")?;
            }
            let out_owner = out_owner.given("out_owner")?;
            let (owner, fd) = source.export(&mut buffer)?.into_parts();
            out_owner.write(owner.into_raw());
            out_fd.put(fd);
        }
        out_size.put(length);
        Ok(())
    })
}

/// Creates an array from the bytes that `cai_unstable_ipc_export` wrote in another process on this machine.
/// Malformed bytes fail with a status. The array and its masks are always within allocations that
/// the driver has mapped, but neither their contents nor the sender can be checked: accept bytes
/// only from processes of the same user.
///
/// The memory is opened in the calling thread's current context if that is one of the memory's
/// device, and else in the primary context. It is closed when the last reference to the array is
/// released: do that after the last work on the data has ended, for example with
/// `cai_owner_release_after`, and before the exporter releases its owner. If the exporter is
/// killed, calls that use the memory may fail; the array must still be released.
///
/// `bytes`, `size`: copied before they are read. They may be used more than once; each array opens
/// the memory again.
/// `fd`: the descriptor that came with them, or -1. It is not closed: close it after the call.
/// `flags`: 0.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Its
/// `stream` is `CAI_STREAM_UNKNOWN` with an `event` after the exporter's work, which
/// `cai_array_consume_begin` waits for, or `CAI_STREAM_NONE`; so is that of its masks, with the
/// same event. The exporter does not wait for this process: `cai_array_consume_end` has no effect,
/// so synchronize the work before you tell the exporter that you are done, or use a channel. Without elements,
/// `device` is not known, and nothing is opened. Written on success only; release it with
/// `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` if a descriptor is needed,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_IPC_BYTES`, `CAI_ERR_IPC_VERSION`,
/// `CAI_ERR_IPC_DEVICE`, `CAI_ERR_OUT_OF_ALLOCATION` if the array does not fit in the memory,
/// `CAI_ERR_IPC_MEMORY` if the driver does not open a handle: the bytes were altered, the exporter
/// has ended, or it is this process itself, which CUDA refuses for plain allocations;
/// `CAI_ERR_IPC_SYSTEM` without a free descriptor, `CAI_ERR_DRIVER_FUNCTION`,
/// `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`, of `cai_descr_parse`, or of `cai_driver_info_get`.
/// Thread safety: any thread. Allocates two blocks, and more for fields. Source: CUDA driver API,
/// `cuIpcOpenMemHandle`, `cuMemPoolImportPointer`, `cuMemImportFromShareableHandle`,
/// `cuIpcOpenEventHandle`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_ipc_import(
    bytes: *const c_void,
    size: usize,
    fd: i32,
    flags: u32,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    let known = size.min(CAI_UNSTABLE_IPC_SIZE);
    arguments!(bytes: List(bytes.cast::<u8>(), known), out: Out, error: Out);
    guard(error, || {
        bytes.not_null("bytes")?;
        let out = out.array("out")?;
        no_flags(flags)?;
        out.give(with_copy(bytes.given("bytes")?, size, |bytes| ipc::import(bytes, fd))?);
        Ok(())
    })
}

fn no_flags(flags: u32) -> Result<()> {
    if flags == 0 {
        return Ok(());
    }
    fail!(CAI_ERR_NEWER_CALLER, "flags"; found "{flags:#x}"; expected "0")
}

/// Calls `body` with a copy of bytes that the caller says are `size`, so that a process that shares
/// them cannot change what was checked.
pub(super) fn with_copy<T>(
    given: &[u8],
    size: usize,
    body: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    if size > CAI_UNSTABLE_IPC_SIZE {
        return fail!(CAI_ERR_IPC_BYTES, "size";
            found "{size}"; expected "at most {CAI_UNSTABLE_IPC_SIZE}");
    }
    // Most need no allocation.
    let mut near = [0; 512];
    if let Some(copy) = near.get_mut(..size) {
        copy.copy_from_slice(given);
        return body(copy);
    }
    body(&memory::copied(given)?)
}
