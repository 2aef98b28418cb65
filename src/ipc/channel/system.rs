//! The operating system's part of a channel: who a process is, its socket, the page that two
//! processes share, and the end of a process.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::{fs, ptr, slice};

use crate::error::{Result, fail};

pub const NONCE: usize = 16;

/// Identity of a process, which no other process has, before or after it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Identity {
    /// The machine, since it was started.
    pub boot: [u8; 16],
    /// The network namespace: names of sockets mean something in there.
    pub network: u64,
    pub nonce: [u8; NONCE],
    pub pid: u32,
    /// When the process started, in ticks since the machine was started.
    pub start: u64,
}

impl Identity {
    pub fn own() -> Result<Identity> {
        let find = || {
            let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).ok()?;
            let network = fs::read_link("/proc/self/ns/net").ok()?;
            let network = network.to_str()?.trim_matches(|byte: char| !byte.is_ascii_digit());
            let pid = std::process::id();
            Some((boot.to_be_bytes(), network.parse().ok()?, pid, start_of(pid)?))
        };
        let Some((boot, network, pid, start)) = find() else {
            return fail!(CAI_ERR_IPC_SYSTEM, "channel";
                found "no /proc that can be read"; expected "the identity of this process in /proc");
        };
        let mut nonce = [0; NONCE];
        // SAFETY: a buffer of this size.
        let written = unsafe { libc::getrandom(nonce.as_mut_ptr().cast(), NONCE, 0) };
        checked(if written == NONCE as isize { 0 } else { -1 }, "getrandom")?;
        Ok(Identity { boot, network, nonce, pid, start })
    }
}

impl Identity {
    /// Fails in a child of the process that made the channel: it may have started the driver itself.
    pub fn check_process(&self) -> Result<()> {
        if self.pid == std::process::id() { Ok(()) } else { super::forked() }
    }
}

/// Returns when a process started. [proc_pid_stat(5), field 22]
pub fn start_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may contain anything.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Fails if a call of the system did.
fn checked(result: c_int, call: &str) -> Result<c_int> {
    if result >= 0 { Ok(result) } else { refused(call, &io::Error::last_os_error()) }
}

#[cold]
pub fn refused<T>(call: &str, error: &io::Error) -> Result<T> {
    let expected = match error.raw_os_error() {
        Some(libc::EMFILE) => "a free file descriptor: raise `ulimit -n`",
        Some(libc::ENFILE) => "a free file descriptor of the system: raise fs.file-max",
        Some(libc::ENOMEM | libc::ENOBUFS) => "memory for the system",
        _ => "a call that succeeds",
    };
    fail!(CAI_ERR_IPC_SYSTEM, "channel"; found "{call}: {error}"; expected "{expected}")
}

fn owned(result: c_int, call: &str) -> Result<OwnedFd> {
    // SAFETY: a new descriptor, which nothing else closes.
    checked(result, call).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The abstract address of the process with a nonce.
fn address(nonce: &[u8; NONCE]) -> (libc::sockaddr_un, libc::socklen_t) {
    const PREFIX: &[u8] = b"\0libcai-";
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let digits = nonce.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let name =
        PREFIX.iter().copied().chain(digits.map(|digit| b"0123456789abcdef"[digit as usize]));
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = from as _;
    }
    let length = size_of::<libc::sa_family_t>() + PREFIX.len() + 2 * NONCE;
    (address, length as libc::socklen_t)
}

fn socket() -> Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }, "socket")
}

pub fn listen(nonce: &[u8; NONCE]) -> Result<OwnedFd> {
    let socket = socket()?;
    let (address, length) = address(nonce);
    // SAFETY: an address of this length.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    checked(bound, "bind")?;
    // SAFETY: no pointers.
    checked(unsafe { libc::listen(socket.as_raw_fd(), 256) }, "listen")?;
    Ok(socket)
}

/// Connects to the process with a nonce, without blocking.
pub fn connect(nonce: &[u8; NONCE]) -> Result<io::Result<OwnedFd>> {
    let socket = socket()?;
    let (address, length) = address(nonce);
    // SAFETY: an address of this length.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    Ok(if result == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) })
}

/// Returns the next connection that waits, if there is one.
pub fn accept(listener: &OwnedFd) -> Result<Option<OwnedFd>> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the address may be NULL.
    let result =
        unsafe { libc::accept4(listener.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), flags) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => Ok(None),
            _ => refused("accept4", &error),
        };
    }
    owned(result, "accept4").map(Some)
}

/// A control message for one descriptor.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

const CONTROL: usize = 24;

/// Sends one message, with a descriptor beside it, without blocking.
pub fn send(to: &OwnedFd, bytes: &[u8], descriptor: Option<BorrowedFd>) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: zeros are a valid message.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: the buffer is aligned for a header, and has room for it and one descriptor.
        unsafe {
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
            libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(descriptor.as_raw_fd());
        }
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the message refers to locals and to `bytes`.
    let sent = unsafe { libc::sendmsg(to.as_raw_fd(), &raw const message, flags) };
    if sent == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The next message, without blocking.
pub enum Received {
    Message(usize, Option<OwnedFd>),
    Nothing,
    /// The other side has closed the connection.
    End,
}

pub fn receive(from: &OwnedFd, bytes: &mut [u8]) -> Received {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: zeros are a valid message.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: the message refers to locals and to `bytes`.
    let count = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, flags) };
    if count < 0 {
        let is_pending = io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
        return if is_pending { Received::Nothing } else { Received::End };
    }
    let mut descriptor = None;
    // SAFETY: the system has filled the buffer, whose headers are whole. The descriptors in it are
    // new: the first one is kept, and others, for which the buffer's padding has room, are closed.
    unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if !head.is_null() && (*head).cmsg_type == libc::SCM_RIGHTS {
            let bytes = ((*head).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            for index in 0..bytes / size_of::<c_int>() {
                let fd = libc::CMSG_DATA(head).cast::<c_int>().add(index).read_unaligned();
                let found = OwnedFd::from_raw_fd(fd);
                descriptor.get_or_insert(found);
            }
        }
    }
    if count == 0 { Received::End } else { Received::Message(count as usize, descriptor) }
}

/// Returns the process at the other end of a connection if it has this user. [unix(7)]
pub fn peer_of(connection: &OwnedFd) -> Option<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a structure of this size.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut size,
        )
    };
    // SAFETY: cannot fail.
    let is_same = result == 0 && found.uid == unsafe { libc::geteuid() };
    is_same.then_some(found.pid as u32)
}

/// A process that is watched.
pub struct Process(Option<OwnedFd>);

impl Process {
    /// Watches the process that started then. Without that, its connection says when it ends: before
    /// Linux 5.3, and for a process of another PID namespace.
    pub fn watch(pid: u32, start: u64) -> Process {
        if pid == 0 {
            return Process(None);
        }
        // SAFETY: no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as c_int, 0) };
        // The number of a process may be that of another one by now.
        let is_other = start_of(pid).is_some_and(|found| found != start);
        let fd = owned(fd as c_int, "pidfd_open").ok();
        Process(fd.filter(|_| !is_other))
    }

    pub fn descriptor(&self) -> Option<&OwnedFd> {
        self.0.as_ref()
    }

    /// Returns true if the process has ended. `is_closed`: its connection is.
    pub fn has_ended(&self, is_closed: bool) -> bool {
        let Some(fd) = &self.0 else { return is_closed };
        let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
    }
}

/// A descriptor that is readable while there is work for `poll`.
pub struct Watch(OwnedFd);

impl Watch {
    pub fn new() -> Result<Watch> {
        // SAFETY: no pointers.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "epoll_create1").map(Watch)
    }

    pub fn add(&self, fd: &OwnedFd) -> Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (watch, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: one event.
        let result = unsafe { libc::epoll_ctl(watch, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        checked(result, "epoll_ctl").map(drop)
    }

    pub fn remove(&self, fd: &OwnedFd) {
        let (watch, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: the event may be NULL.
        unsafe { libc::epoll_ctl(watch, libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
    }

    pub fn as_raw(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Words at the beginning of a page.
const HEAD: usize = 512;
const HEAD_BYTES: usize = HEAD * size_of::<u64>();
/// Seals of a page: its size does not change, so no access to it can fail.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Memory that an importer and an exporter share: words of a head, and two words for each slot, one
/// that the importer writes and one that the exporter writes. Each word has one writer.
pub struct Page {
    start: *mut c_void,
    capacity: u32,
}

// SAFETY: mapped until this is dropped, and only read and written as atomic numbers.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn bytes(capacity: u32) -> usize {
        HEAD_BYTES + capacity as usize * 2 * size_of::<u32>()
    }

    /// Makes a page, and the descriptor by which another process maps it.
    pub fn create(capacity: u32) -> Result<(Page, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a text that ends.
        let fd = owned(unsafe { libc::memfd_create(c"cai".as_ptr(), flags) }, "memfd_create")?;
        let size = Page::bytes(capacity) as libc::off_t;
        // SAFETY: no pointers.
        checked(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }, "ftruncate")?;
        // SAFETY: no pointers.
        let sealed = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
        checked(sealed, "fcntl")?;
        Ok((Page::map(&fd, capacity)?, fd))
    }

    /// Maps a page that another process may have made.
    pub fn map(fd: &OwnedFd, capacity: u32) -> Result<Page> {
        // SAFETY: no pointers.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        // SAFETY: zeros are a valid structure.
        let mut state: libc::stat = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: a structure of this type.
        checked(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut state) }, "fstat")?;
        let size = Page::bytes(capacity);
        if seals < 0 || seals & SEALS != SEALS || state.st_size as usize != size {
            return fail!(CAI_ERR_IPC_BYTES, "channel";
                found "a page of {} bytes", state.st_size; expected "{size} bytes, sealed");
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED, fd.as_raw_fd());
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return refused("mmap", &io::Error::last_os_error());
        }
        Ok(Page { start, capacity })
    }

    /// Returns the words of the head.
    pub fn head(&self) -> &[AtomicU64] {
        // SAFETY: mapped until this is dropped, and aligned to a page. The file cannot shrink
        // (checked in `map`).
        unsafe { slice::from_raw_parts(self.start.cast(), HEAD) }
    }

    fn slots(&self) -> &[AtomicU32] {
        // SAFETY: as in `head`; the words of the slots follow the head's.
        unsafe {
            let start = self.start.byte_add(HEAD_BYTES).cast();
            slice::from_raw_parts(start, 2 * self.capacity as usize)
        }
    }

    /// Returns how many arrays the importer has of each slot.
    pub fn claims(&self) -> &[AtomicU32] {
        self.slots().get(..self.capacity as usize).unwrap_or_default()
    }

    /// Returns the generation of each slot, or 0 if nothing can be imported from it.
    pub fn generations(&self) -> &[AtomicU32] {
        self.slots().get(self.capacity as usize..).unwrap_or_default()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, with this size.
        unsafe { libc::munmap(self.start, Page::bytes(self.capacity)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptors of this process.
    fn open() -> usize {
        fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
    }

    /// A message from a process that sends more descriptors than this library does.
    #[test]
    fn more_descriptors_than_one_are_closed() {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: two descriptors have room; both are new. The message refers to locals, and its
        // buffer has room for a header and four descriptors.
        let [from, to] = unsafe {
            assert_eq!(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()), 0);
            let ends = ends.map(|end| OwnedFd::from_raw_fd(end));
            let mut control = [0u64; 4];
            let mut byte = 1u8;
            let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(4 * size_of::<c_int>() as u32) as _;
            let own = ends[0].as_raw_fd();
            libc::CMSG_DATA(head).cast::<[c_int; 4]>().write_unaligned([own; 4]);
            assert_eq!(libc::sendmsg(own, &raw const message, 0), 1);
            ends
        };
        let before = open();
        let received = receive(&to, &mut [0; 8]);
        assert!(matches!(received, Received::Message(1, Some(_))));
        drop(received);
        // Other tests of the process open files, too.
        let soon = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            open() <= before
        });
        drop(from);
        assert!(soon, "{} descriptors more than before", open() - before);
    }
}
