//! Arrays as bytes for other processes.
//!
//! The exporter describes the allocations, and where the array and its masks lie in them; an
//! address has no meaning in another process. The work that is pending on all of them becomes one
//! event that the importer can wait for. The importer trusts no byte: what the bytes claim is
//! compared with what the driver maps.

mod bytes;
#[cfg(target_os = "linux")]
pub mod channel;

use std::ffi::c_void;
use std::fmt::{self, Write};
use std::{iter, ptr};

use crate::abi::{
    self, CAI_STREAM_NONE, CAI_UNSTABLE_IPC_FIELDS, cai_array, cai_device, cai_pointer_info,
};
use crate::argument::Buffer;
use crate::device::{Name, may_be_cuda};
use crate::driver::{
    self, Allocation, CallingThread, Descriptor, MemoryKind, SharedEvent, SharedMemory,
    TemporaryStream,
};
use crate::dtype::{self, text};
use crate::error::{Count, Failure, Result, fail, failure};
use crate::layout::{Layout, Span};
use crate::memory;
use crate::owner::description::{self, OwnedFields};
use crate::owner::{self, Array, Destructor, Ref};
use crate::read::{self, Built, Descr, Dimensions, Given};
use crate::sync::consume::{self, Phase};
use crate::validate::{Described, Valid};
use bytes::{List, Message, Part, Raw};

/// An array that was checked, ready to be exported.
pub struct Source<'a> {
    array: Valid<'a>,
    /// The first array of the chain with elements.
    first: Option<cai_array>,
    /// The allocations, in the order of the message.
    places: List<cai_pointer_info>,
    message: Message<Dimensions<'a>>,
    fields: Option<Descr<'a>>,
    text: usize,
    pub length: usize,
}

/// The descriptor that another process needs beside the bytes, and the owner that keeps both valid.
pub struct Export {
    descriptor: Option<Descriptor>,
    owner: Ref,
}

impl Export {
    /// Returns the owner, and the descriptor, or -1.
    pub fn into_parts(self) -> (Ref, i32) {
        (self.owner, self.descriptor.map_or(-1, Descriptor::into_raw))
    }
}

impl<'a> Source<'a> {
    /// Asks the driver about the memory of an array and its masks.
    pub fn new(array: Valid<'a>) -> Result<Self> {
        Source::with(array, &mut |array| {
            Ok(Found { info: allocation(array)?, uuid: [0; 16], handle: [0; 64] })
        })
    }

    /// As [`new`](Self::new), with a function that finds the allocation of an array or mask.
    fn with(array: Valid<'a>, find: Find) -> Result<Self> {
        owner::not_borrowed(array.owner)?;
        let mut source = Source {
            array,
            first: None,
            places: List::new(),
            message: Message::new(),
            fields: None,
            text: 0,
            length: 0,
        };
        if let Some(fields) = array.fields().filter(|_| dtype::has_fields(&array)) {
            source.text =
                text_length(fields).map_err(|failure| failure.within(format_args!("descr")))?;
            source.fields = Some(fields);
        }
        for (depth, array) in iter::once(array).chain(array.masks()).enumerate() {
            source.add(array, find).map_err(|failure| failure.in_mask(depth))?;
        }
        source.length = source.message.length(source.text);
        Ok(source)
    }

    fn add(&mut self, array: Valid<'a>, find: Find) -> Result<()> {
        if !may_be_cuda(array.device.r#type) {
            return fail!(CAI_ERR_CONVERT_DEVICE, "device.type";
                found "{}", Name(array.device.r#type); expected "a CUDA device");
        }
        let Layout { shape, strides, .. } = array.layout();
        let mut part = Part {
            place: None,
            is_readonly: array.flags & abi::CAI_ARRAY_READONLY != 0,
            dtype_code: array.dtype_code,
            typestr: array.typestr,
            offset: 0,
            dimensions: (shape, strides),
        };
        if !array.data.is_null() {
            let found = find(&array)?;
            check_inside(&array, &found.info)?;
            part.offset = (array.data as u64).wrapping_sub(found.info.base as u64);
            part.place = Some(self.place(found)?);
            if array.stream != abi::CAI_STREAM_NONE {
                self.message.event = Some([0; 64]);
            }
            self.first.get_or_insert(*array);
        }
        self.message.parts.push(part)?;
        Ok(())
    }

    /// Returns the index of an allocation, which is added if it is new.
    fn place(&mut self, Found { info, uuid, handle }: Found) -> Result<usize> {
        if let Some(known) = self.places.iter().position(|known| known.base == info.base) {
            return Ok(known);
        }
        let kind = MemoryKind::of(&info);
        // One descriptor goes with the bytes: a pool has one for all of its memory.
        let is_other = |known: &cai_pointer_info| {
            let is_same_pool = !info.pool.is_null() && known.pool == info.pool;
            MemoryKind::of(known).needs_descriptor() && !is_same_pool
        };
        if kind.needs_descriptor() && self.places.iter().any(is_other) {
            return fail!(CAI_ERR_CONVERT_MASK, "data";
                found "{:p}, in memory that needs a second file descriptor", info.base;
                expected "the same allocation or pool as the array: export the mask as an array of \
                    its own");
        }
        self.message.allocations.push(Allocation { kind, uuid, size: info.size, handle })?;
        self.places.push(info)
    }

    /// Returns true if a file descriptor goes with the bytes.
    pub fn needs_descriptor(&self) -> bool {
        self.message.needs_descriptor()
    }

    /// Writes the bytes and makes an owner that keeps array and event alive; on failure neither.
    pub fn export(self, out: &mut Buffer<u8>) -> Result<Export> {
        self.export_to(out).map_err(explained)
    }

    fn export_to(mut self, out: &mut Buffer<u8>) -> Result<Export> {
        let mut descriptor = None;
        let mut event = None;
        if let Some(first) = &self.first {
            let thread = &CallingThread::new(driver::driver()?);
            thread.relaxed(|| {
                for (info, to) in self.places.iter().zip(self.message.allocations.iter_mut()) {
                    to.uuid = driver::uuid_of(thread, info.device.id)?;
                    to.handle = driver::export_memory(thread, info, &mut descriptor)?;
                }
                Ok(())
            })?;
            if self.message.event.is_some() {
                let made = record(first, &self.array)?;
                self.message.event = Some(made.handle()?);
                event = Some(made);
            }
        }
        let mut owner = self.array.retain()?;
        if let Some(event) = event {
            let (prepared, event) = (owner::prepare()?, memory::boxed(event)?);
            owner = prepared.finish(Some(owner), Destructor::drops(event)).owner;
        }
        self.write(out);
        Ok(Export { descriptor, owner })
    }

    fn write(&self, out: &mut Buffer<u8>) {
        self.message.write(self.length, self.text, out);
        if let Some(fields) = self.fields {
            // Measured in `new`, so this cannot fail.
            let _ = text::format(fields, out);
        }
    }
}

impl Write for Buffer<'_, u8> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text.as_bytes());
        Ok(())
    }
}

/// Counts bytes.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

fn text_length(fields: Descr) -> Result<usize> {
    without_codes(fields)?;
    let mut length = Length(0);
    text::format(fields, &mut length)?;
    let Length(length) = length;
    if length > CAI_UNSTABLE_IPC_FIELDS {
        return fail!(CAI_ERR_CONVERT_TYPE, "";
            found "fields whose text has {}", Count(length, "byte");
            expected "at most {CAI_UNSTABLE_IPC_FIELDS}");
    }
    Ok(length)
}

/// Fails for fields whose type the text cannot express.
fn without_codes(fields: Descr) -> Result<()> {
    for (index, field) in fields.fields().enumerate() {
        if field.dtype_code != abi::CAI_DTYPE_NONE {
            return fail!(CAI_ERR_CONVERT_TYPE, "[{index}].dtype_code";
                found "{}", field.dtype_code; expected "fields that the typestr alone describes");
        }
        if let Some(nested) = field.nested()? {
            without_codes(nested)
                .map_err(|failure| failure.within(format_args!("[{index}].nested")))?;
        }
    }
    Ok(())
}

/// The allocation that an array or a mask lies in. Device and handle may be filled in later.
struct Found {
    info: cai_pointer_info,
    uuid: [u8; 16],
    handle: [u8; 64],
}

type Find<'f> = &'f mut dyn FnMut(&Valid) -> Result<Found>;

/// Returns the allocation that an array begins in, which must be device memory.
fn allocation(array: &Valid) -> Result<cai_pointer_info> {
    let thread = &CallingThread::new(driver::driver()?);
    let info = thread.relaxed(|| driver::attributes(thread, array.data))?;
    if info.device.r#type != abi::CAI_DEVICE_CUDA || info.size == 0 || !info.mapped {
        return fail!(CAI_ERR_IPC_MEMORY, "data";
            found "{:p}, {}", array.data, Name(info.device.r#type);
            expected "an allocation of device memory");
    }
    Ok(info)
}

/// Fails if an array extends beyond the allocation that it begins in.
fn check_inside(array: &Valid, info: &cai_pointer_info) -> Result<()> {
    let span = array.span();
    let low = (array.data as u64).wrapping_add_signed(span.lower);
    let high = (array.data as u64).wrapping_add_signed(span.upper);
    let (start, end) = (info.base as u64, (info.base as u64).saturating_add(info.size));
    if low < start || high > end {
        return fail!(CAI_ERR_OUT_OF_ALLOCATION, "data";
            found "bytes from {low:#x} up to {high:#x}";
            expected "bytes of one allocation, from {start:#x} up to {end:#x}");
    }
    Ok(())
}

/// Records an event after the pending work on an array and its masks, in the context of `first`.
fn record(first: &cai_array, array: &Valid) -> Result<SharedEvent> {
    let inside = consume::Inside::of(first)?;
    // The array's stream may be one that this context cannot record events on.
    let (event, stream) =
        inside.run(|driver| Ok((SharedEvent::new(driver)?, TemporaryStream::new(driver)?)))?;
    let access = abi::CAI_ACCESS_READ;
    // In the caller's context, which a default stream of the array may be of.
    consume::exchange_all_work(Phase::Begin, array.unchecked(), stream.value(), access)?;
    inside.run(move |_| stream.record(&event).map(|()| event))
}

/// Memory of this process in which an array of a message lies.
#[derive(Clone, Copy)]
struct Place {
    base: u64,
    size: u64,
    device: i32,
    /// The address of a `CUcontext`.
    context: usize,
}

impl Place {
    /// Returns the place of memory that was opened, of which only the driver knows the size.
    fn of(thread: &CallingThread, memory: &SharedMemory) -> Result<Place> {
        let info = driver::attributes(thread, memory.base() as *const c_void)?;
        let device = memory.device();
        if (info.device != cai_device { r#type: abi::CAI_DEVICE_CUDA, id: device }) {
            return fail!(CAI_ERR_IPC_DEVICE, "bytes";
                found "device {device}, by its UUID";
                expected "device {}, where the memory is", info.device.id);
        }
        let (base, context) = (memory.base(), memory.context().addr());
        let skipped = base.saturating_sub(info.base as u64);
        Ok(Place { base, size: info.size.saturating_sub(skipped), device, context })
    }

    /// Lets an array lie here, if the memory is large enough.
    fn put(&self, offset: u64, span: Span, array: &mut cai_array) -> Result<()> {
        if ends(offset, span).is_none_or(|(_, high)| high > self.size) {
            return outside(offset, span, self.size);
        }
        array.data = self.base.saturating_add(offset) as *mut c_void;
        array.device = cai_device { r#type: abi::CAI_DEVICE_CUDA, id: self.device };
        array.context = self.context as *mut c_void;
        Ok(())
    }
}

/// The memory of an array and of its masks, and how work on it is ordered.
struct Opened<T> {
    places: List<Place>,
    stream: abi::cai_stream,
    event: *mut c_void,
    /// Dropped when the array is released.
    keep: T,
}

/// Makes an array of bytes that come from anywhere. `descriptor` is not closed.
pub fn import(bytes: &[u8], descriptor: i32) -> Result<Array> {
    let (message, text) = &Message::read(bytes)?;
    assemble(message, text, |_| open(message, descriptor).map_err(explained))
}

/// Replaces the driver's failure by its reason if the process has no free descriptor: drivers return
/// codes that mean something else.
#[cold]
fn explained(failure: Failure) -> Failure {
    let code = failure.details().map_or(0, |details| details.driver_code);
    #[cfg(unix)]
    if code != 0 {
        let error = std::fs::File::open("/dev/null").err();
        if error.and_then(|error| error.raw_os_error()) == Some(libc::EMFILE) {
            return failure!(abi::CAI_ERR_IPC_SYSTEM, "fd";
                found "no free file descriptor in this process";
                expected "one for each export, and more for each import: raise `ulimit -n`, or use \
                    a channel (cai_unstable_channel_create)")
            .driver(code);
        }
    }
    failure
}

/// Opens the memory of a message, and its event.
fn open(message: &Message<Raw>, descriptor: i32) -> Result<Opened<List<SharedMemory>>> {
    let (mut places, mut keep) = (List::new(), List::new());
    let (mut stream, mut event) = (CAI_STREAM_NONE, ptr::null_mut());
    if message.allocations.len() > 0 {
        if descriptor < 0 && message.needs_descriptor() {
            return fail!(CAI_ERR_ARGUMENT, "fd";
                found "{descriptor}";
                expected "the file descriptor that cai_unstable_ipc_export returned with the \
                    bytes");
        }
        let thread = &CallingThread::new(driver::driver()?);
        let mut pool = None;
        thread.relaxed(|| {
            for from in message.allocations.iter() {
                let device = driver::device_of(thread, &from.uuid)?;
                let memory = SharedMemory::open(thread, device, from, descriptor, &mut pool)?;
                places.push(Place::of(thread, &memory)?)?;
                keep.push(memory)?;
            }
            if let (Some(handle), Some(first)) = (message.event, keep.iter_mut().next()) {
                event = first.open_event(thread, handle)?.cast();
                stream = abi::CAI_STREAM_UNKNOWN;
            }
            Ok(())
        })?;
    }
    Ok(Opened { places, stream, event, keep })
}

/// Makes the array of a message, whose memory `open` opens once the message is known to be sound.
fn assemble<T: Send + 'static>(
    message: &Message<Raw>,
    text: &[u8],
    open: impl FnOnce(bool) -> Result<Opened<T>>,
) -> Result<Array> {
    let count = message.parts.iter().map(|part| 2 * part.dimensions.ndim()).sum();
    let mut numbers = memory::with_capacity(count)?;
    message.parts.iter().for_each(|part| numbers.extend(part.dimensions.numbers()));
    let mut rest = numbers.as_slice();
    let mut next = |count| -> Result<&[i64]> {
        let (values, behind) = rest.split_at_checked(count).ok_or_else(Failure::internal)?;
        rest = behind;
        Ok(values)
    };
    let mut arrays = List::new();
    for (depth, part) in message.parts.iter().enumerate() {
        let ndim = part.dimensions.ndim();
        let shape = next(ndim)?;
        let strides = if part.dimensions.has_strides() { Some(next(ndim)?) } else { None };
        let array = described(&message.allocations, part, (shape, strides));
        arrays.push(array.map_err(|failure| failure.in_mask(depth))?)?;
    }
    let fields = parse_fields(text)?;
    let is_readonly = message.parts.get(0).is_some_and(|part| part.is_readonly);
    let Opened { places, stream, event, keep } = open(is_readonly)?;
    for (part, (array, span)) in message.parts.iter().zip(arrays.iter_mut()) {
        let place = part.place.and_then(|place| places.get(place));
        let Some(place) = place else { continue };
        place.put(part.offset, *span, array)?;
        array.event = event;
        array.stream = stream;
    }
    if let (Some((array, _)), Some(fields)) = (arrays.iter_mut().next(), &fields) {
        array.descr = fields.as_ptr();
    }
    let mut array = ptr::null();
    for (part, _) in arrays.iter_mut().rev() {
        part.mask = array;
        array = part;
    }
    // SAFETY: a message has a first array, to which this points. Shape and strides refer to
    // `numbers`, the fields to `fields`, and the masks to `arrays`, none of which changes. There are no
    // owners.
    let array = unsafe { Given::new(array) };
    let array = array.valid(abi::CAI_CHECK_LAYOUT)?;
    let prepared = array.prepare()?;
    Ok(prepared.finish(Destructor::drops(memory::boxed(keep)?)))
}

/// Parses the text of a message, which is empty without fields.
#[inline(never)]
fn parse_fields(text: &[u8]) -> Result<Option<OwnedFields>> {
    if text.is_empty() {
        return Ok(None);
    }
    let Ok(text) = std::str::from_utf8(text) else {
        return mismatch("fields that are not UTF-8");
    };
    let fields = text::parse(text).map_err(|failure| failure.at(format_args!("bytes")))?;
    description::new_descr(&fields).map(Some)
}

/// Returns the array of a part, without its memory, and what it spans. The bytes must not contradict
/// themselves, whatever the driver maps.
fn described(
    allocations: &List<Allocation>,
    part: &Part<Raw>,
    (shape, strides): Dimensions,
) -> Result<(cai_array, Span)> {
    let array = cai_array {
        flags: if part.is_readonly { abi::CAI_ARRAY_READONLY } else { 0 },
        dtype_code: part.dtype_code,
        typestr: part.typestr,
        ..read::NOTHING
    };
    let built = Built::new(array, shape, strides);
    let span = Described::new(built.unchecked())?.layout.span()?;
    let allocation = part.place.and_then(|place| allocations.get(place));
    // An array spans no bytes exactly if it has no elements.
    if allocation.is_some() != (span.upper > 0) {
        return mismatch("elements without memory, or memory without elements");
    }
    if let Some(allocation) = allocation {
        if ends(part.offset, span).is_none_or(|(_, high)| high > allocation.size) {
            return outside(part.offset, span, allocation.size);
        }
    }
    Ok((*built.unchecked(), span))
}

/// Returns where the bytes of an array begin and end.
fn ends(start: u64, span: Span) -> Option<(u64, u64)> {
    Some((start.checked_add_signed(span.lower)?, start.checked_add_signed(span.upper)?))
}

#[cold]
#[inline(never)]
fn outside<T>(offset: u64, span: Span, size: u64) -> Result<T> {
    fail!(CAI_ERR_OUT_OF_ALLOCATION, "bytes";
        found "bytes from {} to {} of byte {offset}", span.lower, span.upper;
        expected "bytes of an allocation of {}", Count(size, "byte"))
}

#[cold]
#[inline(never)]
fn mismatch<T>(found: &str) -> Result<T> {
    bytes::malformed("bytes", found)
}
