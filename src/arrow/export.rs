//! Arrow structures from arrays.
//!
//! A consumer may move a child out of its parent and release both in any order. So every structure
//! holds a reference to the block that all of them are in.

use std::alloc::{Layout as MemoryLayout, dealloc};
use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr;

use crate::abi::{self, CAI_MAX_NDIM, cai_array, cai_owner};
use crate::arrow::abi::{Array, DeviceArray, NULLABLE, Schema};
use crate::arrow::format::{self, Element};
use crate::dtype::NATIVE;
use crate::error::{Failure, Result, fail};
use crate::memory::Memory;
use crate::owner::Count;
use crate::sync::mark::{self, Kept};
use crate::{dlpack, dtype, layout, owner, read, validate};

const DIMENSIONS: usize = CAI_MAX_NDIM as usize;

/// The canonical extension type of booleans of one byte each, as metadata: the number of pairs, and
/// each text behind its size.
static BOOL8: [u8; 75] = {
    let key = *b"ARROW:extension:name";
    let name = *b"arrow.bool8";
    let second = *b"ARROW:extension:metadata";
    let parts: [&[u8]; 8] = [
        &2i32.to_ne_bytes(),
        &(key.len() as i32).to_ne_bytes(),
        &key,
        &(name.len() as i32).to_ne_bytes(),
        &name,
        &(second.len() as i32).to_ne_bytes(),
        &second,
        &0i32.to_ne_bytes(),
    ];
    let (mut out, mut used, mut part) = ([0; 75], 0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            out[used] = parts[part][index];
            (used, index) = (used + 1, index + 1);
        }
        part += 1;
    }
    assert!(used == out.len());
    out
};

/// An array as Arrow describes it.
struct Export<'a> {
    shape: &'a [i64],
    element: Element,
    /// The bitmap of each level, or NULL.
    bitmaps: [*const c_void; DIMENSIONS],
    data: *const c_void,
    owner: *mut cai_owner,
}

#[cold]
fn no_type<T>(array: &cai_array) -> Result<T> {
    let text = read::typestr(&array.typestr).unwrap_or_default();
    fail!(
        CAI_ERR_CONVERT_TYPE,
        "typestr",
        found = ("\"{}\"", text.escape_ascii()),
        expected = "a type of Arrow: b1, t1, i and u of 1 to 8 bytes, f2 f4 f8, M8 and m8 of s ms \
         us ns, S, V without fields and dtype_code"
    )
}

/// Checks that an array has a form that Arrow can express.
///
/// # Safety
/// `array` is readable as [`validate::array`] requires.
unsafe fn convert(array: &cai_array) -> Result<Export<'_>> {
    // Consumers take values for aligned, which Arrow recommends.
    // SAFETY: readable (this function's contract).
    unsafe { validate::array(array, abi::CAI_CHECK_LAYOUT | abi::CAI_CHECK_ALIGNMENT) }?;
    owner::not_borrowed(array.owner)?;
    // SAFETY: as above, and validated.
    let validate::Described { dtype, layout } = unsafe { validate::describe(array) }?;
    let element = if dtype::has_fields(array) { None } else { format::element(&dtype) };
    let Some(element) = element else { return no_type(array) };
    if !dtype::is_native(&dtype) {
        let text = read::typestr(&array.typestr).unwrap_or_default();
        return fail!(
            CAI_ERR_CONVERT_BYTE_ORDER,
            "typestr",
            found = ("\"{}\"", text.escape_ascii()),
            expected = ("the byte order of this machine, '{}'", NATIVE as char)
        );
    }
    let Some(lists) = layout.shape.get(1..) else {
        return fail!(
            CAI_ERR_CONVERT_NDIM,
            "ndim",
            found = "0",
            expected = "at least 1, for Arrow's arrays have a length"
        );
    };
    for (index, &extent) in lists.iter().enumerate() {
        if i32::try_from(extent).is_err() {
            return fail!(
                CAI_ERR_CONVERT_TYPE,
                ("shape[{}]", index + 1),
                found = "{extent}",
                expected = "at most 2^31 - 1, the largest size of Arrow's lists"
            );
        }
    }
    if !layout.is_c_contiguous() {
        return fail!(
            CAI_ERR_CONVERT_CONTIGUOUS,
            "strides",
            found = "gaps or another order",
            expected = "a C-contiguous array, for Arrow has no strides"
        );
    }
    let mut bitmaps = [ptr::null(); DIMENSIONS];
    if !array.mask.is_null() && !array.data.is_null() {
        // SAFETY: validated with the array.
        unsafe { add_masks(array, layout.shape, &mut bitmaps) }?;
    }
    Ok(Export { shape: layout.shape, element, bitmaps, data: array.data, owner: array.owner })
}

/// Finds the level of each mask.
///
/// # Safety
/// The array was validated, and has a mask.
unsafe fn add_masks(
    array: &cai_array,
    shape: &[i64],
    bitmaps: &mut [*const c_void; DIMENSIONS],
) -> Result<()> {
    let mut next = array.mask;
    // At most `CAI_MAX_MASKS` of them, because the array was validated.
    for depth in 1.. {
        let inside = |failure: Failure| failure.in_mask(depth);
        // SAFETY: a mask of a validated array, and not NULL by the condition below.
        let mask = unsafe { read::array(next) }.map_err(inside)?;
        // SAFETY: as above.
        let bitmap = unsafe { level_of(array, &mask, shape, bitmaps) }.map_err(inside)?;
        *bitmap = mask.data;
        if mask.mask.is_null() {
            break;
        }
        next = mask.mask;
    }
    Ok(())
}

/// Returns the place for the bitmap that a mask is.
///
/// # Safety
/// The mask was validated.
unsafe fn level_of<'a>(
    array: &cai_array,
    mask: &cai_array,
    shape: &[i64],
    bitmaps: &'a mut [*const c_void; DIMENSIONS],
) -> Result<&'a mut *const c_void> {
    // SAFETY: validated (this function's contract).
    let validate::Described { dtype, layout } = unsafe { validate::describe(mask) }?;
    if dtype.bits != 1 {
        let text = read::typestr(&mask.typestr).unwrap_or_default();
        return fail!(
            CAI_ERR_CONVERT_MASK,
            "typestr",
            found = ("\"{}\"", text.escape_ascii()),
            expected = "|t1, a bitmap"
        );
    }
    if mask.device != array.device && mask.device.r#type != abi::CAI_DEVICE_UNKNOWN {
        return fail!(
            CAI_ERR_CONVERT_MASK,
            "device",
            found = "another device than the array's",
            expected = "the same, for Arrow's buffers are all on one device"
        );
    }
    // A bitmap has a bit for each element of a level, and none for those of the levels inside.
    let lead = shape.len() - layout.shape.len();
    let extents = || std::iter::repeat_n(&1, lead).chain(layout.shape);
    let level = extents()
        .enumerate()
        .fold(0, |level, (index, &extent)| if extent == 1 { level } else { index });
    let fits = extents().zip(shape).take(level + 1).all(|(extent, of)| extent == of);
    // Levels have as many elements if the lists of the inner ones have one each. A mask comes
    // before its own mask, which is that of a level further out.
    let same = shape.get(level + 1..).unwrap_or_default().iter().take_while(|&&of| of == 1).count();
    let free = bitmaps.get_mut(level..=level + same).unwrap_or_default();
    match free.iter_mut().rfind(|bitmap| bitmap.is_null()) {
        Some(bitmap) if fits => Ok(bitmap),
        _ => fail!(
            CAI_ERR_CONVERT_MASK,
            "shape",
            found = "an extent of 1 where the array's is larger, or a second mask for a dimension",
            expected = "the array's extents, with 1 for trailing ones only"
        ),
    }
}

/// The structures of one level.
#[repr(C)]
struct Level<T> {
    /// In the block of the parent's; the outermost one is the caller's instead.
    structure: T,
    child: *mut T,
    rest: Rest,
}

#[derive(Clone, Copy)]
#[repr(C)]
union Rest {
    buffers: [*const c_void; 2],
    format: [u8; format::SIZE],
}

/// What all structures of one tree hold a reference to. As many levels as dimensions follow.
#[repr(C)]
struct Block {
    count: Count,
    size: usize,
    /// NULL in a schema.
    owner: *mut cai_owner,
    /// What `sync_event` points to.
    event: *mut c_void,
    kept: Option<Kept>,
}

const _: () = assert!(size_of::<Block>() % align_of::<Level<Array>>() == 0);
const _: () = assert!(size_of::<Block>() % align_of::<Level<Schema>>() == 0);

fn layout_of(size: usize) -> MemoryLayout {
    // SAFETY: the alignment is a power of two, and the size is that of a block with 64 levels at
    // most.
    unsafe { MemoryLayout::from_size_align_unchecked(size, align_of::<Block>()) }
}

/// Allocates a block for so many levels.
fn allocate<T>(levels: usize) -> Result<(Memory, usize)> {
    let size = size_of::<Block>() + levels * size_of::<Level<T>>();
    Ok((Memory::new(layout_of(size))?, size))
}

/// Gives up one reference to a block.
///
/// # Safety
/// A structure held it, which is not used any more.
unsafe fn give_up(block: *mut Block) {
    // SAFETY: alive, because the structure held a reference (this function's contract).
    if unsafe { !(*block).count.release() } {
        return;
    }
    // SAFETY: that was the last reference, so nothing else refers to the block.
    let Block { size, owner, kept, .. } = unsafe { block.read() };
    // Freed first, so that nothing leaks if the owner's release ends the thread.
    // SAFETY: allocated by `allocate` with this layout.
    unsafe { dealloc(block.cast(), layout_of(size)) };
    drop(kept);
    if !owner.is_null() {
        // SAFETY: the block held one reference, which `to_arrow` added.
        unsafe { owner::release(owner) };
    }
}

macro_rules! release {
    ($name:ident, $structure:ident) => {
        /// The release callback. Does nothing for a structure that was released or moved.
        unsafe extern "C-unwind" fn $name(structure: *mut $structure) {
            // SAFETY: NULL, or a structure that the caller owns.
            let Some(structure) = (unsafe { structure.as_mut() }) else { return };
            if structure.release.take().is_none() {
                return;
            }
            for index in 0..structure.n_children.max(0) as usize {
                // SAFETY: only `fill` makes structures with this callback, and their children are
                // in the block, to which this one still holds a reference.
                unsafe {
                    let child = structure.children.add(index).read();
                    if let Some(release) = (*child).release {
                        release(child);
                    }
                }
            }
            // SAFETY: the structure's reference, which is given up once, because `release` was
            // still set.
            unsafe { give_up(structure.private_data.cast()) };
        }
    };
}

release!(release_array, Array);
release!(release_schema, Schema);

/// Fills the levels of a block from the innermost one on. Returns the outermost structure.
///
/// # Safety
/// `block` was allocated for so many levels, and its head is written; `make` gets the number of a
/// level, its number of children, their addresses, and the rest of the level.
unsafe fn fill<T>(
    block: *mut Block,
    levels: usize,
    mut make: impl FnMut(usize, i64, *mut *mut T, *mut Rest) -> T,
) -> T {
    // SAFETY: the levels follow the head, and are as many (this function's contract).
    let at = |index: usize| unsafe { block.add(1).cast::<Level<T>>().add(index) };
    for index in (1..levels).rev() {
        let inner = index + 1 < levels;
        let level = at(index);
        // SAFETY: inside the block; only addresses of members are computed, and written.
        unsafe {
            let children = &raw mut (*level).child;
            children.write(if inner {
                &raw mut (*at(index + 1)).structure
            } else {
                ptr::null_mut()
            });
            let children = if inner { children } else { ptr::null_mut() };
            let structure = make(index, i64::from(inner), children, &raw mut (*level).rest);
            (&raw mut (*level).structure).write(structure);
            (*block).count.retain();
        }
    }
    let inner = levels > 1;
    let level = at(0);
    // SAFETY: as above.
    unsafe {
        let children = &raw mut (*level).child;
        children.write(if inner { &raw mut (*at(1)).structure } else { ptr::null_mut() });
        let children = if inner { children } else { ptr::null_mut() };
        make(0, i64::from(inner), children, &raw mut (*level).rest)
    }
}

/// The type of an array, in `memory` for its levels.
fn schema_of(export: &Export, memory: Memory, size: usize) -> Schema {
    let block = memory.into_raw().cast::<Block>();
    let (owner, event) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the block was allocated for a head and these levels.
    unsafe {
        block.write(Block { count: Count::one(), size, owner, event, kept: None });
        fill(block, export.shape.len(), |index, n_children, children, rest| {
            let sized = |prefix, size| {
                (&raw mut (*rest).format).write(format::sized(prefix, size));
                rest.cast_const().cast::<c_char>()
            };
            let mut metadata = ptr::null();
            let format = match (export.shape.get(index + 1), export.element) {
                (Some(&size), _) => sized("+w:", size),
                (None, Element::Binary(size)) => sized("w:", i64::from(size)),
                (None, Element::Plain(format)) => format.as_ptr(),
                (None, Element::Bool8) => {
                    metadata = BOOL8.as_ptr().cast();
                    c"c".as_ptr()
                }
            };
            Schema {
                format,
                name: if index == 0 { c"" } else { c"item" }.as_ptr(),
                metadata,
                // As in types that Arrow's libraries make. Types that differ in it are not equal.
                flags: NULLABLE,
                n_children,
                children,
                dictionary: ptr::null_mut(),
                release: Some(release_schema),
                private_data: block.cast(),
            }
        })
    }
}

/// The values of an array, in `block`, whose head is written.
///
/// # Safety
/// `block` was allocated for the levels of the array.
unsafe fn array_of(export: &Export, lengths: &[i64], block: *mut Block) -> Array {
    // SAFETY: this function's contract.
    unsafe {
        fill(block, lengths.len(), |index, n_children, children, rest| {
            let bitmap = export.bitmaps.get(index).copied().unwrap_or(ptr::null());
            let buffers = &raw mut (*rest).buffers;
            let is_list = n_children > 0;
            buffers.write([bitmap, if is_list { ptr::null() } else { export.data }]);
            Array {
                length: lengths.get(index).copied().unwrap_or_default(),
                null_count: if bitmap.is_null() { 0 } else { -1 },
                offset: 0,
                n_buffers: if is_list { 1 } else { 2 },
                n_children,
                buffers: buffers.cast(),
                children,
                dictionary: ptr::null_mut(),
                release: Some(release_array),
                private_data: block.cast(),
            }
        })
    }
}

/// Returns Arrow's device type and id of an array.
fn device_of(array: &cai_array) -> Result<(i32, i64)> {
    let device = array.device;
    let (r#type, id) = match device.r#type {
        abi::CAI_DEVICE_UNKNOWN => dlpack::device_of(array)?,
        _ => (device.r#type, device.id),
    };
    match r#type {
        // Host memory has no number.
        abi::CAI_DEVICE_CPU | abi::CAI_DEVICE_ROCM_HOST => Ok((r#type, -1)),
        abi::CAI_DEVICE_CUDA
        | abi::CAI_DEVICE_CUDA_HOST
        | abi::CAI_DEVICE_CUDA_MANAGED
        | abi::CAI_DEVICE_ROCM
            if id >= 0 =>
        {
            Ok((r#type, i64::from(id)))
        }
        _ => fail!(
            CAI_ERR_CONVERT_DEVICE,
            "device",
            found = ("{}:{id}", crate::device::Name(r#type)),
            expected = "host memory, or a CUDA or ROCm device whose number is known"
        ),
    }
}

/// Makes Arrow structures of an array, with a reference of their own to its owner. The schema is
/// left out if `schema` is NULL.
///
/// # Safety
/// `array` is readable as [`validate::array`] requires; both outputs are writable.
pub unsafe fn to_arrow(
    array: &cai_array,
    flags: u32,
    out: *mut DeviceArray,
    schema: *mut Schema,
) -> Result<()> {
    if flags != 0 {
        return fail!(
            CAI_ERR_NEWER_CALLER,
            "flags",
            found = "{flags:#x}",
            expected = "0, for this version knows no flags"
        );
    }
    // SAFETY: readable (this function's contract).
    let export = unsafe { convert(array) }?;
    let (device_type, device_id) = device_of(array)?;
    let levels = export.shape.len();
    let mut lengths = [0; DIMENSIONS];
    let lengths = lengths.get_mut(..levels).ok_or_else(Failure::internal)?;
    for (index, length) in lengths.iter_mut().enumerate() {
        // Only that of an array without elements can overflow.
        *length = layout::count(export.shape.get(..=index).unwrap_or_default())?;
    }
    let (memory, size) = allocate::<Array>(levels)?;
    let of_schema = if schema.is_null() { None } else { Some(allocate::<Schema>(levels)?) };
    // SAFETY: validated by `convert`.
    let (event, kept) = unsafe { mark::of(array) }?.keep()?;
    let owner = export.owner;
    // SAFETY: the array keeps its owner alive.
    unsafe { owner::retain(owner) }?;
    // Nothing fails from here on.
    let block = memory.into_raw().cast::<Block>();
    // SAFETY: the block was allocated for a head and these levels; the outputs are writable (this
    // function's contract).
    unsafe {
        block.write(Block { count: Count::one(), size, owner, event, kept });
        let sync_event = if event.is_null() { ptr::null_mut() } else { &raw mut (*block).event };
        out.write(DeviceArray {
            array: array_of(&export, lengths, block),
            device_id,
            device_type,
            sync_event: sync_event.cast(),
            reserved: [MaybeUninit::new(0); 3],
        });
        if let Some((memory, size)) = of_schema {
            schema.write(schema_of(&export, memory, size));
        }
    }
    Ok(())
}
