//! Pipes, sockets, event counters and signal descriptors: writes come before their reads.
//!
//! A pipe is its inode; a pair of sockets the inodes of both, which `socketpair` notes; a
//! connection of the internet its two addresses; an event counter its descriptor, because all
//! of them have one inode. The directions of sockets are channels of their own. Neither files
//! nor sockets that are bound to a path order anything here. Without a checker nothing is
//! looked up; nothing is allocated.

use crate::checker::{Kind, after_key, before_key, is_attached, keeping_errno, key, mixed};
use crate::next::real;
use crate::signals::signal_key;
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use libc::{signalfd_siginfo, timespec};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Notes of pairs: the inodes of a socket and of its peer, 32 bits each. Of two whose notes
/// would be in one place the older one is forgotten.
static PAIRS: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// Count of event counters that had a number before, modulo 256.
static EVENTS: [AtomicU8; 1024] = [const { AtomicU8::new(0) }; 1024];

/// Returns a key of numbers that come one after another. There are so many that the checker's
/// memory is bounded, and those of objects that exist at the same time differ.
fn channel_key(kind: Kind, number: u64, place: u64) -> usize {
    key(kind, number.wrapping_add(mixed(place)) & 0xffff)
}

fn event_key(file: c_int) -> usize {
    let earlier = EVENTS[file as usize % EVENTS.len()].load(Ordering::Relaxed);
    key(Kind::Event, (file as u64) << 8 | u64::from(earlier))
}

fn note_pair(own: u64, peer: u64) {
    PAIRS[own as usize % PAIRS.len()].store(own << 32 | peer & 0xffff_ffff, Ordering::Relaxed);
}

fn peer_of(own: u64) -> Option<u64> {
    let note = PAIRS[own as usize % PAIRS.len()].load(Ordering::Relaxed);
    (note != 0 && note >> 32 == own & 0xffff_ffff).then_some(note & 0xffff_ffff)
}

fn status(file: c_int) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `fstat` writes the structure if it returns 0.
    unsafe { (libc::fstat(file, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

/// Returns an internet address of a socket: host and port. Those of version 4 are mapped.
fn address(
    socket: c_int,
    get: unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
) -> Option<[u64; 3]> {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut size = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: the function writes at most `size` bytes; zeros are an address, too.
    let (result, storage) = unsafe {
        let result = get(socket, storage.as_mut_ptr().cast(), &raw mut size);
        (result, storage.assume_init())
    };
    let halves = |host: u128| [(host >> 64) as u64, host as u64];
    let ([high, low], port) = match c_int::from(storage.ss_family) {
        _ if result != 0 => return None,
        libc::AF_INET => {
            // SAFETY: the family says which structure it is.
            let address = unsafe { &*(&raw const storage).cast::<libc::sockaddr_in>() };
            let host = u32::from_be(address.sin_addr.s_addr);
            (halves(0xffff_0000_0000 | u128::from(host)), address.sin_port)
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which structure it is.
            let address = unsafe { &*(&raw const storage).cast::<libc::sockaddr_in6>() };
            (halves(u128::from_be_bytes(address.sin6_addr.s6_addr)), address.sin6_port)
        }
        _ => return None,
    };
    Some([high, low, u64::from(port)])
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Out,
    In,
}

/// Returns the key of what is written to, or read from, a descriptor.
fn channel(file: c_int, direction: Direction) -> Option<usize> {
    let status = status(file)?;
    match status.st_mode & libc::S_IFMT {
        libc::S_IFIFO => Some(channel_key(Kind::Pipe, status.st_ino, status.st_dev)),
        libc::S_IFSOCK => {
            if let Some(peer) = peer_of(status.st_ino) {
                // That of the reader.
                let reader =
                    if direction == Direction::Out { peer } else { status.st_ino & 0xffff_ffff };
                return Some(channel_key(Kind::Socket, reader, 0));
            }
            let own = address(file, libc::getsockname)?;
            let peer = address(file, libc::getpeername)?;
            let (from, to) = if direction == Direction::Out { (own, peer) } else { (peer, own) };
            let both = from.into_iter().chain(to).fold(0, |hash, part| mixed(hash ^ part));
            Some(channel_key(Kind::Connection, both, 0))
        }
        // Descriptors without a file.
        0 => Some(event_key(file)),
        _ => None,
    }
}

fn writes(file: c_int) {
    if is_attached() {
        keeping_errno(|| channel(file, Direction::Out).into_iter().for_each(before_key));
    }
}

/// The end of what has two ends.
fn closes(file: c_int) {
    if is_attached() {
        let has_ends = |status: &libc::stat| {
            [libc::S_IFIFO, libc::S_IFSOCK].contains(&(status.st_mode & libc::S_IFMT))
        };
        keeping_errno(|| {
            if status(file).as_ref().is_some_and(has_ends) {
                channel(file, Direction::Out).into_iter().for_each(before_key);
            }
        });
    }
}

/// After a read that returned a number of bytes, or 0 at the end.
fn has_read(file: c_int, result: ssize_t) {
    if result >= 0 && is_attached() {
        keeping_errno(|| channel(file, Direction::In).into_iter().for_each(after_key));
    }
}

/// Notifies of a queue of POSIX, which is a file of a file system of its own.
pub fn queue(file: c_int, notify: fn(usize)) {
    if is_attached() {
        let key_of = |status: libc::stat| channel_key(Kind::Queue, status.st_ino, status.st_dev);
        keeping_errno(|| status(file).map(key_of).into_iter().for_each(notify));
    }
}

/// Signals that were read from a descriptor.
///
/// # Safety
/// A read filled `size` bytes of `buffer`.
unsafe fn has_read_signals(file: c_int, buffer: *const c_void, size: ssize_t) {
    let each = size_of::<signalfd_siginfo>();
    let size = size.max(0) as usize;
    let is_signals = size > 0 && size % each == 0 && is_attached();
    if !is_signals || keeping_errno(|| status(file)).is_none_or(|s| s.st_mode & libc::S_IFMT != 0) {
        return;
    }
    for at in 0..size / each {
        // SAFETY: the number comes first in each, below `size`; the buffer may have any alignment.
        let number = unsafe { buffer.byte_add(at * each).cast::<u32>().read_unaligned() };
        after_key(signal_key(number as c_int));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(file: c_int, buffer: *mut c_void, size: size_t) -> ssize_t {
    let real = real!(read, unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> ssize_t);
    // SAFETY: passes on what the caller passed.
    let result = unsafe { real(file, buffer, size) };
    has_read(file, result);
    // SAFETY: `read` filled `result` bytes.
    unsafe { has_read_signals(file, buffer, result) };
    result
}

/// Defines functions of a descriptor and other arguments, which write before they return, or read.
macro_rules! moves {
    ($($kind:ident $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(file: c_int $(, $arg: $type)*) -> $result {
            let real = real!($name, unsafe extern "C-unwind" fn(c_int $(, $type)*) -> $result);
            moves!(@$kind real, file $(, $arg)*)
        }
    )* };
    (@writes $real:ident, $file:ident $(, $arg:ident)*) => {{
        writes($file);
        // SAFETY: passes on what the caller passed.
        unsafe { $real($file $(, $arg)*) }
    }};
    (@ends $real:ident, $file:ident $(, $arg:ident)*) => {{
        closes($file);
        // SAFETY: passes on what the caller passed.
        unsafe { $real($file $(, $arg)*) }
    }};
    (@reads $real:ident, $file:ident $(, $arg:ident)*) => {{
        // SAFETY: passes on what the caller passed.
        let result = unsafe { $real($file $(, $arg)*) };
        has_read($file, result as ssize_t);
        result
    }};
}

moves! {
    writes write(buffer: *const c_void, size: size_t) -> ssize_t;
    writes writev(parts: *const iovec, count: c_int) -> ssize_t;
    writes send(buffer: *const c_void, size: size_t, flags: c_int) -> ssize_t;
    writes sendto(
        buffer: *const c_void, size: size_t, flags: c_int, to: *const sockaddr, length:
        socklen_t
    ) -> ssize_t;
    writes sendmsg(message: *const msghdr, flags: c_int) -> ssize_t;
    writes sendmmsg(messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    writes eventfd_write(count: u64) -> c_int;
    writes shutdown(how: c_int) -> c_int;
    // The reader finds the end.
    ends close() -> c_int;
    reads readv(parts: *const iovec, count: c_int) -> ssize_t;
    reads __read_chk(buffer: *mut c_void, size: size_t, capacity: size_t) -> ssize_t;
    reads recv(buffer: *mut c_void, size: size_t, flags: c_int) -> ssize_t;
    reads __recv_chk(buffer: *mut c_void, size: size_t, capacity: size_t, flags: c_int) -> ssize_t;
    reads recvfrom(
        buffer: *mut c_void, size: size_t, flags: c_int, from: *mut sockaddr, length: *mut
        socklen_t
    ) -> ssize_t;
    reads __recvfrom_chk(
        buffer: *mut c_void, size: size_t, capacity: size_t, flags: c_int, from: *mut
        sockaddr, length: *mut socklen_t
    ) -> ssize_t;
    reads recvmsg(message: *mut msghdr, flags: c_int) -> ssize_t;
    reads recvmmsg(
        messages: *mut mmsghdr, count: c_uint, flags: c_int, time: *mut timespec
    ) -> c_int;
    reads eventfd_read(count: *mut u64) -> c_int;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    ends: *mut c_int,
) -> c_int {
    type Pair = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_int) -> c_int;
    let real = real!(socketpair, Pair);
    // SAFETY: passes on what the caller passed.
    let result = unsafe { real(domain, kind, protocol, ends) };
    if result == 0 {
        // SAFETY: `socketpair` wrote two descriptors.
        let [one, other] = [0, 1].map(|at| status(unsafe { *ends.add(at) }));
        if let (Some(one), Some(other)) = (one, other) {
            note_pair(one.st_ino, other.st_ino);
            note_pair(other.st_ino, one.st_ino);
        }
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn eventfd(count: c_uint, flags: c_int) -> c_int {
    let real = real!(eventfd, unsafe extern "C" fn(c_uint, c_int) -> c_int);
    // SAFETY: passes on what the caller passed.
    let file = unsafe { real(count, flags) };
    if file >= 0 {
        EVENTS[file as usize % EVENTS.len()].fetch_add(1, Ordering::Relaxed);
    }
    file
}

/// Looks the functions up that handlers of signals may call: the loader's functions are not for
/// handlers. A handler that runs while libraries are loaded may still be the first.
extern "C" fn look_up() {
    // SAFETY: there is no descriptor -1, so these calls fail.
    unsafe {
        read(-1, std::ptr::null_mut(), 0);
        write(-1, std::ptr::null(), 0);
        send(-1, std::ptr::null(), 0, 0);
        sendto(-1, std::ptr::null(), 0, 0, std::ptr::null(), 0);
        recv(-1, std::ptr::null_mut(), 0, 0);
        eventfd_write(-1, 0);
        close(-1);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_UP: extern "C" fn() = look_up;
