//! The other end of a channel, without its rules: a process that says anything and shares any page.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the head of a page; eight bytes for each slot follow.
const HEAD: usize = 4096;

/// A page that two sides share. Words are written while the library reads them.
pub struct Page {
    start: *mut AtomicU64,
    words: usize,
}

// SAFETY: mapped until this is dropped, and accessed as atomic numbers only.
unsafe impl Send for Page {}
// SAFETY: atomic numbers may be read and written by several threads at once.
unsafe impl Sync for Page {}

impl Page {
    /// Makes the file of a page. It may lack its seals, or `surplus` bytes too many or too few may be in it.
    pub fn file(slots: u32, surplus: i8, is_sealed: bool) -> OwnedFd {
        // SAFETY: a text that ends; no other pointers. The descriptor is new.
        unsafe {
            let fd = libc::memfd_create(c"peer".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            assert!(fd >= 0);
            let size = (HEAD + 8 * slots as usize) as i64 + i64::from(surplus);
            assert_eq!(libc::ftruncate(fd, size), 0);
            if is_sealed {
                let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
                assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, seals), 0);
            }
            OwnedFd::from_raw_fd(fd)
        }
    }

    pub fn map(fd: &OwnedFd) -> Arc<Page> {
        // SAFETY: a structure to write; then a new mapping of whole words that the file has.
        unsafe {
            let mut state: libc::stat = MaybeUninit::zeroed().assume_init();
            assert_eq!(libc::fstat(fd.as_raw_fd(), &mut state), 0);
            let words = state.st_size as usize / 8;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(null_mut(), 8 * words, access, libc::MAP_SHARED, fd.as_raw_fd(), 0);
            assert!(start != libc::MAP_FAILED);
            Arc::new(Page { start: start.cast(), words })
        }
    }

    pub fn set(&self, word: usize, value: u64) {
        // SAFETY: inside of the mapping, which is aligned to a page.
        unsafe { &*self.start.add(word % self.words) }.store(value, Ordering::Release);
    }

    /// Takes everything back that an importer says in a page.
    pub fn clear(&self) {
        (0..self.words).for_each(|word| self.set(word, 0));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped with this size; nothing uses it any more.
        unsafe { libc::munmap(self.start.cast(), 8 * self.words) };
    }
}

/// Runs something while another thread writes these words again and again.
pub fn beside<R>(page: Option<Arc<Page>>, words: &[(u16, u64)], run: impl FnOnce() -> R) -> R {
    let Some(page) = page.filter(|_| !words.is_empty()) else { return run() };
    let is_over = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while is_over.load(Ordering::Relaxed) == 0 {
                words.iter().for_each(|&(word, value)| page.set(word.into(), value));
            }
        });
        let done = run();
        is_over.store(1, Ordering::Relaxed);
        done
    })
}

fn address(nonce: &[u8]) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as _;
    let digits: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("\0libcai-{digits}");
    address.sun_path.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as _);
    (address, (size_of::<libc::sa_family_t>() + name.len()) as _)
}

fn socket() -> OwnedFd {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a new descriptor.
    unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, kind, 0)) }
}

/// Connects to the exporter with a nonce, as an importer does.
pub fn connect(nonce: &[u8]) -> Option<OwnedFd> {
    let (socket, (address, length)) = (socket(), address(nonce));
    // SAFETY: an address of this length.
    let done = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    (done == 0).then_some(socket)
}

/// Listens as the exporter with a nonce.
pub fn listen(nonce: &[u8]) -> OwnedFd {
    let (socket, (address, length)) = (socket(), address(nonce));
    // SAFETY: an address of this length.
    unsafe {
        assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length), 0);
        assert_eq!(libc::listen(socket.as_raw_fd(), 64), 0);
    }
    socket
}

/// Accepts an importer, and returns its page.
pub fn accept(listener: &OwnedFd) -> Option<(OwnedFd, Arc<Page>)> {
    // SAFETY: the address may be NULL; the descriptor is new.
    let connection = unsafe {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = libc::accept4(listener.as_raw_fd(), null_mut(), null_mut(), flags);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?
    };
    let mut bytes = [0u8; 16];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 3];
    // SAFETY: the message refers to locals. The control message has room for one descriptor.
    let page = unsafe {
        let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
        assert_eq!(libc::recvmsg(connection.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC), 16);
        let head = libc::CMSG_FIRSTHDR(&message);
        assert!(!head.is_null());
        OwnedFd::from_raw_fd(libc::CMSG_DATA(head).cast::<i32>().read_unaligned())
    };
    Some((connection, Page::map(&page)))
}

/// Says anything, with up to four descriptors beside it.
pub fn say(to: &OwnedFd, bytes: &[u8], descriptors: &[&OwnedFd]) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 4];
    // SAFETY: the message refers to locals and to `bytes`; the control message has room for four descriptors.
    let sent = unsafe {
        let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        if !descriptors.is_empty() {
            let room = libc::CMSG_SPACE(4 * descriptors.len() as u32);
            (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), room as _);
            let head = libc::CMSG_FIRSTHDR(&message);
            ((*head).cmsg_level, (*head).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            (*head).cmsg_len = libc::CMSG_LEN(4 * descriptors.len() as u32) as _;
            let data = libc::CMSG_DATA(head).cast::<i32>();
            for (index, descriptor) in descriptors.iter().enumerate() {
                data.add(index).write_unaligned(descriptor.as_raw_fd());
            }
        }
        libc::sendmsg(to.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Number of open descriptors of this process.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
