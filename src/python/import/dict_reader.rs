//! The rules of the interface dictionaries, each once.

use std::ffi::c_void;
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, cai_device, cai_status};
use crate::dtype;
use crate::error::{Count, Failure, Text};
use crate::python::import::dict_keys::{
    DATA, DESCR, MASK, OFFSET, OtherObjects, Protocol, SHAPE, STREAM, STRIDES, SYCLOBJ, TYPESTR,
    VERSION, Values,
};
use crate::python::import::options::ImportOptions;
use crate::python::owner::Description;
use crate::python::py::{Obj, Py};

/// A value of a dictionary, or an item of one.
#[derive(Clone, Copy)]
pub struct Entry {
    pub key: usize,
    pub index: Option<usize>,
}

impl Entry {
    /// The value of a key.
    pub const fn of(key: usize) -> Self {
        Entry { key, index: None }
    }

    /// An item of the value of a key.
    pub const fn item(key: usize, index: usize) -> Self {
        Entry { key, index: Some(index) }
    }
}

/// Reads the objects of a dictionary. One reader only accepts exact built-in types, which takes no
/// Python code ([`InPlace`]); the other one reads any type, and explains what is wrong
/// ([`Explaining`]).
///
/// [`InPlace`]: crate::python::import::dict_in_place::InPlace
/// [`Explaining`]: crate::python::import::dict_explained::Explaining
pub trait Reader<'a> {
    /// The reason why an object is refused.
    type Refusal: From<Failure>;

    /// Returns true unless the keys of version 4 are asked for, and only another reader reads them.
    fn reads_more(options: &ImportOptions) -> bool;

    /// Refuses what breaks a rule.
    fn refuse(
        &self,
        status: cai_status,
        place: Entry,
        found: &dyn Display,
        expected: &dyn Display,
    ) -> Self::Refusal;

    /// Converts a signed integer.
    fn integer(&self, object: Obj<'a>, place: Entry) -> Result<i64, Self::Refusal>;

    /// Converts a signed or unsigned integer.
    fn wide_integer(&self, object: Obj<'a>, place: Entry) -> Result<i128, Self::Refusal>;

    /// Reads a sequence of integers, and returns their number.
    fn row(
        &self,
        object: Obj<'a>,
        key: usize,
        to: &mut [MaybeUninit<i64>],
    ) -> Result<usize, Self::Refusal>;

    /// Reads address and read-only flag of an array that is `empty` or not.
    fn data(&self, object: Obj<'a>, empty: bool) -> Result<(u64, bool), Self::Refusal>;

    /// Reads the type into the array.
    fn typestr(&self, object: Obj<'a>, to: &mut Description) -> Result<(), Self::Refusal>;

    /// Returns true if fields certainly only repeat the type of the array.
    fn repeats_type(&self, descr: Obj<'a>, array: &Description) -> Result<bool, Self::Refusal>;
}

/// Reads the values of a dictionary into `to`: strides are in bytes, and `data` is NULL if there
/// are no elements. Returns what there is besides.
#[inline(always)]
pub fn describe<'a, 'py, R: Reader<'a>>(
    py: Py<'py>,
    reader: &R,
    values: &Values<'a>,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<OtherObjects<'py>, R::Refusal> {
    let strict = options.strict();
    let none = py.none();
    let given = |key: usize| values[key].filter(|&value| value != none);
    let required = |key: usize| values[key].ok_or_else(|| missing(reader, key));

    let (shape, typestr, data) = (required(SHAPE)?, required(TYPESTR)?, required(DATA)?);
    let stated = version(reader, values[VERSION], protocol, options)?;

    to.array.ndim = reader.row(shape, SHAPE, &mut to.shape)? as i32;
    let mut empty = false;
    for (index, extent) in to.extents().iter().enumerate() {
        if *extent < 0 {
            let place = Entry::item(SHAPE, index);
            return Err(reader.refuse(abi::CAI_ERR_SHAPE_NEGATIVE, place, extent, &"at least 0"));
        }
        empty |= *extent == 0;
    }
    reader.typestr(typestr, to)?;
    let kind = to.array.typestr[1] as u8;

    let strides = given(STRIDES);
    to.has_strides = strides.is_some();
    if let Some(strides) = strides {
        let count = reader.row(strides, STRIDES, &mut to.strides)?;
        if count != to.array.ndim as usize {
            return Err(reader.refuse(
                abi::CAI_ERR_VALUE,
                Entry::of(STRIDES),
                &Count(count, "stride"),
                &format_args!("{}, one for each extent", to.array.ndim),
            ));
        }
    }

    let (address, readonly) = reader.data(data, empty)?;
    if address == 0 && !empty {
        const EXPECTED: &str = "an address, because the array has elements";
        let place = Entry::item(DATA, 0);
        return Err(reader.refuse(abi::CAI_ERR_DATA_NULL, place, &0, &EXPECTED));
    }
    if address != 0 && empty && strict && protocol == Protocol::Cuda && stated >= Some(2) {
        const EXPECTED: &str = "0, because the array has no elements";
        let place = Entry::item(DATA, 0);
        return Err(reader.refuse(abi::CAI_ERR_DATA_NOT_NULL, place, &address, &EXPECTED));
    }
    to.array.data = if empty { ptr::null_mut() } else { address as *mut c_void };
    to.array.flags = if readonly { abi::CAI_ARRAY_READONLY } else { 0 };

    let share = |object: Obj| object.share(py);
    let mut syclobj = None;
    match protocol {
        Protocol::Cuda => stream(py, reader, values[STREAM], stated, options, to)?,
        Protocol::Sycl => {
            if strict && !matches!(kind, b'b' | b'i' | b'u' | b'f' | b'c') {
                const EXPECTED: &str = "one of b i u f c, which the specification of SYCL names";
                let found: Text<48> = Text::new(format_args!("kind '{}'", [kind].escape_ascii()));
                let status = abi::CAI_ERR_TYPESTR_KIND;
                return Err(reader.refuse(status, Entry::of(TYPESTR), &found, &EXPECTED));
            }
            to.array.device = cai_device { r#type: abi::CAI_DEVICE_ONEAPI, id: 0 };
            to.array.stream = abi::CAI_STREAM_UNKNOWN;
            let offset = match given(OFFSET) {
                Some(offset) => reader.integer(offset, Entry::of(OFFSET))?,
                None => 0,
            };
            elements_to_bytes(reader, offset, to)?;
            syclobj = Some(share(required(SYCLOBJ)?));
        }
        Protocol::Host => {
            to.array.device = cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 };
        }
        Protocol::Buffer => {}
    }
    // Fields define the elements of kind V only. Strict mode checks those of other kinds.
    let descr = if strict && matches!(protocol, Protocol::Cuda | Protocol::Host) {
        values[DESCR]
    } else if kind == b'V' {
        match given(DESCR) {
            Some(descr) if reader.repeats_type(descr, to)? => None,
            descr => descr,
        }
    } else {
        None
    };
    let (descr, mask) = (descr.map(share), given(MASK).map(share));
    Ok(OtherObjects { descr, mask, syclobj, lent: None })
}

fn missing<'a, R: Reader<'a>>(reader: &R, key: usize) -> R::Refusal {
    const EXPECTED: &str = "this key, which is required";
    reader.refuse(abi::CAI_ERR_KEY, Entry::of(key), &"no such key", &EXPECTED)
}

/// Reads the version of the protocol, if it is stated.
#[inline(always)]
fn version<'a, R: Reader<'a>>(
    reader: &R,
    object: Option<Obj<'a>>,
    protocol: Protocol,
    options: &ImportOptions,
) -> Result<Option<i64>, R::Refusal> {
    let Some(object) = object else {
        return match options.strict() && protocol != Protocol::Buffer {
            true => Err(missing(reader, VERSION)),
            false => Ok(None),
        };
    };
    let versions = protocol.versions();
    let (first, last) = (*versions.start(), *versions.end());
    let version = reader.integer(object, Entry::of(VERSION))?;
    if versions.contains(&version) {
        return Ok(Some(version));
    }
    let is_read = protocol != Protocol::Cuda || R::reads_more(options);
    if !options.strict() && version > last && is_read {
        return Ok(Some(last));
    }
    let expected: Text<48> = match first == last {
        true => Text::new(format_args!("{last}")),
        false => Text::new(format_args!("{first} to {last}")),
    };
    let status = abi::CAI_ERR_VERSION;
    Err(reader.refuse(status, Entry::of(VERSION), &version, &expected.as_str()))
}

/// Reads the stream. The version follows from the contents: the presence of a stream decides, not
/// the number.
#[inline(always)]
fn stream<'a, R: Reader<'a>>(
    py: Py,
    reader: &R,
    object: Option<Obj<'a>>,
    stated: Option<i64>,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<(), R::Refusal> {
    // Only version 3 has none of the keys of version 4.
    if stated != Some(abi::CAI_INTERFACE_VERSION.into()) && !R::reads_more(options) {
        const EXPECTED: &str = "another reader";
        return Err(reader.refuse(abi::CAI_ERR_VERSION, Entry::of(VERSION), &"", &EXPECTED));
    }
    let Some(object) = object else {
        to.array.version = stated.unwrap_or(2) as u16;
        to.array.stream = abi::CAI_STREAM_NONE;
        if to.array.version < 3 {
            to.array.stream = abi::CAI_STREAM_UNKNOWN;
        }
        return Ok(());
    };
    let place = Entry::of(STREAM);
    let before = stated.filter(|&version| version < abi::CAI_INTERFACE_VERSION.into());
    if let Some(version) = before.filter(|_| options.strict()) {
        const EXPECTED: &str = "no such key below version 3";
        return Err(reader.refuse(
            abi::CAI_ERR_STREAM_VERSION,
            place,
            &format_args!("a stream in version {version}"),
            &EXPECTED,
        ));
    }
    to.array.version = abi::CAI_INTERFACE_VERSION;
    if object.is_none(py) {
        to.array.stream = abi::CAI_STREAM_NONE;
        return Ok(());
    }
    const EXPECTED: &str =
        "None, 1 (legacy default stream), 2 (per-thread default stream) or a cudaStream_t";
    let value = reader.wide_integer(object, place)?;
    let wrong = |status| Err(reader.refuse(status, place, &value, &EXPECTED));
    to.array.stream = match u64::try_from(value) {
        // The consumer's "order nothing" of DLPack, which producers write for data that is ready.
        _ if value == -1 && !options.strict() => abi::CAI_STREAM_NONE,
        // Versions below 3 have no such key, so it does not say which stream a 0 is.
        Ok(0) if before.is_some() => {
            to.array.version = stated.unwrap_or_default() as u16;
            abi::CAI_STREAM_UNKNOWN
        }
        Ok(0) if options.has(abi::CAI_IMPORT_ALLOW_STREAM_ZERO) => abi::CAI_STREAM_LEGACY,
        Ok(0) => return wrong(abi::CAI_ERR_STREAM_ZERO),
        Ok(abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN) | Err(_) => {
            return wrong(abi::CAI_ERR_VALUE);
        }
        Ok(value) => value,
    };
    Ok(())
}

/// Converts strides and offset of SYCL's dictionary, which count elements, to bytes.
fn elements_to_bytes<'a, R: Reader<'a>>(
    reader: &R,
    offset: i64,
    to: &mut Description,
) -> Result<(), R::Refusal> {
    const EXPECTED: &str = "a span within 2^63 bytes";
    let overflow =
        |place, found: i64| reader.refuse(abi::CAI_ERR_SPAN_OVERFLOW, place, &found, &EXPECTED);
    let dtype = dtype::of_array(&to.array)?;
    if to.has_strides {
        let count = to.array.ndim as usize;
        for (index, stride) in to.strides[..count].iter_mut().enumerate() {
            // SAFETY: `row` wrote `ndim` strides.
            let elements = unsafe { stride.assume_init() };
            let Some(bytes) = elements.checked_mul(dtype.itemsize) else {
                return Err(overflow(Entry::item(STRIDES, index), elements));
            };
            stride.write(bytes);
        }
    }
    if offset != 0 && !to.array.data.is_null() {
        let bytes = offset.checked_mul(dtype.itemsize);
        let address = bytes.and_then(|bytes| (to.array.data as u64).checked_add_signed(bytes));
        match address.filter(|&address| address != 0) {
            Some(address) => to.array.data = address as *mut c_void,
            None => return Err(overflow(Entry::of(OFFSET), offset)),
        }
    }
    Ok(())
}
