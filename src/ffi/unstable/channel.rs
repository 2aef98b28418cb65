//! Channels between processes, for C.

use std::ffi::c_void;

use super::super::guard::guard;
use crate::abi::{self, CAI_UNSTABLE_IPC_SIZE, cai_array, cai_error, cai_status};
use crate::argument::{Buffer, In, List, Out, arguments};
use crate::error::fail;
#[cfg(target_os = "linux")]
use crate::ipc::channel;

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_channel_create(
    slots: u32,
    flags: u32,
    out_channel: *mut u64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out_channel: Out, error: Out);
    guard(error, || {
        let out_channel = out_channel.given("out_channel")?;
        let known = abi::CAI_UNSTABLE_CHANNEL_NUMBERS;
        if flags & !known != 0 {
            return fail!(CAI_ERR_NEWER_CALLER, "flags"; found "{flags:#x}"; expected "{known:#x}");
        }
        out_channel.write(channel::create(slots, flags & known != 0)?);
        Ok(())
    })
}

/// Withdraws all exports of a channel and closes it. Arrays that were imported through it stay
/// valid until they are released. Exports that an importer still has are kept until the process
/// ends: call `cai_unstable_channel_poll` before until none are left.
///
/// `channel`: from `cai_unstable_channel_create`.
///
/// Returns `CAI_OK`, `CAI_ERR_ARGUMENT` for another number, also in a second call, or
/// `CAI_ERR_FORKED` in the child of a process that made the channel.
/// Thread safety: any thread. Runs the destructors of released arrays.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_channel_release(
    channel: u64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(error: Out);
    guard(error, || channel::release(channel))
}

/// Returns a descriptor that is readable while `cai_unstable_channel_poll` has something to do, for
/// poll(2) or epoll(7). It belongs to the channel: do not read or close it.
///
/// `channel`: from `cai_unstable_channel_create`.
/// `out_fd`: the descriptor. Written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or a status of `cai_unstable_channel_release`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_channel_fd(
    channel: u64,
    out_fd: *mut i32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out_fd: Out, error: Out);
    guard(error, || {
        let out_fd = out_fd.given("out_fd")?;
        out_fd.write(channel::find(channel)?.descriptor());
        Ok(())
    })
}

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_channel_export(
    channel: u64,
    key: u64,
    array: *const cai_array,
    buffer: *mut c_void,
    size: usize,
    out_size: *mut usize,
    out_export: *mut u64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, buffer: Buffer(buffer.cast::<u8>(), size), out_size: Out);
    arguments!(out_export: Out, error: Out);
    let mut buffer = buffer;
    guard(error, || {
        let given = array.given("array")?;
        given.array()?;
        buffer.given(1, "buffer")?;
        let out_export = out_export.given("out_export")?;
        let channel = channel::find(channel)?;
        let array = given.valid(abi::CAI_CHECK_LAYOUT)?;
        let (export, length) = channel.export(key, array, &mut buffer)?;
        out_export.write(export);
        out_size.put(length);
        Ok(())
    })
}

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_channel_withdraw(
    channel: u64,
    export: u64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(error: Out);
    guard(error, || channel::find(channel)?.withdraw(export))
}

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
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_channel_import(
    channel: u64,
    bytes: *const c_void,
    size: usize,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    let known = size.min(CAI_UNSTABLE_IPC_SIZE);
    arguments!(bytes: List(bytes.cast::<u8>(), known), out: Out, error: Out);
    guard(error, || {
        bytes.not_null("bytes")?;
        let out = out.array("out")?;
        let channel = channel::find(channel)?;
        let import = |bytes: &[u8]| channel.import(bytes);
        out.give(super::ipc::with_copy(bytes.given("bytes")?, size, import)?);
        Ok(())
    })
}

/// Accepts connections, sends file descriptors, notices processes that ended, gives back and releases
/// what is no longer used. Never waits for work of an array.
///
/// `channel`: from `cai_unstable_channel_create`.
/// `out_exports`: number of exports whose array was not released yet. May be NULL.
///
/// Returns `CAI_OK`, `CAI_ERR_IPC_FULL` for a 65th importer, `CAI_ERR_IPC_SYSTEM`,
/// `CAI_ERR_NO_MEMORY`, or a status of `cai_unstable_channel_release`.
/// Thread safety: any thread. Runs the destructors of released arrays.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_channel_poll(
    channel: u64,
    out_exports: *mut u64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out_exports: Out, error: Out);
    guard(error, || {
        let left = channel::find(channel)?.poll()?;
        out_exports.put(left);
        Ok(())
    })
}

/// The same functions where there are no channels.
#[cfg(not(target_os = "linux"))]
mod channel {
    use std::convert::Infallible;

    use super::*;
    use crate::error::Result;
    use crate::owner::Array;
    use crate::validate::Valid;

    pub struct Channel(Infallible);

    pub fn create(_: u32, _: bool) -> Result<u64> {
        fail!(CAI_ERR_IPC_SYSTEM, "channel";
            found "another operating system"; expected "Linux: use cai_unstable_ipc_export")
    }

    pub fn find(number: u64) -> Result<Channel> {
        fail!(CAI_ERR_ARGUMENT, "channel"; found "{number}"; expected "Linux, where channels exist")
    }

    pub fn release(number: u64) -> Result<()> {
        find(number).map(drop)
    }

    impl Channel {
        pub fn descriptor(&self) -> i32 {
            match self.0 {}
        }

        pub fn export(&self, _: u64, _: Valid, _: &mut Buffer<u8>) -> Result<(u64, usize)> {
            match self.0 {}
        }

        pub fn withdraw(&self, _: u64) -> Result<()> {
            match self.0 {}
        }

        pub fn import(&self, _: &[u8]) -> Result<Array> {
            match self.0 {}
        }

        pub fn poll(&self) -> Result<u64> {
            match self.0 {}
        }
    }
}
