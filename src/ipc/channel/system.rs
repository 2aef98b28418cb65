//! The operating system's part of a channel: who a process is, its socket, the page that two
//! processes share, and the end of a process.

use std::ffi::c_void;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, size_of};
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::{ptr, slice, str};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create, open, readlinkat_raw,
};
use rustix::io::{Errno, read};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Result, Text, fail};

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
            let mut buffer = [MaybeUninit::uninit(); 64];
            let boot = text_of("/proc/sys/kernel/random/boot_id", &mut buffer)?;
            let digits = boot.trim().split('-').flat_map(str::chars);
            let boot =
                digits.map(|digit| digit.to_digit(16)).try_fold(0, |number: u128, digit| {
                    Some(number.checked_mul(16)? + u128::from(digit?))
                })?;
            let mut buffer = [MaybeUninit::uninit(); 64];
            let (network, _) = readlinkat_raw(CWD, "/proc/self/ns/net", &mut buffer).ok()?;
            let network = str::from_utf8(network).ok()?;
            let network = network.trim_matches(|byte: char| !byte.is_ascii_digit());
            let pid = std::process::id();
            Some((boot.to_be_bytes(), network.parse().ok()?, pid, start_of(pid)?))
        };
        let Some((boot, network, pid, start)) = find() else {
            return fail!(CAI_ERR_IPC_SYSTEM, "channel";
                found "no /proc that can be read"; expected "the identity of this process in /proc");
        };
        let mut nonce = [0; NONCE];
        // So few bytes are never cut short. [getrandom(2)]
        checked(getrandom(&mut nonce, GetRandomFlags::empty()), "getrandom")?;
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
    number_of(pid, 22)
}

/// Returns the address of a process's stack, which another program gets anew; `None` if this process
/// may not know it, or the other one ends. [proc_pid_stat(5), field 28]
fn stack_of(pid: u32) -> Option<u64> {
    number_of(pid, 28).filter(|address| *address != 0)
}

/// Returns a number that the system states about a process, which is not its first or second one.
fn number_of(pid: u32, field: usize) -> Option<u64> {
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let path = Text::<32>::new(format_args!("/proc/{pid}/stat"));
    let text = text_of(path.as_str(), &mut buffer)?;
    // The name of the program may contain anything.
    text.rsplit_once(')')?.1.split_whitespace().nth(field - 3)?.parse().ok()
}

/// Returns the text of a small file of the system, which one read returns. Allocates nothing.
fn text_of<'a>(path: &str, buffer: &'a mut [MaybeUninit<u8>]) -> Option<&'a str> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (text, _) = read(&file, buffer).ok()?;
    str::from_utf8(text).ok()
}

/// Fails if a call of the system did.
fn checked<T>(result: rustix::io::Result<T>, call: &str) -> Result<T> {
    result.or_else(|error| refused(call, &error.into()))
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

/// The abstract address of the process with a nonce.
fn address(nonce: &[u8; NONCE]) -> Result<SocketAddrUnix> {
    let name = Text::<64>::new(format_args!("libcai-{:032x}", u128::from_be_bytes(*nonce)));
    checked(SocketAddrUnix::new_abstract_name(name.as_str().as_bytes()), "bind")
}

/// A socket that ends with this, also if a child of fork has a copy of its descriptor.
pub struct Socket {
    fd: OwnedFd,
    pid: u32,
}

impl Socket {
    pub fn new(fd: OwnedFd) -> Socket {
        Socket { fd, pid: std::process::id() }
    }

    /// Ends the connection, or refuses those to come.
    pub fn end(&self) {
        let _ = net::shutdown(&self.fd, net::Shutdown::Both);
    }
}

impl Deref for Socket {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // In a child of fork, the socket is that of the parent.
        if self.pid == std::process::id() {
            self.end();
        }
    }
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn socket() -> Result<OwnedFd> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None);
    checked(socket, "socket")
}

pub fn listen(nonce: &[u8; NONCE]) -> Result<Socket> {
    let socket = socket()?;
    checked(net::bind(&socket, &address(nonce)?), "bind")?;
    checked(net::listen(&socket, 256), "listen")?;
    Ok(Socket::new(socket))
}

/// Connects to the process with a nonce, without blocking.
pub fn connect(nonce: &[u8; NONCE]) -> Result<io::Result<Socket>> {
    let socket = Socket::new(socket()?);
    Ok(net::connect(&*socket, &address(nonce)?).map(|()| socket).map_err(io::Error::from))
}

/// Returns the next connection that waits, if there is one.
pub fn accept(listener: &OwnedFd) -> Result<Option<Socket>> {
    match net::accept_with(listener, FLAGS) {
        Err(Errno::AGAIN | Errno::CONNABORTED) => Ok(None),
        other => checked(other, "accept4").map(|it| Some(Socket::new(it))),
    }
}

/// Room for one descriptor beside a message.
const SPACE: usize = rustix::cmsg_space!(ScmRights(1));

/// Sends one message, with a descriptor beside it, without blocking.
pub fn send(to: &OwnedFd, bytes: &[u8], descriptor: Option<BorrowedFd>) -> io::Result<()> {
    let mut space = [const { MaybeUninit::uninit() }; SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        control.push(SendAncillaryMessage::ScmRights(slice::from_ref(descriptor)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    // A message is sent as a whole or not at all. [unix(7)]
    net::sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags)?;
    Ok(())
}

/// The next message, without blocking.
pub enum Received {
    Message(usize, Option<OwnedFd>),
    Nothing,
    /// The other side has closed the connection.
    End,
}

pub fn receive(from: &OwnedFd, bytes: &mut [u8]) -> Received {
    let mut space = [const { MaybeUninit::uninit() }; SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = net::recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, flags);
    let count = match received {
        Ok(received) => received.bytes,
        // Without memory, the next call finds it.
        Err(Errno::AGAIN | Errno::INTR | Errno::NOMEM | Errno::NOBUFS) => {
            return Received::Nothing;
        }
        Err(_) => return Received::End,
    };
    // The first descriptor is kept. There is room for more, because of padding: they are closed.
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    if count == 0 { Received::End } else { Received::Message(count, rights) }
}

/// Returns the process at the other end of a connection if it has this user. [unix(7)]
pub fn peer_of(connection: &OwnedFd) -> Option<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a structure of this size. The process may have no number here, and rustix takes none.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut size,
        )
    };
    let is_same = result == 0 && found.uid == geteuid().as_raw();
    is_same.then_some(found.pid as u32)
}

/// A process that is watched.
pub enum Process {
    /// With its number and what [`stack_of`] returned: it ends too if it executes another program.
    Watched(OwnedFd, u32, Option<u64>),
    /// It had ended before.
    Ended,
    /// Its connection reports when it ends: before Linux 5.3, and for a process of another PID
    /// namespace.
    Unknown,
}

impl Process {
    /// Watches the process that started then.
    pub fn watch(pid: u32, start: u64) -> Process {
        match Pid::from_raw(pid as i32).map(|it| pidfd_open(it, PidfdFlags::empty())) {
            // The number of a process may be that of another one by now.
            Some(Ok(fd)) if start_of(pid).is_none_or(|found| found == start) => {
                Process::Watched(fd, pid, stack_of(pid))
            }
            Some(Err(Errno::SRCH)) => Process::Ended,
            _ => Process::Unknown,
        }
    }

    pub fn descriptor(&self) -> Option<&OwnedFd> {
        if let Process::Watched(fd, ..) = self { Some(fd) } else { None }
    }

    /// Returns true if the process has ended. `is_closed`: its connection is.
    pub fn has_ended(&self, is_closed: bool) -> bool {
        let (fd, pid, stack) = match self {
            Process::Watched(fd, pid, stack) => (fd, *pid, *stack),
            Process::Ended => return true,
            Process::Unknown => return is_closed,
        };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let differs = |stack| stack_of(pid).is_some_and(|found| found != stack);
        poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)) == Ok(1)
            || is_closed && stack.is_some_and(differs)
    }
}

/// A descriptor that is readable while there is work for `poll`. What it watches must be removed
/// before it is closed: a child of fork may have a copy, which stays readable.
pub struct Watch(OwnedFd);

impl Watch {
    pub fn new() -> Result<Watch> {
        checked(epoll::create(epoll::CreateFlags::CLOEXEC), "epoll_create1").map(Watch)
    }

    pub fn add(&self, fd: &OwnedFd) -> Result<()> {
        let data = epoll::EventData::new_u64(0);
        checked(epoll::add(&self.0, fd, data, epoll::EventFlags::IN), "epoll_ctl")
    }

    pub fn remove(&self, fd: &OwnedFd) {
        // Fails for one that was removed before.
        let _ = epoll::delete(&self.0, fd);
    }

    pub fn as_raw(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Words at the beginning of a page.
const HEAD: usize = 512;
const HEAD_BYTES: usize = HEAD * size_of::<u64>();
/// Seals of a page: its size does not change, so no access to it can fail.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Memory that an importer and an exporter share: words of a head, and two words for each slot, one
/// that the importer writes and one that the exporter writes. Each word has one writer.
pub struct Page {
    start: *mut c_void,
    capacity: u32,
}

// SAFETY: mapped until this is dropped, and only read and written as atomic numbers.
unsafe impl Send for Page {}
// SAFETY: atomic numbers may be read and written by several threads at once.
unsafe impl Sync for Page {}

impl Page {
    fn bytes(capacity: u32) -> usize {
        HEAD_BYTES + capacity as usize * 2 * size_of::<u32>()
    }

    /// Makes a page, and the descriptor by which another process maps it.
    pub fn create(capacity: u32) -> Result<(Page, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = checked(memfd_create(c"cai", flags), "memfd_create")?;
        checked(ftruncate(&fd, Page::bytes(capacity) as u64), "ftruncate")?;
        checked(fcntl_add_seals(&fd, SEALS), "fcntl")?;
        Ok((Page::map(&fd, capacity)?, fd))
    }

    /// Maps a page that another process may have made.
    pub fn map(fd: &OwnedFd, capacity: u32) -> Result<Page> {
        let is_sealed = fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SEALS));
        let found = checked(fstat(fd), "fstat")?.st_size;
        let size = Page::bytes(capacity);
        if !is_sealed || found as usize != size {
            return fail!(CAI_ERR_IPC_BYTES, "channel";
                found "a page of {found} bytes"; expected "{size} bytes, sealed");
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { mmap(ptr::null_mut(), size, protection, MapFlags::SHARED, fd, 0) };
        let start = checked(start, "mmap")?;
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
        // SAFETY: mapped by `map`, with this size. That cannot fail.
        let _ = unsafe { munmap(self.start, Page::bytes(self.capacity)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    /// Descriptors of this process.
    fn open() -> usize {
        fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
    }

    /// A message from a process that sends more descriptors than this library does.
    #[test]
    fn more_descriptors_than_one_are_closed() {
        let kind = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (from, to) = net::socketpair(AddressFamily::UNIX, kind.0, kind.1, None).unwrap();
        let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(4))];
        let descriptors = [from.as_fd(); 4];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        net::sendmsg(&from, &[IoSlice::new(&[1])], &mut control, SendFlags::empty()).unwrap();
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
