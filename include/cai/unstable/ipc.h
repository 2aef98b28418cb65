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
 * owner until the importer is done: examples-c/09_two_processes.c. For many arrays, or to notice
 * processes that end, use a channel: examples-c/11_channel.c.
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

/// Flag of `cai_unstable_channel_create`: streams of processes wait for numbers in device memory.
#define CAI_UNSTABLE_CHANNEL_NUMBERS 1

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
CAI_API
cai_status cai_unstable_ipc_import(const void *bytes,
                                   size_t size,
                                   int32_t fd,
                                   uint32_t flags,
                                   cai_array *out,
                                   cai_error *error);

/// Creates a channel: through it, a process exports any number of arrays to others and imports
/// theirs, with one handle for each allocation, one event for each stream, and one connection
/// between two processes, whatever the number of arrays. One channel for each process suffices.
///
/// Exporter: `cai_unstable_channel_export` writes a record for an array, which you carry to the
/// importer by any means. `cai_unstable_channel_withdraw` ends the export; the array is released once
/// no importer has it any more, and its stream then waits for the importers' work. Importer:
/// `cai_unstable_channel_import` makes an array of a record. Its `cai_array_consume_begin` waits for
/// the exporter's work, its `cai_array_consume_end` makes the exporter wait, and releasing it gives
/// it back. No host blocks. Both: call `cai_unstable_channel_poll` when `cai_unstable_channel_fd` is
/// readable, or regularly. The library starts no thread for it.
///
/// | event | effect |
/// |---|---|
/// | the importer is killed | its arrays are given back when `poll` notices the end of the process; its work is not waited for |
/// | the exporter is killed | after `poll`, `cai_array_consume_begin` and `cai_array_synchronize` of its arrays, and imports, return `CAI_ERR_IPC_PEER`; their data is undefined; releasing them works. While the process ends, an import may return `CAI_ERR_IPC_MEMORY`: `poll`, and import again |
/// | the exporter is restarted | its old records return `CAI_ERR_IPC_PEER` |
/// | one executes another program (`execve`) | as if it were killed |
/// | an export is repeated with its key | the record of the first export |
/// | a record of another machine or network namespace | `CAI_ERR_IPC_NODE` |
/// | a record of an export that was withdrawn, or a forged one | `CAI_ERR_IPC_SLOT` or `CAI_ERR_IPC_BYTES` |
/// | an import fails | the claim is given back |
///
/// If a process is killed while its pending work has not run, streams that wait for it may never
/// continue. Channels need CUDA's interprocess events: containers have to share the IPC namespace
/// and the network namespace. With `CAI_UNSTABLE_CHANNEL_NUMBERS`, streams write and wait for
/// numbers in device memory instead, and the IPC namespace need not be shared. CUDA does not see
/// this order. Streams that wait for a process that ended continue after `poll`, which writes the
/// number. An exporter's first export from a device allocates 9 kB there, and waits until they are
/// filled; once it has had an importer, they are kept until the process ends.
///
/// Only processes of one user connect; they trust each other with the memory of exported
/// allocations, but no record and no message of another process makes this one access memory outside
/// of them.
///
/// `slots`: exports at one time, up to 1048576; 0 means 131072.
/// `flags`: 0 or `CAI_UNSTABLE_CHANNEL_NUMBERS`, which importers find in the records.
/// `out_channel`: the channel's number, which no other channel of the process has. Written on success
/// only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_IPC_SYSTEM`, also on other systems than Linux, or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread, as all functions of channels. Uses three descriptors.
CAI_API
cai_status cai_unstable_channel_create(uint32_t slots,
                                       uint32_t flags,
                                       uint64_t *out_channel,
                                       cai_error *error);

/// Withdraws all exports of a channel and closes it. Arrays that were imported through it stay
/// valid until they are released. Exports that an importer still has are kept until the process
/// ends: call `cai_unstable_channel_poll` before until none are left.
///
/// `channel`: from `cai_unstable_channel_create`.
///
/// Returns `CAI_OK`, `CAI_ERR_ARGUMENT` for another number, also in a second call, or
/// `CAI_ERR_FORKED` in the child of a process that made the channel.
/// Thread safety: any thread. Runs the destructors of released arrays.
CAI_API cai_status cai_unstable_channel_release(uint64_t channel, cai_error *error);

/// Returns a descriptor that is readable while `cai_unstable_channel_poll` has something to do, for
/// poll(2) or epoll(7). It belongs to the channel: do not read or close it.
///
/// `channel`: from `cai_unstable_channel_create`.
/// `out_fd`: the descriptor. Written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or a status of `cai_unstable_channel_release`.
/// Thread safety: any thread; allocates nothing.
CAI_API cai_status cai_unstable_channel_fd(uint64_t channel, int32_t *out_fd, cai_error *error);

/// Exports an array: holds a reference to it and writes a record, from which any number of processes
/// on this machine make arrays with `cai_unstable_channel_import`, until
/// `cai_unstable_channel_withdraw`. The record contains what that of `cai_unstable_ipc_export` does.
///
/// `channel`: from `cai_unstable_channel_create`.
/// `key`: 0, or a number of yours. A second export with the same key and array writes the same record
/// again, for a task that is repeated; with another array, it fails.
/// `array`: as for `cai_unstable_ipc_export`. You carry no file descriptor: importers ask this process
/// for those that pools and memory of `cuMemCreate` need, and it sends them in
/// `cai_unstable_channel_poll`. It keeps one for each pool with exported arrays. A stream that the
/// array states waits for the importers' work before the array is released, and must exist until
/// then; without one, or with 2, the array is released after that work. Up to 64 streams have an
/// event of their own; more share theirs.
/// `buffer`, `size`: gets the record; `CAI_UNSTABLE_IPC_SIZE` bytes always suffice.
/// `out_size`: number of bytes; may be NULL.
/// `out_export`: the export, for `cai_unstable_channel_withdraw`. All outputs are written on success
/// only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_BUFFER_SIZE`,
/// `CAI_ERR_DRIVER_FUNCTION` if the device or the driver lacks numbers in memory,
/// `CAI_ERR_IPC_FULL` if all slots are in use, `CAI_ERR_IPC_SLOT` for the key of another array,
/// or a status of `cai_unstable_ipc_export`.
/// Thread safety: any thread. Source: CUDA driver API, `cuIpcGetMemHandle`, `cuIpcGetEventHandle`,
/// `cuMemPoolExportPointer`, `cuMemExportToShareableHandle`, `cuStreamWriteValue64`,
/// `cuStreamWaitValue64`.
CAI_API
cai_status cai_unstable_channel_export(uint64_t channel,
                                       uint64_t key,
                                       const cai_array *array,
                                       void *buffer,
                                       size_t size,
                                       size_t *out_size,
                                       uint64_t *out_export,
                                       cai_error *error);

/// Ends an export: its record makes no further arrays. The array is released once importers have
/// given back theirs and, if it was the last one of its allocation, have closed that:
/// `cai_unstable_channel_poll` finds out in both processes.
///
/// `channel`: from `cai_unstable_channel_create`.
/// `export`: from `cai_unstable_channel_export`.
///
/// Returns `CAI_OK`, `CAI_ERR_IPC_SLOT` if it is not an export of the channel, or was withdrawn
/// before, or a status of `cai_unstable_channel_release`.
/// Thread safety: any thread. May run the array's destructor.
CAI_API
cai_status cai_unstable_channel_withdraw(uint64_t channel,
                                         uint64_t export_,
                                         cai_error *error);

/// Creates an array from a record of another process on this machine. Connects to that process the
/// first time, without blocking; until it has accepted, which it does in
/// `cai_unstable_channel_poll`, this returns `CAI_ERR_IPC_PENDING`. So it does until the exporter has
/// sent a file descriptor: for the first memory of a pool, and for each allocation of `cuMemCreate`.
///
/// Memory that was opened stays open for later arrays, until the exporter's last array in it is
/// withdrawn. It is opened in the context that `cai_unstable_ipc_import` would choose then.
///
/// `channel`: from `cai_unstable_channel_create`.
/// `bytes`, `size`: the record. It may be imported more than once.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Its
/// `stream` belongs to the channel and already waits for the exporter's work: bracket your own work
/// with `cai_array_consume_begin` and `cai_array_consume_end`. Of a read-only array, readers do not
/// wait for each other, if there are events. Written on success only; release it with
/// `cai_array_release` on any thread, right after `cai_array_consume_end`: the work may still be running.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`,
/// `CAI_ERR_IPC_PENDING`, `CAI_ERR_IPC_PEER`, `CAI_ERR_IPC_NODE`, `CAI_ERR_IPC_SLOT`,
/// `CAI_ERR_IPC_FULL` for memory of too many devices, `CAI_ERR_IPC_SYSTEM`, or a status of
/// `cai_unstable_ipc_import` or of `cai_unstable_channel_release`.
/// Thread safety: any thread. Source: CUDA driver API, `cuIpcOpenMemHandle`, `cuIpcOpenEventHandle`,
/// `cuMemPoolImportPointer`, `cuMemImportFromShareableHandle`.
CAI_API
cai_status cai_unstable_channel_import(uint64_t channel,
                                       const void *bytes,
                                       size_t size,
                                       cai_array *out,
                                       cai_error *error);

/// Accepts connections, sends file descriptors, notices processes that ended, gives back and releases
/// what is no longer used. Never waits for work of an array.
///
/// `channel`: from `cai_unstable_channel_create`.
/// `out_exports`: number of exports whose array was not released yet. May be NULL.
///
/// Returns `CAI_OK`, `CAI_ERR_IPC_FULL` for a 65th importer, `CAI_ERR_IPC_SYSTEM`,
/// `CAI_ERR_NO_MEMORY`, or a status of `cai_unstable_channel_release`.
/// Thread safety: any thread. Runs the destructors of released arrays.
CAI_API
cai_status cai_unstable_channel_poll(uint64_t channel,
                                     uint64_t *out_exports,
                                     cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_IPC_H */
