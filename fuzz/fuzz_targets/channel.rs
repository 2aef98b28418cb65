//! Two channels of this process beside a model, and peers that keep no rule: importers that connect to the first, and
//! exporters that the second connects to. They say anything, share pages of any size, and change each word of them, also
//! while the library reads them. An array is released once: when its export was withdrawn and nothing has it. Without a
//! driver arrays have no elements; on the simulated driver (`LD_LIBRARY_PATH`), some have memory and a stream, or memory
//! of a pool, which the second channel opens: also a process that made it can. Without its race checker
//! (`CUDASIM_RACES=off`), which opens files.
#![no_main]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, unstable::channel::*, validate::*};
use cai_fuzz::new_array;
use cai_fuzz::peer::{self, Page, beside};
use libfuzzer_sys::fuzz_target;

const SLOTS: u32 = 4;
/// Peers of each kind at one time.
const PEERS: usize = 3;

/// A word of a page.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Word {
    Accepted,
    Ready(u8),
    Done { device: u8, word: u8 },
    Slots(u8),
    Any(u16),
}

impl Word {
    fn index(self) -> u16 {
        match self {
            Word::Accepted => 0,
            Word::Ready(index) => 8 + u16::from(index % 64),
            Word::Done { device, word } => 128 + 11 * u16::from(device % 16) + u16::from(word % 11),
            Word::Slots(index) => 512 + u16::from(index % SLOTS as u8),
            Word::Any(index) => index,
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Message {
    Welcome { start: u64 },
    Retire(u8),
    Closed(u8),
    Wanted(u8),
    Descriptor(u8),
    Any(Vec<u8>),
}

impl Message {
    fn bytes(&self) -> Vec<u8> {
        let (word, number): (u64, u64) = match self {
            Message::Welcome { start } => (1, *start),
            Message::Retire(number) => (2, (*number).into()),
            Message::Closed(number) => (3, (*number).into()),
            Message::Wanted(number) => (4, (*number).into()),
            Message::Descriptor(number) => (5, (*number).into()),
            Message::Any(bytes) => return bytes.clone(),
        };
        [word.to_le_bytes(), number.to_le_bytes()].concat()
    }
}

#[derive(Arbitrary, Debug)]
enum Operation {
    Export { key: u8, shape: [u8; 2], memory: u8 },
    Withdraw { which: u8, change: u64 },
    /// Changes of a record: a place and a value.
    Import { which: u8, changes: Vec<(u8, u8)>, length: Option<u16> },
    Release { which: u8 },
    /// A hostile importer. The page has the right size and its seals, or not.
    Join { surplus: i8, is_bare: bool, hello: Option<Message>, descriptors: u8 },
    /// A record of a hostile exporter, which may accept at once.
    Offer { which: u8, peer: u8, changes: Vec<(u8, u8)>, accepts: bool },
    /// From a hostile peer.
    Say { peer: u8, message: Message, descriptors: u8 },
    Change { peer: u8, words: Vec<(Word, u64)> },
    /// Words that change during the next operation.
    Storm { peer: u8, words: Vec<(Word, u64)> },
    Leave { peer: u8, is_clear: bool },
    Poll,
}

/// A hostile peer: an importer, or an exporter to which importers connect.
struct Peer {
    connection: Option<OwnedFd>,
    page: Option<Arc<Page>>,
    listener: Option<(OwnedFd, [u8; 16])>,
}

/// An export of the model.
struct Export {
    number: u64,
    key: u8,
    record: Vec<u8>,
    is_withdrawn: bool,
    claims: usize,
    /// Perhaps by another thread.
    freed: Box<AtomicU32>,
    array: cai_array,
}

impl Export {
    fn is_over(&self) -> bool {
        self.is_withdrawn && self.claims == 0
    }

    fn freed(&self) -> u32 {
        self.freed.load(Ordering::Relaxed)
    }
}

unsafe extern "C-unwind" fn count(freed: *mut c_void) {
    // SAFETY: a counter in a box of the model, which lives longer than the array.
    unsafe { &*freed.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()).into()
}

/// Memory, memory of a pool, and a stream of the simulated driver, if there is one.
fn memory() -> Option<[u64; 3]> {
    static MEMORY: OnceLock<Option<[u64; 3]>> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        // SAFETY: the driver's functions have these types; outputs are locals.
        unsafe {
            let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
            let find = |name: &CStr| {
                let found = (!library.is_null()).then(|| libc::dlsym(library, name.as_ptr()));
                found.filter(|found| !found.is_null())
            };
            type Two = unsafe extern "C" fn(*mut u64, u64) -> i32;
            let two = |name| find(name).map(|found| std::mem::transmute::<*mut c_void, Two>(found));
            let start: unsafe extern "C" fn(u32) -> i32 = std::mem::transmute(find(c"cuInit")?);
            let enter: unsafe extern "C" fn(u64) -> i32 = std::mem::transmute(find(c"cuCtxSetCurrent")?);
            let (mut context, mut address, mut stream) = (0, 0, 0);
            let (mut pool, mut of_pool) = (0, 0);
            // Of pinned memory, with file descriptors, on the first device.
            let mut properties = [0i32; 22];
            properties[..3].fill(1);
            type Allocate = unsafe extern "C" fn(*mut u64, u64, u64, u64) -> i32;
            let allocate: Allocate = std::mem::transmute(find(c"cuMemAllocFromPoolAsync")?);
            let is_ready = start(0) == 0
                && two(c"cuDevicePrimaryCtxRetain")?(&mut context, 0) == 0
                && enter(context) == 0
                && two(c"cuMemAlloc_v2")?(&mut address, 1 << 20) == 0
                && two(c"cuStreamCreate")?(&mut stream, 1) == 0
                && two(c"cuMemPoolCreate")?(&mut pool, properties.as_ptr() as u64) == 0
                && allocate(&mut of_pool, 1 << 20, pool, stream) == 0;
            is_ready.then_some([address, of_pool, stream])
        }
    })
}

/// An array whose owner counts its end. It has elements if `memory` and the driver say so.
fn new_export(freed: &AtomicU32, shape: [u8; 2], kind: u8) -> cai_array {
    let memory = memory().filter(|_| kind % 4 > 0);
    let shape = [shape[0].into(), i64::from(memory.is_some()), i64::from(shape[1])];
    let (mut described, mut out) = (new_array(), new_array());
    described.shape = shape.as_ptr();
    described.ndim = 3;
    described.device.r#type = CAI_DEVICE_CUDA;
    described.typestr[..3].copy_from_slice(&[b'<' as _, b'f' as _, b'4' as _]);
    if let Some([address, of_pool, stream]) = memory.filter(|_| !shape.contains(&0)) {
        described.data = if kind % 4 == 3 { of_pool } else { address } as *mut c_void;
        described.stream = if kind % 4 == 1 { CAI_STREAM_NONE } else { stream };
    }
    // SAFETY: all pointers are valid, and the counter lives longer than the array.
    let made = unsafe { cai_array_create(&described, (&raw const *freed).cast_mut().cast(), Some(count), &mut out, null_mut()) };
    assert_eq!(made, CAI_OK);
    out
}

/// A nonce that no exporter has.
fn new_nonce() -> [u8; 16] {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    [u64::from(std::process::id()).to_le_bytes(), number.to_le_bytes()].concat().try_into().unwrap()
}

fn say(to: &OwnedFd, message: &Message, descriptors: u8, page: Option<&OwnedFd>) {
    let others: Vec<OwnedFd> = (0..descriptors % 4).map(|_| Page::file(SLOTS, 0, true)).collect();
    let all: Vec<&OwnedFd> = page.into_iter().chain(&others).collect();
    let _ = peer::say(to, &message.bytes(), &all);
}

fn run(operations: Vec<Operation>) {
    let (mut exporter, mut importer) = (0, 0);
    let flags = operations.len() as u32 % 2 * CAI_UNSTABLE_CHANNEL_NUMBERS;
    let mut exports: Vec<Export> = Vec::new();
    let mut imported: Vec<(Option<usize>, cai_array)> = Vec::new();
    let mut peers: Vec<Peer> = Vec::new();
    // Of peers that left: a process that lives may have arrays without a connection.
    let mut pages = Vec::new();
    let mut storm: (Option<Arc<Page>>, Vec<(u16, u64)>) = (None, Vec::new());
    // What hostile importers say may keep an export.
    let mut is_calm = true;
    // SAFETY: all pointers are valid; structures that are not initialized are only written.
    unsafe {
        assert_eq!(cai_unstable_channel_create(SLOTS, flags, &mut exporter, null_mut()), CAI_OK);
        assert_eq!(cai_unstable_channel_create(1, 0, &mut importer, null_mut()), CAI_OK);
        for operation in operations.into_iter().take(100) {
            let (page, words) = std::mem::take(&mut storm);
            let count = peers.len().max(1);
            match operation {
                Operation::Export { key, shape, memory } => {
                    let key = key % 4;
                    let known = exports.iter().position(|it| key != 0 && it.key == key && !it.is_withdrawn);
                    let freed = Box::new(AtomicU32::new(0));
                    let mut array = match known {
                        Some(known) => exports[known].array,
                        None => new_export(&freed, shape, memory),
                    };
                    let (mut bytes, mut size, mut number) = ([0u8; CAI_UNSTABLE_IPC_SIZE], 0, 0);
                    let is_full = exports.iter().filter(|it| !it.is_over()).count() == SLOTS as usize;
                    let (to, length) = (bytes.as_mut_ptr().cast(), bytes.len());
                    let status = beside(page, &words, || {
                        cai_unstable_channel_export(exporter, key.into(), &array, to, length, &mut size, &mut number, null_mut())
                    });
                    if let Some(known) = known {
                        assert_eq!((status, number), (CAI_OK, exports[known].number));
                        assert_eq!(bytes[..size], exports[known].record[..]);
                        continue;
                    }
                    let is_full = if is_calm { is_full } else { status == CAI_ERR_IPC_FULL };
                    assert_eq!(status, if is_full { CAI_ERR_IPC_FULL } else { CAI_OK });
                    let description = array;
                    cai_array_release(&mut array);
                    assert_eq!(freed.load(Ordering::Relaxed), is_full.into());
                    if !is_full {
                        assert!(exports.iter().all(|it| it.number != number));
                        let record = bytes[..size].to_vec();
                        let (is_withdrawn, claims, array) = (false, 0, description);
                        exports.push(Export { number, key, record, is_withdrawn, claims, freed, array });
                    }
                }
                Operation::Withdraw { which, change } => {
                    let which = usize::from(which) % exports.len().max(1);
                    let number = exports.get(which).map_or(0, |it| it.number) ^ change;
                    let found = exports.iter_mut().find(|it| it.number == number && !it.is_withdrawn);
                    let expected = if found.is_some() { CAI_OK } else { CAI_ERR_IPC_SLOT };
                    found.into_iter().for_each(|it| it.is_withdrawn = true);
                    let status = beside(page, &words, || cai_unstable_channel_withdraw(exporter, number, null_mut()));
                    assert_eq!(status, expected);
                }
                Operation::Import { which, changes, length } => {
                    let which = usize::from(which) % exports.len().max(1);
                    let Some(known) = exports.get(which) else { continue };
                    let mut bytes = known.record.clone();
                    for (place, value) in changes {
                        let length = bytes.len();
                        bytes[usize::from(place) % length] ^= value;
                    }
                    bytes.truncate(length.map_or(usize::MAX, usize::from));
                    let mut out = new_array();
                    let mut error = MaybeUninit::<cai_error>::zeroed();
                    let from = bytes.as_ptr().cast();
                    let mut import =
                        || cai_unstable_channel_import(importer, from, bytes.len(), &mut out, error.as_mut_ptr());
                    let mut status = import();
                    // For the connection, and for a descriptor.
                    for _ in 0..2 {
                        if status == CAI_ERR_IPC_PENDING {
                            let polled = cai_unstable_channel_poll(exporter, null_mut(), null_mut());
                            assert!(polled == CAI_OK || !is_calm);
                            status = import();
                        }
                    }
                    assert_ne!(status, CAI_ERR_INTERNAL);
                    let known = &exports[which];
                    // The importer may have it open, until it has heard of its end.
                    is_calm &= memory().is_none_or(|[_, of_pool, _]| known.array.data as u64 != of_pool);
                    if status != CAI_OK {
                        assert_eq!(error.assume_init().code, status);
                        assert!(out.owner.is_null());
                        // A process does not open its own memory.
                        let is_legal = status == CAI_ERR_IPC_SLOT && known.is_withdrawn
                            || status == CAI_ERR_IPC_MEMORY && !known.array.data.is_null();
                        assert!(bytes != known.record || is_legal || !is_calm, "status {status}");
                        continue;
                    }
                    // The one that the slot and its generation name, unless a hostile exporter has it.
                    let number = word(&bytes, 76) << 32 | word(&bytes, 72);
                    let is_ours = bytes[40..56] == known.record[40..56];
                    let which = exports.iter().position(|it| it.number == number).filter(|_| is_ours);
                    assert_eq!(out.data.is_null(), out.stream == CAI_STREAM_NONE);
                    let which = which.unwrap();
                    assert!(!exports[which].is_withdrawn);
                    exports[which].claims += 1;
                    imported.push((Some(which), out));
                }
                Operation::Release { which } => {
                    if !imported.is_empty() {
                        let which = usize::from(which) % imported.len();
                        let (export, mut array) = imported.swap_remove(which);
                        beside(page, &words, || cai_array_release(&mut array));
                        export.into_iter().for_each(|export| exports[export].claims -= 1);
                    }
                }
                Operation::Join { surplus, is_bare, hello, descriptors } => {
                    let Some(known) = exports.first().filter(|_| peers.len() < PEERS) else { continue };
                    let Some(connection) = peer::connect(&known.record[40..56]) else { continue };
                    let file = Page::file(SLOTS, surplus, !is_bare);
                    if let Some(hello) = hello {
                        say(&connection, &hello, descriptors, Some(&file));
                    }
                    is_calm = false;
                    peers.push(Peer { connection: Some(connection), page: Some(Page::map(&file)), listener: None });
                }
                Operation::Offer { which, peer, changes, accepts } => {
                    let which = usize::from(which) % exports.len().max(1);
                    let Some(known) = exports.get(which) else { continue };
                    let place = usize::from(peer) % PEERS;
                    if peers.get(place).is_none_or(|it| it.listener.is_none()) {
                        if peers.len() == PEERS {
                            continue;
                        }
                        let nonce = new_nonce();
                        let listener = Some((peer::listen(&nonce), nonce));
                        peers.push(Peer { connection: None, page: None, listener });
                    }
                    let Some(peer) = peers.iter_mut().rfind(|it| it.listener.is_some()) else { continue };
                    let Some((listener, nonce)) = &peer.listener else { continue };
                    let mut bytes = known.record.clone();
                    bytes[40..56].copy_from_slice(nonce);
                    for (place, value) in changes {
                        let length = bytes.len();
                        bytes[usize::from(place) % length] ^= value;
                    }
                    let mut out = new_array();
                    let from = bytes.as_ptr().cast();
                    let mut import = || cai_unstable_channel_import(importer, from, bytes.len(), &mut out, null_mut());
                    let mut status = beside(page, &words, &mut import);
                    if let Some((connection, page)) = peer::accept(listener) {
                        (peer.connection, peer.page) = (Some(connection), Some(page));
                    }
                    if let Some(page) = peer.page.as_ref().filter(|_| accepts && status != CAI_OK) {
                        let (slot, generation) = (word(&bytes, 72), word(&bytes, 76));
                        // Of a table with this number of slots.
                        let at = 4 * (word(&bytes, 60) + slot);
                        page.set(0, 1);
                        page.set(512 + at as usize / 8, generation << (8 * (at % 8)));
                        status = beside(Some(page.clone()), &words, &mut import);
                    }
                    assert_ne!(status, CAI_ERR_INTERNAL);
                    if status == CAI_OK {
                        assert_eq!(cai_array_validate(&out, CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
                        assert!(!out.owner.is_null() && out.data.is_null());
                        imported.push((None, out));
                    }
                }
                Operation::Say { peer, message, descriptors } => {
                    if let Some(Peer { connection: Some(to), .. }) = peers.get(usize::from(peer) % count) {
                        say(to, &message, descriptors, None);
                    }
                }
                Operation::Change { peer, words } => {
                    if let Some(Peer { page: Some(page), .. }) = peers.get(usize::from(peer) % count) {
                        words.iter().for_each(|(word, value)| page.set(word.index().into(), *value));
                    }
                }
                Operation::Storm { peer, words } => {
                    let page = peers.get(usize::from(peer) % count).and_then(|peer| peer.page.clone());
                    storm = (page, words.iter().map(|(word, value)| (word.index(), *value)).collect());
                }
                Operation::Leave { peer, is_clear } => {
                    if !peers.is_empty() {
                        let peer = peers.swap_remove(usize::from(peer) % count);
                        peer.page.iter().filter(|_| is_clear).for_each(|page| page.clear());
                        pages.extend(peer.page);
                    }
                }
                Operation::Poll => {
                    let polled = beside(page.clone(), &words, || {
                        cai_unstable_channel_poll(importer, null_mut(), null_mut())
                    });
                    assert_eq!(polled, CAI_OK);
                    let polled = beside(page, &words, || {
                        cai_unstable_channel_poll(exporter, null_mut(), null_mut())
                    });
                    assert_eq!(polled, CAI_OK);
                }
            }
            let mut left = 0;
            // The importer hears of memory that may be freed, and says that it has none of it.
            assert_eq!(cai_unstable_channel_poll(exporter, null_mut(), null_mut()), CAI_OK);
            assert_eq!(cai_unstable_channel_poll(importer, null_mut(), null_mut()), CAI_OK);
            let polled = cai_unstable_channel_poll(exporter, &mut left, null_mut());
            assert_eq!(polled, CAI_OK);
            assert!(exports.iter().all(|it| it.freed() <= u32::from(it.is_over())));
            if is_calm {
                assert_eq!(left, exports.iter().filter(|it| !it.is_over()).count() as u64);
                assert!(exports.iter().all(|it| it.freed() == u32::from(it.is_over())));
            }
        }
        for (_, mut array) in imported {
            cai_array_release(&mut array);
        }
        pages.extend(peers.iter_mut().filter_map(|peer| peer.page.take()));
        pages.iter().for_each(|page| page.clear());
        drop((peers, pages, storm));
        for export in exports.iter().filter(|it| !it.is_withdrawn) {
            assert_eq!(cai_unstable_channel_withdraw(exporter, export.number, null_mut()), CAI_OK);
        }
        let mut left = 1;
        for tries in 0.. {
            assert_eq!(cai_unstable_channel_poll(importer, null_mut(), null_mut()), CAI_OK);
            assert_eq!(cai_unstable_channel_poll(exporter, &mut left, null_mut()), CAI_OK);
            if left == 0 && exports.iter().all(|it| it.freed() == 1) {
                break;
            }
            // Memory is closed, and arrays are released, on another thread.
            assert!(tries < 10_000);
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        assert_eq!(cai_unstable_channel_release(importer, null_mut()), CAI_OK);
        assert_eq!(cai_unstable_channel_release(exporter, null_mut()), CAI_OK);
    }
    assert!(exports.iter().all(|it| it.freed() == 1));
}

fuzz_target!(|operations: Vec<Operation>| {
    memory();
    let before = peer::descriptors();
    run(operations);
    // The last user of a connection may be memory that another thread closes.
    for _ in 0..1000 {
        if peer::descriptors() == before {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(peer::descriptors(), before);
});
