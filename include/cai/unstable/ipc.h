/*
 * cai/unstable/ipc.h: arrays between processes on one machine.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/cai.h>
 *     #include <cai/unstable/ipc.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         static const unsigned char bytes[] = "not an array";
 *         cai_array array = CAI_ARRAY_INIT;
 *         cai_error why;
 *         if (cai_unstable_ipc_import(bytes, sizeof bytes, -1, 0, &array, &why) == CAI_OK) return 1;
 *         return puts(why.message) < 0;
 *     }
 *
 * The exporter sends the bytes, with a file descriptor for some kinds of memory, and keeps the
 * owner until the importer is done. examples-c/09_two_processes.c has both sides.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_IPC_H
#define CAI_UNSTABLE_IPC_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/ipc.h: include the newest one first"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/// Bytes that suffice for every exported array.
#define CAI_UNSTABLE_IPC_SIZE 16384

/// Maximum length of the text of an array's fields, as `cai_descr_format` writes it.
#define CAI_UNSTABLE_IPC_FIELDS 4096

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
/// `CAI_ERR_OUT_OF_ALLOCATION`, `CAI_ERR_DRIVER_FUNCTION`, `CAI_ERR_NO_MEMORY`, a status of
/// `cai_array_validate`, of `cai_array_consume_begin` for the array's stream, or of
/// `cai_pointer_info_get`.
/// Thread safety: any thread. Allocates one block if there is an event. Source: CUDA driver API,
/// `cuIpcGetMemHandle`, `cuMemPoolExportPointer`, `cuMemExportToShareableHandle`,
/// `cuIpcGetEventHandle`.
CAI_API
cai_status cai_unstable_ipc_export(const cai_array *array,
                                   uint32_t flags,
                                   void *buffer,
                                   size_t size,
                                   size_t *out_size,
                                   int32_t *out_fd,
                                   cai_owner **out_owner,
                                   cai_error *error);

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
/// so synchronize the work before you tell the exporter that you are done. Without elements,
/// `device` is not known, and nothing is opened. Written on success only; release it with
/// `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` if a descriptor is needed,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_IPC_BYTES`, `CAI_ERR_IPC_VERSION`,
/// `CAI_ERR_IPC_DEVICE`, `CAI_ERR_OUT_OF_ALLOCATION` if the array does not fit in the memory,
/// `CAI_ERR_IPC_MEMORY` if the driver does not open a handle: the bytes were altered, the exporter
/// has ended, or it is this process itself, which CUDA refuses for plain allocations;
/// `CAI_ERR_DRIVER_FUNCTION`, `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`, of
/// `cai_descr_parse`, or of `cai_driver_info_get`.
/// Thread safety: any thread. Allocates two blocks, and more for fields. Source: CUDA driver API,
/// `cuIpcOpenMemHandle`, `cuMemPoolImportPointer`, `cuMemImportFromShareableHandle`,
/// `cuIpcOpenEventHandle`.
CAI_API
cai_status cai_unstable_ipc_import(const void *bytes,
                                   size_t size,
                                   int32_t fd,
                                   uint32_t flags,
                                   cai_array *out,
                                   cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_IPC_H */
