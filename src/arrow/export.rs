//! Arrow structures from arrays.
//!
//! A consumer may move a child out of its parent and release both in any order. So every structure
//! holds a reference to the block that all of them are in.

use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use crate::abi::{self, CAI_MAX_NDIM, cai_array};
use crate::arrow::abi::{Array, DeviceArray, NULLABLE, Schema, Structure};
use crate::arrow::format::{self, Element};
use crate::arrow::structures::{Owned, OwnedDeviceArray};
use crate::arrow::tensor;
use crate::driver::OwnedEvent;
use crate::error::{Count as Counted, Failure, Result, fail};
use crate::layout::Layout;
use crate::memory::{self, Extended};
use crate::owner::{Count, Ref};
use crate::sync::mark;
use crate::validate::Valid;
use crate::{dlpack, dtype, layout, read};

const DIMENSIONS: usize = CAI_MAX_NDIM as usize;

/// The canonical extension type of booleans of one byte, as metadata: a count, sizes and texts.
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

/// Checks of an array that is exported. Consumers take values for aligned, which Arrow recommends.
pub const CHECKS: u32 = abi::CAI_CHECK_LAYOUT | abi::CAI_CHECK_ALIGNMENT;

pub struct Description<'a> {
    array: Valid<'a>,
    pub r#type: Type,
    /// The bitmap of each level, or NULL.
    bitmaps: [*const c_void; DIMENSIONS],
}

/// The type of an array in Arrow.
#[derive(PartialEq, Eq)]
pub struct Type {
    element: Element,
    /// The size of the lists of each level but the innermost one.
    lists: [i64; DIMENSIONS],
    /// The levels: one for each dimension, or two for tensors.
    levels: usize,
    /// The metadata of the tensor type.
    tensor: Option<Vec<u8>>,
}

#[cold]
fn no_type<T>(array: &cai_array) -> Result<T> {
    let text = read::typestr(&array.typestr).unwrap_or_default();
    fail!(CAI_ERR_CONVERT_TYPE, "typestr";
        found "\"{}\"", text.escape_ascii();
        expected "a type of Arrow: b1, t1, i and u of 1 to 8 bytes, f2 f4 f8, M8 and m8 of s ms us \
            ns, S, V without fields and dtype_code")
}

/// Finds the dimension of the array that each stored dimension after the first is, if the array is in
/// C order but for their order. Dimensions are counted from the second one.
fn stored_order(layout: &Layout) -> Result<Option<[usize; DIMENSIONS]>> {
    if layout.is_packed_bits() || layout.shape.contains(&0) {
        return Ok(None);
    }
    let mut steps = [0; DIMENSIONS];
    let steps = steps.get_mut(..layout.shape.len()).ok_or_else(Failure::internal)?;
    layout.write_strides(steps)?;
    let (mut order, mut is_stored) = ([0; DIMENSIONS], [false; DIMENSIONS]);
    let mut step = layout.bits / 8;
    let fits =
        |dimension: usize, step: i64| match (layout.shape.get(dimension), steps.get(dimension)) {
            (Some(&extent), Some(&stride)) => extent == 1 || stride == step,
            _ => false,
        };
    let count = layout.shape.len().saturating_sub(1);
    for place in (0..count).rev() {
        let next = (0..count).rev().find(|&index| !is_stored[index] && fits(index + 1, step));
        let Some(found) = next else { return Ok(None) };
        (order[place], is_stored[found]) = (found, true);
        step = step.saturating_mul(layout.shape[found + 1]);
    }
    Ok(fits(0, step).then_some(order))
}

/// Makes the two levels of tensors of those of an array in C order but for `order`.
fn into_tensors(of: &mut Description, order: &[usize]) -> Result<()> {
    let extents = of.array.layout().shape.get(1..).unwrap_or_default();
    let size = layout::count(extents)?;
    if i32::try_from(size).is_err() {
        return fail!(CAI_ERR_CONVERT_TYPE, "shape";
            found "tensors of {}", Counted(size, "element");
            expected "at most 2^31 - 1, the largest size of Arrow's lists");
    }
    let is_permuted = !order.is_sorted();
    let [mut whole, mut elements] = [of.bitmaps[0], ptr::null()];
    for level in (1..=extents.len()).rev() {
        let bitmap = std::mem::replace(&mut of.bitmaps[level], ptr::null());
        let (outer, inner) = extents.split_at(level);
        let is_one = |of: &[i64]| of.iter().all(|&extent| extent == 1);
        let place = if is_one(inner) && !is_permuted && elements.is_null() {
            &mut elements
        } else if is_one(outer) && whole.is_null() {
            &mut whole
        } else if bitmap.is_null() {
            continue;
        } else {
            return fail!(CAI_ERR_CONVERT_MASK, "mask";
                found "a mask of some dimensions of tensors, or of permuted ones";
                expected "one of whole tensors, or of all elements in the stored order");
        };
        if !bitmap.is_null() {
            *place = bitmap;
        }
    }
    [of.bitmaps[0], of.bitmaps[1]] = [whole, elements];
    let tensor = Some(tensor::metadata(extents, order)?);
    let mut lists = [0; DIMENSIONS];
    lists[0] = size;
    of.r#type = Type { element: of.r#type.element, lists, levels: 2, tensor };
    Ok(())
}

/// Checks that Arrow can express an array.
pub fn describe(array: Valid, flags: u32) -> Result<Description> {
    let (dtype, layout) = (array.dtype(), array.layout());
    let element = if dtype::has_fields(&array) { None } else { format::element(&dtype) };
    let Some(element) = element else { return no_type(&array) };
    array.byte_order()?;
    let Some(lists) = layout.shape.get(1..) else {
        return fail!(CAI_ERR_CONVERT_NDIM, "ndim";
            found "0"; expected "at least 1, for Arrow's arrays have a length");
    };
    let order = match layout.is_c_contiguous() && flags & abi::CAI_UNSTABLE_ARROW_TENSOR == 0 {
        true => None,
        false => stored_order(&layout)?,
    };
    if order.is_none() && !layout.is_c_contiguous() {
        return fail!(CAI_ERR_CONVERT_CONTIGUOUS, "strides";
            found "gaps or another order";
            expected "a C-contiguous array, or one whose dimensions after the first are stored in \
                another order, for Arrow has no strides");
    }
    let is_list = |&(_, &extent): &(usize, &i64)| order.is_none() && i32::try_from(extent).is_err();
    if let Some((index, &extent)) = lists.iter().enumerate().find(is_list) {
        return fail!(CAI_ERR_CONVERT_TYPE, "shape[{}]", index + 1;
            found "{extent}"; expected "at most 2^31 - 1, the largest size of Arrow's lists");
    }
    let mut bitmaps = [ptr::null(); DIMENSIONS];
    if !array.mask.is_null() && !array.data.is_null() {
        for (index, mask) in array.masks().enumerate() {
            let bitmap = level_of(array, mask, &mut bitmaps)
                .map_err(|failure: Failure| failure.in_mask(index + 1))?;
            *bitmap = mask.data;
        }
    }
    let (levels, mut sizes) = (layout.shape.len(), [0; DIMENSIONS]);
    sizes.iter_mut().zip(lists).for_each(|(to, size)| *to = *size);
    let r#type = Type { element, lists: sizes, levels, tensor: None };
    let mut found = Description { array, r#type, bitmaps };
    match order {
        Some(order) if levels > 1 => into_tensors(&mut found, &order[..levels - 1])?,
        _ => {}
    }
    Ok(found)
}

/// Returns the place for the bitmap that a mask is.
fn level_of<'a>(
    array: Valid,
    mask: Valid,
    bitmaps: &'a mut [*const c_void; DIMENSIONS],
) -> Result<&'a mut *const c_void> {
    let (dtype, layout, shape) = (mask.dtype(), mask.layout(), array.layout().shape);
    if dtype.bits != 1 {
        let text = read::typestr(&mask.typestr).unwrap_or_default();
        return fail!(CAI_ERR_CONVERT_MASK, "typestr";
            found "\"{}\"", text.escape_ascii(); expected "|t1, a bitmap");
    }
    if mask.device != array.device && mask.device.r#type != abi::CAI_DEVICE_UNKNOWN {
        return fail!(CAI_ERR_CONVERT_MASK, "device";
            found "another device than the array's";
            expected "the same, for Arrow's buffers are all on one device");
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
        _ => fail!(CAI_ERR_CONVERT_MASK, "shape";
            found "an extent of 1 where the array's is larger, or a second mask for a dimension";
            expected "the array's extents, with 1 for trailing ones only"),
    }
}

/// A structure of this library's trees.
trait Exported: Structure {
    /// Data that the structure of a level points to.
    type Rest: Copy;
    const REST: Self::Rest;
}

impl Exported for Array {
    /// The buffers.
    type Rest = [*const c_void; 2];
    const REST: Self::Rest = [ptr::null(); 2];
}

impl Exported for Schema {
    /// A format with a parameter.
    type Rest = [u8; format::SIZE];
    const REST: Self::Rest = [0; format::SIZE];
}

#[derive(Clone, Copy)]
struct Level<T: Exported> {
    /// That of the outermost level was moved out.
    structure: MaybeUninit<T>,
    child: *mut T,
    rest: T::Rest,
}

/// Head of a tree, to which all its structures hold a reference. A level per dimension follows it.
struct Shared {
    count: Count,
    /// The target of `sync_event`.
    event: *mut c_void,
    /// Name and metadata of the outermost schema.
    texts: Vec<Vec<u8>>,
    /// Dropped before the owner is released.
    kept: Option<OwnedEvent>,
    owner: Option<Ref>,
}

type Block<T> = Extended<Shared, Level<T>>;

fn allocate<T: Exported>(levels: usize) -> Result<Block<T>> {
    let (event, texts, kept, owner) = (ptr::null_mut(), Vec::new(), None, None);
    let shared = Shared { count: Count::one(), event, texts, kept, owner };
    let level = Level { structure: MaybeUninit::uninit(), child: ptr::null_mut(), rest: T::REST };
    Extended::new(shared, levels, level)
}

/// The release callback. Does nothing for a structure that was released or moved.
unsafe extern "C-unwind" fn release<T: Exported>(structure: *mut T) {
    // SAFETY: NULL, or a structure that the caller owns.
    let Some(structure) = (unsafe { structure.as_mut() }) else { return };
    if structure.release().take().is_none() {
        return;
    }
    let (count, children) = structure.children();
    if count > 0 {
        // SAFETY: only `fill` makes structures with this callback. Their child is in the block, to
        // which this one still holds a reference. If the child was moved, it has no callback.
        unsafe {
            let child = children.read();
            if let Some(release) = *(*child).release() {
                release(child);
            }
        }
    }
    let shared = structure.private_data().cast::<Shared>();
    // SAFETY: alive, because this structure holds a reference, which is given up once: its callback
    // was still set.
    if unsafe { (*shared).count.release() } {
        // SAFETY: that was the last reference. `fill` gave the block to the structures.
        drop(unsafe { Block::<T>::from_raw(shared) });
    }
}

/// Members that the structures of both kinds of trees have in common.
struct Links<T> {
    level: usize,
    n_children: i64,
    children: *mut *mut T,
    private_data: *mut c_void,
}

/// Fills the levels of a block from the innermost one on, and returns the outermost structure.
/// Each structure holds a reference to the block.
fn fill<T: Exported>(
    mut block: Block<T>,
    mut make: impl FnMut(Links<T>, &mut T::Rest) -> T,
) -> Result<Owned<T>> {
    let private_data = block.as_ptr().cast();
    let (shared, levels) = block.parts();
    let mut outermost = None;
    let mut inner: *mut T = ptr::null_mut();
    for (index, level) in levels.iter_mut().enumerate().rev() {
        level.child = inner;
        let is_innermost = inner.is_null();
        let children = if is_innermost { ptr::null_mut() } else { &raw mut level.child };
        let n_children = i64::from(!is_innermost);
        let links = Links { level: index, n_children, children, private_data };
        let structure = make(links, &mut level.rest);
        inner = level.structure.write(structure);
        if index == 0 {
            outermost = Some(structure);
        } else {
            shared.count.retain();
        }
    }
    let outermost = outermost.ok_or_else(Failure::internal)?;
    block.into_raw();
    // SAFETY: the structure was made above, and holds the first reference to the block.
    Ok(unsafe { Owned::new(outermost) })
}

/// Makes the schema of a type. The name is empty, or ends in a NUL.
pub fn schema_of(of: &Type, name: &[u8]) -> Result<Owned<Schema>> {
    let mut block = allocate::<Schema>(of.levels)?;
    let (shared, _) = block.parts();
    let mut kept = |text: &[u8]| -> Result<*const c_char> {
        let copy = memory::copied(text)?;
        let address = copy.as_ptr().cast();
        memory::push(&mut shared.texts, copy)?;
        Ok(address)
    };
    let tensor = of.tensor.as_ref().map_or(Ok(ptr::null()), |text| kept(text))?;
    let name = if name.is_empty() { c"".as_ptr() } else { kept(name)? };
    fill(block, |links, rest| {
        let mut sized = |prefix, size| {
            *rest = format::sized(prefix, size);
            rest.as_ptr().cast::<c_char>()
        };
        let mut metadata = if links.level == 0 { tensor } else { ptr::null() };
        let size = of.lists.get(links.level).filter(|_| links.n_children > 0);
        let format = match (size, of.element) {
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
            name: if links.level == 0 { name } else { c"item".as_ptr() },
            metadata,
            // As in types that Arrow's libraries make. Types that differ in it are not equal.
            flags: NULLABLE,
            n_children: links.n_children,
            children: links.children,
            dictionary: ptr::null_mut(),
            release: Some(release::<Schema>),
            private_data: links.private_data,
        }
    })
}

fn array_of(of: &Description, lengths: &[i64], block: Block<Array>) -> Result<Owned<Array>> {
    fill(block, |links, buffers| {
        let bitmap = of.bitmaps.get(links.level).copied().unwrap_or(ptr::null());
        let is_list = links.n_children > 0;
        *buffers = [bitmap, if is_list { ptr::null() } else { of.array.data }];
        Array {
            length: lengths.get(links.level).copied().unwrap_or_default(),
            null_count: if bitmap.is_null() { 0 } else { -1 },
            offset: 0,
            n_buffers: if is_list { 1 } else { 2 },
            n_children: links.n_children,
            buffers: buffers.as_mut_ptr(),
            children: links.children,
            dictionary: ptr::null_mut(),
            release: Some(release::<Array>),
            private_data: links.private_data,
        }
    })
}

pub fn device_of(array: &cai_array) -> Result<(i32, i64)> {
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
        _ => fail!(CAI_ERR_CONVERT_DEVICE, "device";
            found "{}:{id}", crate::device::Name(r#type);
            expected "host memory, or a CUDA or ROCm device whose number is known"),
    }
}

/// An array and its schema, both of which this value owns.
pub struct ArrowPair {
    array: Owned<Array>,
    device_type: i32,
    device_id: i64,
    sync_event: *mut c_void,
    schema: Option<Owned<Schema>>,
}

impl ArrowPair {
    pub fn into_owned(self) -> (OwnedDeviceArray, Option<Owned<Schema>>) {
        let ArrowPair { array, device_type, device_id, sync_event, schema } = self;
        let (array, reserved) = (array.into_raw(), [MaybeUninit::new(0); 3]);
        let array = DeviceArray { array, device_id, device_type, sync_event, reserved };
        // SAFETY: the only owner gave the array up.
        (unsafe { OwnedDeviceArray::new(array) }, schema)
    }

    /// Returns the structures, which the caller owns from now on.
    pub fn into_raw(self) -> (DeviceArray, Option<Schema>) {
        let (array, schema) = self.into_owned();
        (array.into_raw(), schema.map(Owned::into_raw))
    }
}

/// Fails for flags that this version does not know.
pub fn check_flags(flags: u32) -> Result<()> {
    if flags & !abi::CAI_UNSTABLE_ARROW_TENSOR != 0 {
        return fail!(CAI_ERR_NEWER_CALLER, "flags";
            found "{flags:#x}"; expected "only CAI_UNSTABLE_ARROW_TENSOR, which this version knows");
    }
    Ok(())
}

/// Makes Arrow structures, with a reference to the owner, of an array that passed [`CHECKS`].
pub fn to_arrow(array: Valid, flags: u32, with_schema: bool) -> Result<ArrowPair> {
    let description = describe(array, flags)?;
    let (device_type, device_id) = device_of(&array)?;
    let (lengths, mut block) = description.block()?;
    let schema = match with_schema {
        true => Some(schema_of(&description.r#type, b"")?),
        false => None,
    };
    let (event, kept) = mark::of(&array)?.keep()?;
    let owner = array.retain()?;
    let (shared, _) = block.parts();
    (shared.event, shared.kept, shared.owner) = (event, kept, Some(owner));
    let sync_event = if event.is_null() {
        ptr::null_mut()
    } else {
        block.as_ptr().wrapping_byte_add(offset_of!(Shared, event)).cast()
    };
    let array = array_of(&description, &lengths, block)?;
    Ok(ArrowPair { array, device_type, device_id, sync_event, schema })
}

impl Description<'_> {
    /// Returns the lengths of the levels, and a block for them.
    fn block(&self) -> Result<([i64; DIMENSIONS], Block<Array>)> {
        let first = self.array.layout().shape.first().copied().unwrap_or_default();
        let (mut extents, mut lengths) = ([0; DIMENSIONS], [0; DIMENSIONS]);
        let sizes = [first].into_iter().chain(self.r#type.lists).take(self.r#type.levels);
        for (level, size) in sizes.enumerate() {
            extents[level] = size;
            // Only that of an array without elements can overflow.
            lengths[level] = layout::count(&extents[..=level])?;
        }
        Ok((lengths, allocate(self.r#type.levels)?))
    }

    /// Makes the array, with a reference to the owner, as a part of another array, which has the event.
    pub fn part(&self) -> Result<Owned<Array>> {
        let (lengths, mut block) = self.block()?;
        block.parts().0.owner = Some(self.array.retain()?);
        array_of(self, &lengths, block)
    }
}
