//! Arrays from Arrow structures.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::ptr;

use crate::abi::{self, CAI_MAX_MASKS, CAI_MAX_NDIM, CAI_TYPESTR_SIZE, cai_array, cai_device};
use crate::arrow::abi::{Array, DeviceArray, Schema};
use crate::arrow::bits::{Bits, Copies};
use crate::arrow::format::{self, Format};
use crate::arrow::malformed;
use crate::arrow::structures::{Live, Owned};
use crate::arrow::tensor::{self, Tensor};
use crate::device::Name;
use crate::error::{Count, Failure, Result, Text, fail};
use crate::memory::{self, Extended};
use crate::owner::{self, Destructor, description};
use crate::read::{self, Built, Given};
use crate::validate::Described;

const DIMENSIONS: usize = CAI_MAX_NDIM as usize;
const MASKS: usize = CAI_MAX_MASKS as usize;

/// Contents of the structures, level by level.
struct Tree {
    depth: usize,
    ndim: usize,
    shape: [i64; DIMENSIONS],
    /// For each dimension of the array, the one in which it is stored.
    stored: [usize; DIMENSIONS],
    is_permuted: bool,
    /// Of each level with nulls: its last dimension, and the bits of its elements.
    nulls: [(usize, Bits); MASKS],
    null_levels: usize,
    typestr: [c_char; CAI_TYPESTR_SIZE],
    /// Elements in front of the first one.
    start: i64,
    data: *const c_void,
}

fn inside(failure: Failure, depth: usize) -> Failure {
    (0..depth).fold(failure, |failure, _| failure.within(format_args!("children[0].")))
}

/// The type of one structure of a schema, and the tensors that its lists are.
fn format_of(schema: Live<Schema>) -> Result<(Format, Option<Tensor>)> {
    let text = schema.format()?;
    if !schema.dictionary.is_null() {
        return fail!(CAI_ERR_CONVERT_TYPE, "dictionary";
            found "a dictionary-encoded type"; expected "values: decode the array first");
    }
    let [name, metadata] = schema.extension()?;
    match format::parse(text, name == b"arrow.bool8") {
        Some(Format::List(size)) if name == tensor::NAME => match Tensor::parse(metadata, size) {
            Some(tensor) => Ok((Format::List(size), Some(tensor))),
            None => Err(malformed(
                "metadata",
                &format_args!("\"{}\"", metadata.escape_ascii()),
                "a shape of as many elements, and a permutation of it",
            )),
        },
        Some(format) => Ok((format, None)),
        None => fail!(CAI_ERR_CONVERT_TYPE, "format";
            found "\"{}\"", text.escape_ascii();
            expected "a number of fixed size, boolean, date, time, timestamp, duration, \
                fixed_size_binary, or fixed_size_list of these"),
    }
}

/// Checks the members of one array that do not depend on others.
fn check(array: &Array, buffers: i64, children: i64) -> Result<()> {
    if array.release.is_none() {
        return Err(malformed("release", &"NULL", "an array that was neither released nor moved"));
    }
    for (field, value) in [("length", array.length), ("offset", array.offset)] {
        if value < 0 {
            return Err(malformed(field, &value, "at least 0"));
        }
    }
    if array.offset.checked_add(array.length).is_none() {
        return Err(malformed("length", &array.length, "an end below 2^63"));
    }
    if array.null_count < -1 || array.null_count > array.length {
        return Err(malformed("null_count", &array.null_count, "-1, or 0 to length"));
    }
    if array.n_buffers != buffers {
        let expected: Text<40> = Text::new(format_args!("{buffers} for the format of the schema"));
        return Err(malformed("n_buffers", &array.n_buffers, expected.as_str()));
    }
    if array.buffers.is_null() {
        return Err(malformed("buffers", &"NULL", "an array of pointers"));
    }
    if array.n_children != children {
        let expected: Text<40> = Text::new(format_args!("{children}, as in the schema"));
        return Err(malformed("n_children", &array.n_children, expected.as_str()));
    }
    if !array.dictionary.is_null() {
        return Err(malformed("dictionary", &"a dictionary", "NULL, as in the schema"));
    }
    Ok(())
}

/// The elements of an array that are read, and the bitmap of the structures that they are in.
#[derive(Clone, Copy)]
struct Rows {
    begin: i64,
    count: i64,
    outer: Option<(Bits, i64)>,
}

fn tree(mut array: Live<Array>, mut schema: Live<Schema>, rows: Rows) -> Result<Tree> {
    let bits = Bits { bitmap: ptr::null(), start: 0, count: 0 };
    let mut tree = Tree {
        depth: 0,
        ndim: 0,
        shape: [0; DIMENSIONS],
        stored: [0; DIMENSIONS],
        is_permuted: false,
        nulls: [(0, bits); MASKS],
        null_levels: 0,
        typestr: [0; CAI_TYPESTR_SIZE],
        start: 0,
        data: ptr::null(),
    };
    // The elements of this level that belong to the array: the first one and their number.
    let (mut begin, mut count, mut extent) = (rows.begin, rows.count, rows.count);
    if let Some((bits, null_count)) = rows.outer.filter(|_| count > 0) {
        tree.add_nulls(0, bits.bitmap, bits.start, count, null_count)?;
    }
    let mut tensor: Option<Tensor> = None;
    for depth in 0.. {
        let of_schema = |failure| inside(failure, depth).within(format_args!("schema."));
        let of_array = |failure| inside(failure, depth).within(format_args!("array."));
        if schema.release.is_none() {
            return Err(of_schema(malformed(
                "release",
                &"NULL",
                "a schema that was neither released nor moved",
            )));
        }
        let (format, lists) = format_of(schema).map_err(of_schema)?;
        let (buffers, children) = if let Format::List(_) = format { (1, 1) } else { (2, 0) };
        if schema.n_children != children {
            return Err(of_schema(malformed(
                "n_children",
                &schema.n_children,
                "1 for a fixed-size list, 0 for values",
            )));
        }
        check(&array, buffers, children).map_err(of_array)?;
        let added = match &tensor {
            Some(tensor) => tree.add_tensor(tensor),
            None => tree.add_dimension(extent, tree.ndim),
        };
        if added.is_none() {
            return fail!(CAI_ERR_NDIM, "schema";
                found "lists nested deeper than that"; expected "at most {DIMENSIONS} dimensions");
        }
        tree.depth = depth;
        // `check` has found no overflow in this sum's largest value.
        let start = array.offset + begin;
        let bitmap = array.buffer(0).cast::<u8>();
        if count > 0 && array.null_count != 0 {
            tree.add_nulls(tree.ndim.saturating_sub(1), bitmap, start, count, array.null_count)
                .map_err(of_array)?;
        }
        match format {
            Format::Value(typestr) => {
                tree.typestr = typestr;
                tree.start = start;
                tree.data = array.buffer(1);
                return Ok(tree);
            }
            Format::List(size) => {
                schema = schema.child().map_err(of_schema)?;
                array = array.child().map_err(of_array)?;
                let needed = || {
                    let begin = start.checked_mul(size)?;
                    let count = count.checked_mul(size)?;
                    let fits = begin.checked_add(count)? <= array.length;
                    (count == 0 || fits).then_some((if count == 0 { 0 } else { begin }, count))
                };
                let Some(next) = needed() else {
                    return Err(inside(
                        malformed(
                            "length",
                            &array.length,
                            "the parent's offset and length, times the size of its lists",
                        ),
                        depth + 1,
                    )
                    .within(format_args!("array.")));
                };
                ((begin, count), extent, tensor) = (next, size, lists);
            }
        }
    }
    Err(Failure::internal())
}

impl Tree {
    /// Adds a dimension that is stored as the dimension `stored`.
    fn add_dimension(&mut self, extent: i64, stored: usize) -> Option<()> {
        *self.shape.get_mut(self.ndim)? = extent;
        *self.stored.get_mut(self.ndim)? = stored;
        self.ndim += 1;
        Some(())
    }

    /// Adds the dimensions of tensors in their proper order.
    fn add_tensor(&mut self, tensor: &Tensor) -> Option<()> {
        let (first, extents) = (self.ndim, tensor.extents());
        let permutation = tensor.permutation();
        self.is_permuted |= permutation.is_some();
        for index in 0..tensor.ndim() {
            let stored = permutation.map_or(index, |order| order[index] as usize);
            self.add_dimension(extents[stored], first + stored)?;
        }
        Some(())
    }

    /// Writes the strides of a permuted array, whose elements have `itemsize` bytes. `None` if they
    /// overflow.
    fn strides(&self, itemsize: i64) -> Option<[i64; DIMENSIONS]> {
        let (mut extents, mut steps, mut strides) =
            ([1; DIMENSIONS], [0; DIMENSIONS], [0; DIMENSIONS]);
        for (&stored, &extent) in self.stored.iter().zip(&self.shape).take(self.ndim) {
            *extents.get_mut(stored)? = extent;
        }
        let mut step = itemsize;
        for index in (0..self.ndim).rev() {
            steps[index] = step;
            step = step.checked_mul(extents[index].max(1))?;
        }
        for (stride, &stored) in strides.iter_mut().zip(&self.stored).take(self.ndim) {
            *stride = *steps.get(stored)?;
        }
        Some(strides)
    }

    fn add_nulls(
        &mut self,
        level: usize,
        bitmap: *const u8,
        start: i64,
        count: i64,
        null_count: i64,
    ) -> Result<()> {
        if bitmap.is_null() {
            if null_count < 0 {
                return Ok(());
            }
            return Err(malformed("buffers[0]", &"NULL", "a bitmap, for null_count is above 0"));
        }
        let Some(place) = self.nulls.get_mut(self.null_levels) else {
            return fail!(CAI_ERR_MASK_DEPTH, "null_count";
                found "nulls in more than {MASKS} levels of lists";
                expected "at most {CAI_MAX_MASKS}");
        };
        *place = (level, Bits { bitmap, start, count });
        self.null_levels += 1;
        Ok(())
    }
}

fn place(device: Live<DeviceArray>) -> Result<(cai_device, u64, *mut c_void)> {
    let r#type = device.device_type;
    let is_host = r#type == abi::CAI_DEVICE_CPU || r#type == abi::CAI_DEVICE_ROCM_HOST;
    let has_no_id = is_host
        || matches!(r#type, abi::CAI_DEVICE_CUDA_HOST | abi::CAI_DEVICE_CUDA_MANAGED)
            && device.device_id == -1;
    let is_known = has_no_id
        || matches!(
            r#type,
            abi::CAI_DEVICE_CUDA
                | abi::CAI_DEVICE_CUDA_HOST
                | abi::CAI_DEVICE_CUDA_MANAGED
                | abi::CAI_DEVICE_ROCM
        );
    if !is_known {
        return fail!(CAI_ERR_CONVERT_DEVICE, "device_type";
            found "{}", Name(r#type); expected "host memory, CUDA or ROCm");
    }
    let id = if has_no_id { Some(0) } else { i32::try_from(device.device_id).ok() };
    let Some(id) = id.filter(|id| *id >= 0) else {
        return fail!(CAI_ERR_DEVICE_ID, "device_id";
            found "{}", device.device_id; expected "0 to 2^31 - 1");
    };
    let at = cai_device { r#type, id };
    let Some(event) = device.event() else {
        return Ok((at, abi::CAI_STREAM_NONE, ptr::null_mut()));
    };
    if r#type == abi::CAI_DEVICE_CPU {
        return fail!(CAI_ERR_EVENT, "sync_event";
            found "{:p}", device.sync_event; expected "NULL, for host memory has no events");
    }
    if event.is_null() {
        return fail!(CAI_ERR_EVENT, "sync_event";
            found "the address of a NULL handle"; expected "the address of an event, or NULL");
    }
    Ok((at, abi::CAI_STREAM_UNKNOWN, event))
}

/// Makes an array of an Arrow array, and takes the latter over: its `release` is cleared, as for a
/// move. On failure the caller keeps it. The schema is only read.
///
/// # Safety
/// Both point to live structures, of which the caller owns the first.
pub unsafe fn from_arrow(given: *mut DeviceArray, schema: *const Schema) -> Result<owner::Array> {
    // SAFETY: live (this function's contract), and unchanged until the array is moved.
    let (device, schema) = unsafe { (Live::new(given), Live::new(schema)) };
    if device.array.release.is_none() {
        return Err(malformed(
            "array.release",
            &"NULL",
            "an array that was neither released nor moved",
        ));
    }
    let place = place(device)?;
    let rows = Rows { begin: 0, count: device.array.length, outer: None };
    let (prepared, mut block) = prepare(place, tree(device.array(), schema, rows)?)?;
    // Nothing fails from here on.
    // SAFETY: live, and the caller's (this function's contract). Nothing reads the view any more.
    *block.parts().0 = Some(unsafe { Owned::move_from(&raw mut (*given).array) });
    Ok(prepared.finish(Destructor::drops_extended(block)))
}

/// Makes arrays of the columns of an Arrow array of structures, and takes the latter over, as
/// [`from_arrow`] does. Each array holds a reference to it, and has the index of its column beside
/// it.
///
/// # Safety
/// Both point to live structures, of which the caller owns the first.
pub unsafe fn columns_from_arrow(
    given: *mut DeviceArray,
    schema: *const Schema,
    count: usize,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<Vec<(usize, owner::Array)>> {
    // SAFETY: live (this function's contract), and unchanged until the array is moved.
    let (device, schema) = unsafe { (Live::new(given), Live::new(schema)) };
    let batch = device.array();
    let of_schema = |failure: Failure| failure.within(format_args!("schema."));
    let of_array = |failure: Failure| failure.within(format_args!("array."));
    if schema.release.is_none() {
        let expected = "a schema that was neither released nor moved";
        return Err(of_schema(malformed("release", &"NULL", expected)));
    }
    let format = schema.format().map_err(of_schema)?;
    if format != b"+s" || !schema.dictionary.is_null() {
        return fail!(CAI_ERR_CONVERT_TYPE, "schema.format";
            found "\"{}\"", format.escape_ascii(); expected "\"+s\": a record batch");
    }
    if usize::try_from(schema.n_children) != Ok(count) {
        return fail!(CAI_ERR_VALUE, "count";
            found "{count}"; expected "schema->n_children ({})", schema.n_children);
    }
    check(&batch, 1, schema.n_children).map_err(of_array)?;
    let place = place(device)?;
    let bits = Bits { bitmap: batch.buffer(0).cast(), start: batch.offset, count: batch.length };
    let outer = (batch.null_count != 0).then_some((bits, batch.null_count));
    let rows = Rows { begin: batch.offset, count: batch.length, outer };
    // Until the end it holds nothing: on failure the caller keeps the batch.
    let held = Extended::new(None::<Owned<Array>>, 0, 0u8)?;
    let batch_place = held.as_ptr();
    let owner = owner::new(Destructor::drops_extended(held))?;
    let mut columns = memory::with_capacity(count)?;
    for index in (0..count).filter(|&index| is_wanted(index)) {
        let column = || {
            let schema = schema.child_at(index).map_err(of_schema)?;
            let array = batch.child_at(index).map_err(of_array)?;
            if array.length < rows.begin.saturating_add(rows.count) {
                let expected = "the offset and length of the structures";
                return Err(of_array(malformed("length", &array.length, expected)));
            }
            let (prepared, mut block) = prepare(place, tree(array, schema, rows)?)?;
            *block.parts().0 = Some(owner.another()?);
            Ok((index, prepared, block))
        };
        columns
            .push(column().map_err(|failure| failure.within(format_args!("columns[{index}].")))?);
    }
    let mut arrays = memory::with_capacity(count)?;
    // Nothing fails from here on.
    // SAFETY: the structure is live, and the caller's (this function's contract). The place is in
    // the block of `owner`, to which this function holds a reference, and nothing else reads or
    // writes it before the owner is destroyed.
    unsafe { *batch_place = Some(Owned::move_from(&raw mut (*given).array)) };
    for (index, prepared, block) in columns {
        arrays.push((index, prepared.finish(Destructor::drops_extended(block))));
    }
    Ok(arrays)
}

/// Prepares the array of a tree, and a block for its owner, which is to hold what keeps the buffers
/// alive. Copies of bits are behind it.
fn prepare<T>(
    (at, stream, event): (cai_device, u64, *mut c_void),
    mut tree: Tree,
) -> Result<(description::Prepared, Extended<Option<T>, u8>)> {
    let shape = tree.shape.get(..tree.ndim).ok_or_else(Failure::internal)?;
    let is_empty = shape.contains(&0);

    let mut array = cai_array {
        flags: abi::CAI_ARRAY_READONLY,
        shape: shape.as_ptr(),
        ndim: tree.ndim as i32,
        typestr: tree.typestr,
        stream,
        event,
        device: at,
        ..read::NOTHING
    };
    // Without their address, type and layout are sound from here on, and the bytes fit in 63 bits.
    let layout = Described::new(Built::new(array, shape, None).unchecked())?.layout;
    layout.nbytes()?;
    let is_bits = layout.is_packed_bits();
    let bits = layout.bits;
    let strides = if tree.is_permuted {
        // Packed bits have no strides, neither as values nor as the bitmap of a tensor's elements.
        let is_permuted = |level: usize| !tree.stored.get(..=level).is_some_and(<[_]>::is_sorted);
        let mut all_bits = tree.nulls.iter().take(tree.null_levels);
        if is_bits || all_bits.any(|(level, _)| is_permuted(*level)) {
            return fail!(CAI_ERR_CONVERT_STRIDES, "schema.metadata";
                found "a permutation of dimensions that bits are stored for";
                expected "dimensions in the stored order, for bits are packed in C order");
        }
        let Some(strides) = tree.strides(bits / 8) else {
            return Err(malformed(
                "schema.metadata",
                &"extents whose strides overflow",
                "strides below 2^63 bytes",
            ));
        };
        Some(strides)
    } else {
        None
    };
    array.strides = strides.as_ref().map_or(ptr::null(), |strides| strides.as_ptr());
    let elements = crate::layout::count(shape)?;
    let mut values = Bits { bitmap: tree.data.cast(), start: tree.start, count: elements };
    if is_empty {
        tree.null_levels = 0;
    } else if tree.data.is_null() {
        return fail!(CAI_ERR_DATA_NULL, "array.{}buffers[1]", Children(tree.depth);
            found "NULL"; expected "an address, because the array has {}", Count(elements, "element"));
    } else if !is_bits {
        let before = tree.start.checked_mul(bits / 8);
        let address = before.and_then(|before| (tree.data as u64).checked_add_signed(before));
        let Some(address) = address else {
            return fail!(CAI_ERR_ADDRESS_RANGE, "array.offset";
                found "{} from {:p}", Count(tree.start, "element"), tree.data;
                expected "an address below 2^64");
        };
        array.data = address as *mut c_void;
        values.count = 0;
    }

    let nulls = tree.nulls.get(..tree.null_levels).ok_or_else(Failure::internal)?;
    let has_bits = is_bits && !is_empty;
    let mut copied: usize = 0;
    let all = nulls.iter().map(|(level, bits)| (*level, bits));
    for (level, bits) in all.chain(has_bits.then_some((tree.ndim - 1, &values))) {
        if bits.is_aligned() {
            continue;
        }
        if at.r#type != abi::CAI_DEVICE_CPU {
            return fail!(CAI_ERR_CONVERT_BIT_OFFSET, "array.{}offset", Children(level.min(tree.depth));
                found "a first bit {} in {} memory", bits.start, Name(at.r#type);
                expected "a multiple of 8, for only bits in host memory are copied");
        }
        copied = copied.checked_add(bits.bytes()).ok_or_else(|| Failure::no_memory(usize::MAX))?;
    }
    // The owner holds the array, with the copies of bits behind it.
    let mut block = Extended::new(None, copied, 0)?;
    let (_, space) = block.parts();
    // SAFETY: all bits that are not aligned are in host memory, which was checked above.
    let mut copies = unsafe { Copies::new(space) };
    if has_bits {
        array.data = copies.address_of(&values)?;
    }
    let mut masks = None;
    if !nulls.is_empty() {
        let masks = masks.insert(Masks::NONE);
        array.mask = masks.fill(array, shape, nulls, &mut copies)?;
    }
    // SAFETY: the array refers to `tree`, `strides` and `masks`, which live until the end. It has no
    // owner, nor have its masks.
    let checked = unsafe { Given::new(&raw const array) };
    let prepared = checked.valid(abi::CAI_CHECK_LAYOUT)?.prepare()?;
    Ok((prepared, block))
}

struct Masks {
    arrays: [cai_array; MASKS],
    shapes: [[i64; DIMENSIONS]; MASKS],
}

impl Masks {
    const NONE: Self = Masks { arrays: [read::NOTHING; MASKS], shapes: [[1; DIMENSIONS]; MASKS] };

    /// Writes a mask for each level that has nulls. Returns the address of the array's.
    #[inline(never)]
    fn fill(
        &mut self,
        array: cai_array,
        shape: &[i64],
        nulls: &[(usize, Bits)],
        copies: &mut Copies,
    ) -> Result<*const cai_array> {
        let mut mask = ptr::null();
        // From the outermost level on: an element is valid if those that contain it are, too. So
        // the mask of an inner level has that of the next outer one as its own mask.
        let places = self.arrays.iter_mut().zip(&mut self.shapes);
        for ((level, bits), (place, extents)) in nulls.iter().zip(places) {
            let common = extents.iter_mut().zip(shape).take(*level + 1);
            common.for_each(|(to, extent)| *to = *extent);
            let (data, shape) = (copies.address_of(bits)?, extents.as_ptr());
            let (typestr, strides) = (format::BITS, ptr::null());
            *place = cai_array { data, shape, strides, typestr, mask, ..array };
            mask = place;
        }
        Ok(mask)
    }
}

/// The path to the array at a level.
struct Children(usize);

impl fmt::Display for Children {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        (0..self.0).try_for_each(|_| f.write_str("children[0]."))
    }
}
