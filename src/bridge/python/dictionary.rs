//! The dictionaries: `__cuda_array_interface__`, and its relatives of SYCL and NumPy.
//!
//! May use: `abi`, `error`, `dtype`, `layout`, `validate`; of this folder `capi`, `interpreter`, `keeper`. `unsafe`: calls
//! CPython with its lock held.
//!
//! A dictionary is read twice at most. [`quick`] looks at its entries in place and takes what nearly everybody writes:
//! exact built-in types with values that need no thought. It runs no Python code, so nothing can change under its hands.
//! Everything else goes [`the_long_way`], with references of its own to all values, and with words for what is wrong.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::capi::Object;
use super::import::Wishes;
use super::interpreter::{Owned, Py};
use super::keeper::Description;
use crate::abi::{self, CAI_TYPESTR_SIZE, cai_device};
use crate::dtype::{self, text::Fields};
use crate::error::{Failure, Result, Text, fail};

/// Whose dictionary it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `__cuda_array_interface__`
    Cuda,
    /// `__sycl_usm_array_interface__`: strides and offset are in elements.
    Sycl,
    /// `__array_interface__`
    Host,
    /// No dictionary, but attributes that say the same: the buffer interface.
    Buffer,
}

impl Protocol {
    /// The attribute.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Cuda => "__cuda_array_interface__",
            Protocol::Sycl => "__sycl_usm_array_interface__",
            Protocol::Host => "__array_interface__",
            Protocol::Buffer => "buffer interface",
        }
    }

    fn versions(self) -> std::ops::RangeInclusive<i64> {
        match self {
            Protocol::Cuda => 0..=3,
            Protocol::Sycl => 1..=1,
            Protocol::Host | Protocol::Buffer => 3..=3,
        }
    }
}

const SHAPE: usize = 0;
const TYPESTR: usize = 1;
const DATA: usize = 2;
const VERSION: usize = 3;
const STRIDES: usize = 4;
const DESCR: usize = 5;
const MASK: usize = 6;
const STREAM: usize = 7;
const OFFSET: usize = 8;
const SYCLOBJ: usize = 9;
const KEYS: usize = 10;

const TEXTS: [&str; KEYS] =
    ["shape", "typestr", "data", "version", "strides", "descr", "mask", "stream", "offset", "syclobj"];

/// What was found besides the description.
pub struct Rest {
    /// The fields of a structured type.
    pub fields: Option<Fields>,
    /// The object in `mask`.
    pub mask: Option<Owned>,
    /// The object in `syclobj`.
    pub syclobj: Option<Owned>,
}

impl Rest {
    /// Nothing.
    pub const NONE: Rest = Rest { fields: None, mask: None, syclobj: None };
}

/// Reads into `to` a dictionary of CUDA's protocol that is nothing but usual. `false`: [`read`] has to, which looks anew.
#[inline]
pub fn is_usual(py: Py, dictionary: &Owned, to: &mut Description) -> bool {
    let mut values = [ptr::null_mut(); KEYS];
    stays_as_it_is(py, dictionary)
        && entries(py, dictionary.get(), &mut values)
        && quick(py, &values, to).is_some()
}

/// May its entries be looked at in place?
fn stays_as_it_is(py: Py, dictionary: &Owned) -> bool {
    py.type_of(dictionary.get()) == py.capi().dict_type && !py.capi().facts.free_threaded
}

/// Reads any dictionary into `to`. Strides are in bytes then, `data` is NULL where there are no elements. Answers what
/// there is besides.
pub fn read(
    py: Py,
    dictionary: &Owned,
    protocol: Protocol,
    wishes: &Wishes,
    to: &mut Description,
) -> Result<Rest> {
    let mut values = [ptr::null_mut(); KEYS];
    if stays_as_it_is(py, dictionary) && entries(py, dictionary.get(), &mut values) {
        return with_references(py, &values, protocol, wishes, to);
    }
    let exact = py.type_of(dictionary.get()) == py.capi().dict_type;
    look_up(py, dictionary.get(), exact, protocol, wishes, to)
}

fn with_references(
    py: Py,
    values: &[*mut Object; KEYS],
    protocol: Protocol,
    wishes: &Wishes,
    to: &mut Description,
) -> Result<Rest> {
    // References first: from here on Python code may run.
    let values = values.map(|value| NonNull::new(value).map(|value| Owned::share(py, value)));
    the_long_way(py, values, protocol, wishes, to)
}

/// The values of the keys that are known, borrowed from an exact dictionary; `values` comes with NULLs. `false`: a key is of
/// a type that may compare as it likes, or a text without UTF-8. To say the latter, CPython makes an exception, which may collect
/// garbage and so run code: nothing that was borrowed counts any more.
#[inline]
fn entries(py: Py, dictionary: *mut Object, values: &mut [*mut Object; KEYS]) -> bool {
    let capi = py.capi();
    let names = &py.names;
    let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
    // SAFETY: the lock is held; nothing between the calls runs Python code, so the dictionary stays as it is.
    while unsafe { (capi.dict_next)(dictionary, &raw mut position, &raw mut key, &raw mut value) } != 0 {
        let index = if key == names.shape {
            SHAPE
        } else if key == names.typestr {
            TYPESTR
        } else if key == names.data {
            DATA
        } else if key == names.version {
            VERSION
        } else if key == names.strides {
            STRIDES
        } else if key == names.stream {
            STREAM
        } else if key == names.descr {
            DESCR
        } else if key == names.mask {
            MASK
        } else if py.type_of(key) != capi.str_type {
            return false;
        } else {
            let Some(text) = py.text(key) else { return false };
            match TEXTS.iter().position(|known| known.as_bytes() == text) {
                Some(index) => index,
                None => continue,
            }
        };
        values[index] = value;
    }
    true
}

/// The usual, or nothing.
#[inline]
fn quick(py: Py, values: &[*mut Object; KEYS], to: &mut Description) -> Option<()> {
    let capi = py.capi();
    let typestr = values[TYPESTR];
    if typestr.is_null() || py.type_of(typestr) != capi.str_type {
        return None;
    }
    let mut length = 0;
    // SAFETY: a string.
    let text = unsafe { (capi.str_utf8)(typestr, &raw mut length) };
    if text.is_null() {
        // As in `entries`: the values may be gone.
        py.clear();
        return None;
    }
    // SAFETY: CPython's own text of that length, which lives as long as the string.
    let text: &[u8] = unsafe { std::slice::from_raw_parts(text.cast(), length as usize) };
    usual(py, values, text, to)
}

/// The same, with the text of the type. Runs no Python code.
#[inline]
fn usual(py: Py, values: &[*mut Object; KEYS], text: &[u8], to: &mut Description) -> Option<()> {
    let capi = py.capi();
    let is_none = |object: *mut Object| object.is_null() || object == capi.none;
    let [shape, _, data, version, strides, descr, mask, stream, ..] = *values;
    if shape.is_null() || data.is_null() || version.is_null() || !is_none(mask) {
        return None;
    }
    let version = small(py, version).filter(|version| (0..=3).contains(version))?;
    // Shape and strides.
    let ndim = row(py, shape, &mut to.shape)?;
    to.array.ndim = ndim as i32;
    if to.extents().iter().any(|&extent| extent < 1) {
        return None;
    }
    to.has_strides = !is_none(strides);
    if to.has_strides && row(py, strides, &mut to.strides)? != ndim {
        return None;
    }
    // Type.
    if !(3..CAI_TYPESTR_SIZE).contains(&text.len()) {
        return None;
    }
    // Opaque types may have fields, and those without a byte order need thought.
    let fields = !is_none(descr) && text[1] == b'V';
    if !matches!(text[0], b'<' | b'>' | b'|') || fields || has_nul(text) {
        return None;
    }
    to.set_typestr(text);
    // Data.
    if py.type_of(data) != capi.tuple_type {
        return None;
    }
    // SAFETY: a tuple; items are borrowed.
    let (address, readonly) = unsafe {
        if capi.tuple_len(data) != 2 {
            return None;
        }
        (capi.tuple_item(data, 0), capi.tuple_item(data, 1))
    };
    let address = small(py, address).filter(|&address| address > 0)?;
    to.array.data = address as *mut c_void;
    to.array.flags = if readonly == capi.r#true {
        abi::CAI_FLAG_READONLY
    } else if readonly == capi.r#false {
        0
    } else {
        return None;
    };
    // Stream.
    if stream.is_null() {
        to.array.stream = if version < 3 { abi::CAI_STREAM_UNKNOWN } else { abi::CAI_STREAM_NONE };
        to.array.version = version as u16;
    } else {
        to.array.stream = if stream == capi.none {
            abi::CAI_STREAM_NONE
        } else {
            small(py, stream).filter(|&stream| stream > 0)? as u64
        };
        to.array.version = abi::CAI_PROTOCOL_VERSION;
    }
    Some(())
}

/// Nearly all typestrs have three characters, for which that needs no call.
#[inline(always)]
fn has_nul(text: &[u8]) -> bool {
    match *text {
        [order, kind, size] => order == 0 || kind == 0 || size == 0,
        _ => text.contains(&0),
    }
}

/// An exact integer that fits.
#[inline(always)]
fn small(py: Py, object: *mut Object) -> Option<i64> {
    let capi = py.capi();
    if py.type_of(object) != capi.long_type {
        return None;
    }
    let mut overflow = 0;
    // SAFETY: an integer: nothing of Python's runs, and no exception is set.
    let value = unsafe { (capi.long_as_signed)(object, &raw mut overflow) };
    (overflow == 0).then_some(value)
}

/// An exact tuple of such integers.
#[inline(always)]
fn row(py: Py, tuple: *mut Object, to: &mut [MaybeUninit<i64>]) -> Option<usize> {
    let capi = py.capi();
    if py.type_of(tuple) != capi.tuple_type {
        return None;
    }
    // SAFETY: a tuple.
    let size = unsafe { capi.tuple_len(tuple) };
    for (index, place) in to.get_mut(..size)?.iter_mut().enumerate() {
        // SAFETY: below its size; borrowed.
        place.write(small(py, unsafe { capi.tuple_item(tuple, index) })?);
    }
    Some(size)
}

/// Reads what the attributes of the buffer interface say.
#[cold]
pub fn read_buffer(
    py: Py,
    shape: Owned,
    typestr: Option<Owned>,
    data: Owned,
    strides: Option<Owned>,
    wishes: &Wishes,
    to: &mut Description,
) -> Result<()> {
    let mut values: Values = Default::default();
    values[SHAPE] = Some(shape);
    values[TYPESTR] = typestr;
    values[DATA] = Some(data);
    values[STRIDES] = strides;
    the_long_way(py, values, Protocol::Buffer, wishes, to).map(drop)
}

type Values = [Option<Owned>; KEYS];

/// The values of a mapping that is no exact dictionary, or that other threads may change.
fn look_up(
    py: Py,
    mapping: *mut Object,
    exact: bool,
    protocol: Protocol,
    wishes: &Wishes,
    to: &mut Description,
) -> Result<Rest> {
    let capi = py.capi();
    let names = &py.names;
    let keys = [
        names.shape,
        names.typestr,
        names.data,
        names.version,
        names.strides,
        names.descr,
        names.mask,
        names.stream,
        names.offset,
        names.syclobj,
    ];
    let is_mapping = |object: *mut Object| {
        // SAFETY: the lock is held; any object may be asked.
        let maps = unsafe { (capi.mapping_check)(object) } != 0;
        let other = [capi.str_type, capi.bytes_type, capi.bytearray_type, capi.list_type, capi.tuple_type];
        maps && !other.iter().any(|&of| py.is(object, of))
    };
    let welcome = py.is(mapping, capi.dict_type) || (!wishes.strict() && is_mapping(mapping));
    if !welcome {
        let found =
            if mapping == capi.none { Text::new(format_args!("None")) } else { py.type_name(mapping) };
        return fail!(CAI_ERR_TYPE, "{}", protocol.name(); found "{found}"; expected "a dictionary");
    }
    // A dictionary that makes up what it lacks would keep what it made up: it is asked what it has first.
    let derived = py.is(mapping, capi.dict_type);
    let mut values: Values = Default::default();
    for (index, (&key, value)) in keys.iter().zip(&mut values).enumerate() {
        let wanted = match protocol {
            Protocol::Cuda | Protocol::Host | Protocol::Buffer => index < OFFSET,
            Protocol::Sycl => !matches!(index, DESCR | MASK | STREAM),
        };
        if !wanted {
            continue;
        }
        if let Some(get) = capi.dict_get_ref.filter(|_| exact) {
            let mut found = ptr::null_mut();
            // SAFETY: the lock is held; an exact dictionary.
            if unsafe { get(mapping, key, &raw mut found) } < 0 {
                return super::interpreter::raised();
            }
            *value = NonNull::new(found).map(|_| Owned::new(py, found)).transpose()?;
            continue;
        }
        if derived {
            // SAFETY: the lock is held; both are alive.
            match unsafe { (capi.contains)(mapping, key) } {
                0 => continue,
                1.. => {}
                _ => return super::interpreter::raised(),
            }
        }
        // SAFETY: the lock is held; both are alive.
        let found = unsafe { (capi.get_item)(mapping, key) };
        if found.is_null() {
            // SAFETY: the lock is held.
            unsafe {
                if (capi.error_matches)(*capi.key_error) == 0 {
                    return super::interpreter::raised();
                }
                (capi.error_clear)();
            }
        } else {
            *value = Some(Owned::new(py, found)?);
        }
    }
    the_long_way(py, values, protocol, wishes, to)
}

/// Reads values one by one and says what is wrong with them.
struct Reader<'a> {
    py: Py,
    protocol: Protocol,
    wishes: &'a Wishes,
}

/// Everything that [`quick`] did not take.
#[cold]
#[inline(never)]
fn the_long_way(
    py: Py,
    values: Values,
    protocol: Protocol,
    wishes: &Wishes,
    to: &mut Description,
) -> Result<Rest> {
    let reader = Reader { py, protocol, wishes };
    to.reset();
    let none = py.capi().none;
    let given = |index: usize| values[index].as_ref().map(Owned::get).filter(|&value| value != none);
    let required = |index: usize| match &values[index] {
        Some(value) => Ok(value.get()),
        None => {
            fail!(CAI_ERR_KEY, "{}['{}']", protocol.name(), TEXTS[index]; found "no such key"; expected "one, for it is required")
        }
    };

    let (shape, typestr, data) = (required(SHAPE)?, required(TYPESTR)?, required(DATA)?);
    let stated = reader.version(values[VERSION].as_ref().map(Owned::get))?;
    to.array.ndim = reader.row(shape, SHAPE, &mut to.shape)? as i32;
    for (index, extent) in to.extents().iter().enumerate() {
        if *extent < 0 {
            return fail!(CAI_ERR_SHAPE_NEGATIVE, "{}['shape'][{index}]", protocol.name(); found "{extent}"; expected "at least 0");
        }
    }
    let typestr = reader.typestr(typestr)?;
    to.array.typestr = typestr.map(|byte| byte as std::ffi::c_char);

    if let Some(strides) = given(STRIDES) {
        to.has_strides = true;
        let count = reader.row(strides, STRIDES, &mut to.strides)?;
        if count != to.array.ndim as usize {
            return fail!(CAI_ERR_VALUE, "{}['strides']", protocol.name(); found "{count} strides";
                expected "{}, one for each extent", to.array.ndim);
        }
    }
    let empty = to.is_empty();
    let (address, readonly) = reader.data(data, empty)?;
    to.array.data = if empty { ptr::null_mut() } else { address as *mut c_void };
    to.array.flags = if readonly { abi::CAI_FLAG_READONLY } else { 0 };

    let mut rest = Rest::NONE;
    match protocol {
        Protocol::Cuda => {
            let stream = values[STREAM].as_ref().map(Owned::get);
            reader.stream(stream, stated, to)?;
        }
        Protocol::Sycl => {
            to.array.device = cai_device { r#type: abi::CAI_DEVICE_ONEAPI, id: 0 };
            to.array.stream = abi::CAI_STREAM_UNKNOWN;
            let offset = given(OFFSET).map_or(Ok(0), |offset| reader.integer(offset, OFFSET, None))?;
            reader.elements_to_bytes(to, offset)?;
            match &values[SYCLOBJ] {
                Some(syclobj) => {
                    rest.syclobj = NonNull::new(syclobj.get()).map(|object| Owned::share(py, object))
                }
                None => required(SYCLOBJ).map(drop)?,
            }
        }
        Protocol::Host => {
            to.array.device = cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 };
        }
        Protocol::Buffer => {}
    }
    if let Some(descr) = given(DESCR).filter(|_| typestr[1] == b'V') {
        rest.fields = reader.descr(descr)?;
    }
    rest.mask = given(MASK).and_then(NonNull::new).map(|mask| Owned::share(py, mask));
    Ok(rest)
}

/// A text that a message shows of an object: its value where that is short, else its type.
fn shown(py: Py, object: *mut Object) -> Text<64> {
    let capi = py.capi();
    if object == capi.none {
        return Text::new(format_args!("None"));
    }
    let plain = [capi.long_type, capi.str_type, capi.bool_type, capi.float_type, capi.bytes_type];
    if plain.contains(&py.type_of(object)) {
        // SAFETY: the lock is held.
        let text = unsafe { (capi.repr)(object) };
        match Owned::new(py, text) {
            Ok(text) => {
                let text = py.text(text.get()).unwrap_or_default();
                return Text::new(format_args!("{}", String::from_utf8_lossy(text)));
            }
            Err(_) => py.clear(),
        }
    }
    Text::new(format_args!("an object of type {}", py.type_name(object)))
}

impl Reader<'_> {
    /// `['shape']` or `['shape'][2]`.
    fn path(&self, key: usize, index: Option<usize>) -> Text<95> {
        let name = self.protocol.name();
        match index {
            Some(index) => Text::new(format_args!("{name}['{}'][{index}]", TEXTS[key])),
            None => Text::new(format_args!("{name}['{}']", TEXTS[key])),
        }
    }

    fn wrong(
        &self,
        status: abi::cai_status,
        key: usize,
        index: Option<usize>,
        found: &dyn fmt::Display,
        expected: &str,
    ) -> Failure {
        Failure::new(
            status,
            format_args!("{}", self.path(key, index)),
            format_args!("{found}"),
            format_args!("{expected}"),
        )
    }

    fn wrong_type(&self, key: usize, index: Option<usize>, object: *mut Object, expected: &str) -> Failure {
        self.wrong(abi::CAI_ERR_TYPE, key, index, &shown(self.py, object), expected)
    }

    /// An integer of any type that stands for one, as wide as anything here needs.
    fn wide(&self, object: *mut Object, key: usize, index: Option<usize>) -> Result<i128> {
        const EXPECTED: &str = "an integer";
        let (py, capi) = (self.py, self.py.capi());
        // A truth is an integer to Python, but no address and no extent.
        if py.type_of(object) == capi.bool_type {
            return Err(self.wrong_type(key, index, object, EXPECTED));
        }
        let number = if py.is(object, capi.long_type) {
            None
        } else if self.wishes.strict() || py.is(object, capi.float_type) || py.is(object, capi.str_type) {
            return Err(self.wrong_type(key, index, object, EXPECTED));
        } else {
            // SAFETY: the lock is held.
            let number = unsafe { (capi.index)(object) };
            if number.is_null() {
                // SAFETY: the lock is held.
                unsafe {
                    if (capi.error_matches)(*capi.type_error) == 0 {
                        return super::interpreter::raised();
                    }
                    (capi.error_clear)();
                }
                return Err(self.wrong_type(key, index, object, EXPECTED));
            }
            Some(Owned::new(py, number)?)
        };
        let number = number.as_ref().map_or(object, Owned::get);
        let mut overflow: c_int = 0;
        // SAFETY: the lock is held; an integer.
        let value = unsafe { (capi.long_as_signed)(number, &raw mut overflow) };
        if overflow == 0 {
            return Ok(value.into());
        }
        if overflow > 0 {
            // SAFETY: as above.
            let value = unsafe { (capi.long_as_unsigned)(number) };
            if !py.has_exception() {
                return Ok(value.into());
            }
            py.clear();
        }
        Err(self.wrong(
            abi::CAI_ERR_VALUE,
            key,
            index,
            &"an integer beyond 64 bits",
            "one of at most 64 bits",
        ))
    }

    /// A signed integer.
    fn integer(&self, object: *mut Object, key: usize, index: Option<usize>) -> Result<i64> {
        let value = self.wide(object, key, index)?;
        i64::try_from(value)
            .map_err(|_| self.wrong(abi::CAI_ERR_VALUE, key, index, &value, "at most 2^63 - 1"))
    }

    /// An address or a handle.
    fn unsigned(&self, object: *mut Object, key: usize, index: Option<usize>) -> Result<u64> {
        let value = self.wide(object, key, index)?;
        u64::try_from(value).map_err(|_| self.wrong(abi::CAI_ERR_VALUE, key, index, &value, "at least 0"))
    }

    /// Is it a sequence that may stand for a tuple?
    fn is_sequence(&self, object: *mut Object) -> bool {
        let (py, capi) = (self.py, self.py.capi());
        if py.is(object, capi.tuple_type) {
            return true;
        }
        let other = [capi.str_type, capi.bytes_type, capi.bytearray_type, capi.dict_type];
        !self.wishes.strict()
            && !other.iter().any(|&of| py.is(object, of))
            // SAFETY: the lock is held; any object may be asked.
            && unsafe { (capi.sequence_check)(object) } != 0
    }

    /// The number of items. A negative answer is the producer's exception.
    fn size(&self, object: *mut Object) -> Result<usize> {
        // SAFETY: the lock is held.
        let size = unsafe { (self.py.capi().sequence_size)(object) };
        usize::try_from(size).or_else(|_| super::interpreter::raised())
    }

    fn item(&self, object: *mut Object, index: usize) -> Result<Owned> {
        // SAFETY: the lock is held.
        Owned::new(self.py, unsafe { (self.py.capi().sequence_item)(object, index as isize) })
    }

    /// Shape or strides.
    fn row(&self, object: *mut Object, key: usize, to: &mut [MaybeUninit<i64>]) -> Result<usize> {
        if !self.is_sequence(object) {
            return Err(self.wrong_type(key, None, object, "a tuple of integers"));
        }
        let size = self.size(object)?;
        if size > to.len() {
            let found: Text<48> = Text::new(format_args!("{size} items"));
            return Err(self.wrong(abi::CAI_ERR_NDIM, key, None, &found, "at most CAI_MAX_NDIM (64)"));
        }
        for (index, place) in to.iter_mut().enumerate().take(size) {
            let item = self.item(object, index)?;
            place.write(self.integer(item.get(), key, Some(index))?);
        }
        Ok(size)
    }

    fn version(&self, object: Option<*mut Object>) -> Result<Option<i64>> {
        let versions = self.protocol.versions();
        let expected: Text<48> = if versions.start() == versions.end() {
            Text::new(format_args!("{}", versions.start()))
        } else {
            Text::new(format_args!("{} to {}", versions.start(), versions.end()))
        };
        let Some(object) = object else {
            return if self.wishes.strict() && self.protocol != Protocol::Buffer {
                Err(self.wrong(abi::CAI_ERR_KEY, VERSION, None, &"no such key", "one, for it is required"))
            } else {
                Ok(None)
            };
        };
        let version = self.integer(object, VERSION, None)?;
        if versions.contains(&version) || (self.wishes.lenient() && version > *versions.end()) {
            return Ok(Some(version.min(*versions.end())));
        }
        Err(self.wrong(abi::CAI_ERR_VERSION, VERSION, None, &version, expected.as_str()))
    }

    fn typestr(&self, object: *mut Object) -> Result<[u8; CAI_TYPESTR_SIZE]> {
        let py = self.py;
        if !py.is(object, py.capi().str_type) {
            return Err(self.wrong_type(TYPESTR, None, object, "a string such as '<f4'"));
        }
        let text = py.text(object).unwrap_or_default();
        let failure = match dtype::parse(text) {
            Ok(_) => {
                let mut out = [0; CAI_TYPESTR_SIZE];
                // What parses is shorter than its room.
                out.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
                return Ok(out);
            }
            Err(failure) => failure,
        };
        match dtype::loose(text).filter(|_| !self.wishes.strict()) {
            Some(text) => Ok(text),
            None => Err(failure.rename(|_| self.path(TYPESTR, None))),
        }
    }

    /// Address and read-only flag.
    fn data(&self, object: *mut Object, empty: bool) -> Result<(u64, bool)> {
        const EXPECTED: &str = "a tuple of an address and a read-only flag";
        if !self.is_sequence(object) {
            return Err(self.wrong_type(DATA, None, object, EXPECTED));
        }
        let size = self.size(object)?;
        if size != 2 {
            let found: Text<48> = Text::new(format_args!("{size} items"));
            return Err(self.wrong(abi::CAI_ERR_VALUE, DATA, None, &found, EXPECTED));
        }
        let (address, readonly) = (self.item(object, 0)?, self.item(object, 1)?);
        let (py, capi) = (self.py, self.py.capi());
        let address = if address.get() == capi.none && empty && !self.wishes.strict() {
            0
        } else {
            self.unsigned(address.get(), DATA, Some(0))?
        };
        if address == 0 && !empty {
            return Err(self.wrong(
                abi::CAI_ERR_DATA_NULL,
                DATA,
                Some(0),
                &"0",
                "an address, for the array has elements",
            ));
        }
        let flag = readonly.get();
        let readonly = if flag == capi.r#true {
            true
        } else if flag == capi.r#false {
            false
        } else {
            // A text, or nothing at all, says neither; truths of other libraries (NumPy's) do.
            let says_nothing = flag == capi.none
                || [capi.str_type, capi.bytes_type, capi.float_type, capi.tuple_type]
                    .iter()
                    .any(|&of| py.is(flag, of));
            if self.wishes.strict() || says_nothing {
                return Err(self.wrong_type(DATA, Some(1), flag, "True or False"));
            }
            // SAFETY: the lock is held.
            match unsafe { (capi.is_true)(flag) } {
                truth @ 0.. => truth != 0,
                _ => return super::interpreter::raised(),
            }
        };
        Ok((address, readonly))
    }

    /// The stream, and the version that the contents follow: whether there is a stream decides, not the number.
    fn stream(&self, object: Option<*mut Object>, stated: Option<i64>, to: &mut Description) -> Result<()> {
        let Some(object) = object else {
            to.array.version = stated.unwrap_or(2) as u16;
            to.array.stream =
                if to.array.version < 3 { abi::CAI_STREAM_UNKNOWN } else { abi::CAI_STREAM_NONE };
            return Ok(());
        };
        to.array.version = abi::CAI_PROTOCOL_VERSION;
        if object == self.py.capi().none {
            to.array.stream = abi::CAI_STREAM_NONE;
            return Ok(());
        }
        to.array.stream = match self.unsigned(object, STREAM, None)? {
            0 if self.wishes.lenient() => abi::CAI_STREAM_LEGACY,
            0 => {
                return Err(self.wrong(
                    abi::CAI_ERR_STREAM_ZERO,
                    STREAM,
                    None,
                    &"0",
                    "None, 1 (legacy default stream), 2 (per-thread default stream) or a cudaStream_t",
                ));
            }
            value @ (abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN) => {
                return Err(self.wrong(abi::CAI_ERR_VALUE, STREAM, None, &value, "a cudaStream_t"));
            }
            value => value,
        };
        Ok(())
    }

    /// Steps and offset of SYCL's dictionary count elements.
    fn elements_to_bytes(&self, to: &mut Description, offset: i64) -> Result<()> {
        let itemsize = dtype::of_array(&to.array)?.itemsize;
        let overflow = |key, index, found: i64| {
            self.wrong(abi::CAI_ERR_SPAN_OVERFLOW, key, index, &found, "a reach within 2^63 bytes")
        };
        if to.has_strides {
            let count = to.array.ndim as usize;
            for (index, stride) in to.strides[..count].iter_mut().enumerate() {
                // SAFETY: `row` filled in as many.
                let elements = unsafe { stride.assume_init() };
                let bytes = elements.checked_mul(itemsize).ok_or(()).or(Err(overflow(
                    STRIDES,
                    Some(index),
                    elements,
                )))?;
                stride.write(bytes);
            }
        }
        if offset != 0 && !to.array.data.is_null() {
            let bytes = offset.checked_mul(itemsize);
            let address = bytes.and_then(|bytes| (to.array.data as u64).checked_add_signed(bytes));
            match address.filter(|&address| address != 0) {
                Some(address) => to.array.data = address as *mut c_void,
                None => return Err(overflow(OFFSET, None, offset)),
            }
        }
        Ok(())
    }

    /// The fields; `None` for the one nameless row that says nothing but the typestr again.
    fn descr(&self, object: *mut Object) -> Result<Option<Fields>> {
        let (py, capi) = (self.py, self.py.capi());
        let tuple = py.is(object, capi.tuple_type);
        if !py.is(object, capi.list_type) && (!tuple || self.wishes.strict()) {
            return Err(self.wrong_type(DESCR, None, object, "a list of tuples"));
        }
        // What NumPy prints is what the parser reads.
        let list = if tuple { Some(Owned::new(py, call(py, capi.list_type, object)?)?) } else { None };
        let list = Owned::new(py, repr(py, list.as_ref().map_or(object, Owned::get)))?;
        let Some(text) = py.text(list.get()).and_then(|text| std::str::from_utf8(text).ok()) else {
            return Err(self.wrong(abi::CAI_ERR_DESCR_SYNTAX, DESCR, None, &"no text", "a list of tuples"));
        };
        let fields =
            dtype::text::parse(text).map_err(|failure| failure.rename(|_| self.path(DESCR, None)))?;
        Ok(if fields.is_plain() { None } else { Some(fields) })
    }
}

/// Calls an object with one argument.
fn call(py: Py, function: *mut Object, argument: *mut Object) -> Result<*mut Object> {
    let capi = py.capi();
    // SAFETY: the lock is held; the tuple takes a reference of its own.
    unsafe {
        let arguments = Owned::new(py, (capi.tuple_new)(1))?;
        (capi.incref)(argument);
        (capi.tuple_set)(arguments.get(), 0, argument);
        Ok((capi.call)(function, arguments.get(), ptr::null_mut()))
    }
}

fn repr(py: Py, object: *mut Object) -> *mut Object {
    // SAFETY: the lock is held.
    unsafe { (py.capi().repr)(object) }
}

/// `shape[1]` of the array is `__cuda_array_interface__['shape'][1]` to those who wrote it.
pub fn in_dictionary(protocol: Protocol, failure: Failure) -> Failure {
    failure.rename(|field| {
        let end = field.find(['.', '[']).unwrap_or(field.len());
        let (key, rest) = field.split_at(end);
        Text::new(format_args!("{}['{key}']{rest}", protocol.name()))
    })
}
