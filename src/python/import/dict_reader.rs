//! Reads any interface dictionary, and reports every error in it.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_device};
use crate::dtype;
use crate::error::{Failure, Result, Text, fail, failure};
use crate::python::capi::Object;
use crate::python::convert::{Number, is_sequence, item, number, shown, size};
use crate::python::import::dict_fast::{self, Fast, entries, stays_as_it_is};
use crate::python::import::dict_keys::{
    DATA, DESCR, Extras, KEYS, MASK, OFFSET, Protocol, SHAPE, STREAM, STRIDES, SYCLOBJ, TEXTS,
    TYPESTR, VERSION, Values,
};
use crate::python::import::mapping::look_up;
use crate::python::import::options::ImportOptions;
use crate::python::owner::Description;
use crate::python::py::{Owned, Py};

/// Reads any dictionary into `to`: strides are in bytes, and `data` is NULL if there are no
/// elements. Returns what there is besides.
pub fn read<'py>(
    py: Py<'py>,
    dictionary: &Owned,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Extras<'py>> {
    let mut values = [ptr::null_mut(); KEYS];
    if stays_as_it_is(py, dictionary) && entries(py, dictionary.get(), &mut values) {
        return read_values(py, &values, protocol, options, to);
    }
    let exact = py.type_of(dictionary.get()) == py.capi().dict_type;
    let values = look_up(py, dictionary.get(), exact, protocol, options)?;
    if exact && protocol == Protocol::Cuda && py.capi().facts.free_threaded {
        // These values are referred to, and those that the fast path reads do not change.
        let borrowed =
            values.each_ref().map(|value| value.as_ref().map_or(ptr::null_mut(), Owned::get));
        if let Fast::Read { descr, mask } =
            dict_fast::read::<false>(py, &borrowed, options.strict(), to)
        {
            return Ok(Extras::share(py, descr, mask));
        }
    }
    slow_path(py, values, protocol, options, to)
}

/// Reads the values of an exact dictionary, which are borrowed and valid.
pub fn read_values<'py>(
    py: Py<'py>,
    values: &[*mut Object; KEYS],
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Extras<'py>> {
    // References are added first: Python code may run from here on.
    let values = values.map(|value| NonNull::new(value).map(|value| Owned::share(py, value)));
    slow_path(py, values, protocol, options, to)
}

/// Reads the attributes of the buffer interface.
#[cold]
#[allow(clippy::too_many_arguments)]
pub fn read_buffer<'py>(
    py: Py<'py>,
    shape: Owned<'py>,
    typestr: Owned<'py>,
    descr: Option<Owned<'py>>,
    data: Owned<'py>,
    strides: Option<Owned<'py>>,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Extras<'py>> {
    let mut values: Values = Default::default();
    values[SHAPE] = Some(shape);
    values[TYPESTR] = Some(typestr);
    values[DESCR] = descr;
    values[DATA] = Some(data);
    values[STRIDES] = strides;
    slow_path(py, values, Protocol::Buffer, options, to)
}

/// Reads values one by one and reports errors in them.
struct Reader<'a> {
    py: Py<'a>,
    protocol: Protocol,
    options: &'a ImportOptions,
}

/// Reads every dictionary that the fast path does not accept.
#[cold]
#[inline(never)]
fn slow_path<'py>(
    py: Py<'py>,
    values: Values<'py>,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Extras<'py>> {
    let reader = Reader { py, protocol, options };
    to.reset();
    let none = py.capi().none;
    let given =
        |index: usize| values[index].as_ref().map(Owned::get).filter(|&value| value != none);
    let required = |index: usize| match &values[index] {
        Some(value) => Ok(value.get()),
        None => {
            fail!(
                CAI_ERR_KEY,
                ("{}['{}']", protocol.name(), TEXTS[index]),
                found = "no such key",
                expected = "this key, which is required"
            )
        }
    };

    let (shape, typestr, data) = (required(SHAPE)?, required(TYPESTR)?, required(DATA)?);
    let stated = reader.version(values[VERSION].as_ref().map(Owned::get))?;
    to.array.ndim = reader.row(shape, SHAPE, &mut to.shape)? as i32;
    for (index, extent) in to.extents().iter().enumerate() {
        if *extent < 0 {
            return fail!(
                CAI_ERR_SHAPE_NEGATIVE,
                ("{}['shape'][{index}]", protocol.name()),
                found = "{extent}",
                expected = "at least 0"
            );
        }
    }
    let typestr = reader.typestr(typestr)?;
    to.array.typestr = typestr.map(|byte| byte as std::ffi::c_char);

    if let Some(strides) = given(STRIDES) {
        to.has_strides = true;
        let count = reader.row(strides, STRIDES, &mut to.strides)?;
        if count != to.array.ndim as usize {
            return fail!(
                CAI_ERR_VALUE,
                ("{}['strides']", protocol.name()),
                found = "{count} strides",
                expected = ("{}, one for each extent", to.array.ndim)
            );
        }
    }
    let empty = to.is_empty();
    let (address, readonly) = reader.data(data, empty)?;
    if empty && address != 0 && options.strict() && protocol == Protocol::Cuda && stated >= Some(2)
    {
        return fail!(
            CAI_ERR_DATA_NOT_NULL,
            ("{}['data'][0]", protocol.name()),
            found = "{address}",
            expected = "0, because the array has no elements"
        );
    }
    to.array.data = if empty { ptr::null_mut() } else { address as *mut c_void };
    to.array.flags = if readonly { abi::CAI_ARRAY_READONLY } else { 0 };

    let mut rest = Extras::NONE;
    match protocol {
        Protocol::Cuda => {
            let stream = values[STREAM].as_ref().map(Owned::get);
            reader.stream(stream, stated, to)?;
        }
        Protocol::Sycl => {
            let is_named = matches!(typestr[1], b'b' | b'i' | b'u' | b'f' | b'c');
            if options.strict() && !is_named {
                let found: Text<48> =
                    Text::new(format_args!("kind '{}'", [typestr[1]].escape_ascii()));
                let expected = "one of b i u f c, which the specification of SYCL names";
                let status = abi::CAI_ERR_TYPESTR_KIND;
                return Err(reader.wrong(status, TYPESTR, None, &found, expected));
            }
            to.array.device = cai_device { r#type: abi::CAI_DEVICE_ONEAPI, id: 0 };
            to.array.stream = abi::CAI_STREAM_UNKNOWN;
            let offset =
                given(OFFSET).map_or(Ok(0), |offset| reader.integer(offset, OFFSET, None))?;
            reader.elements_to_bytes(to, offset)?;
            match &values[SYCLOBJ] {
                Some(syclobj) => {
                    rest.syclobj =
                        NonNull::new(syclobj.get()).map(|object| Owned::share(py, object))
                }
                None => required(SYCLOBJ).map(drop)?,
            }
        }
        Protocol::Host => {
            to.array.device = cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 };
        }
        Protocol::Buffer => {}
    }
    // Fields define the elements of kind V only. Strict mode checks those of other kinds.
    let descr = if options.strict() && matches!(protocol, Protocol::Cuda | Protocol::Host) {
        values[DESCR].as_ref().map(Owned::get)
    } else {
        given(DESCR).filter(|_| typestr[1] == b'V')
    };
    rest.descr = descr.and_then(NonNull::new).map(|descr| Owned::share(py, descr));
    rest.mask = given(MASK).and_then(NonNull::new).map(|mask| Owned::share(py, mask));
    Ok(rest)
}

impl Reader<'_> {
    /// Formats a path such as `['shape']` or `['shape'][2]`.
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
        failure!(status, ("{}", self.path(key, index)), found = "{found}", expected = "{expected}")
    }

    fn wrong_type(
        &self,
        key: usize,
        index: Option<usize>,
        object: *mut Object,
        expected: &str,
    ) -> Failure {
        self.wrong(abi::CAI_ERR_TYPE, key, index, &shown(self.py, object), expected)
    }

    /// Converts an integer of any type, as wide as needed here.
    fn int128(&self, object: *mut Object, key: usize, index: Option<usize>) -> Result<i128> {
        match number(self.py, object, self.options.strict())? {
            Number::Value(value) => Ok(value),
            Number::Wide => Err(self.wrong(
                abi::CAI_ERR_VALUE,
                key,
                index,
                &"an integer of more than 64 bits",
                "at most 64 bits",
            )),
            Number::Other => Err(self.wrong_type(key, index, object, "an integer")),
        }
    }

    /// Converts a signed integer.
    fn integer(&self, object: *mut Object, key: usize, index: Option<usize>) -> Result<i64> {
        let value = self.int128(object, key, index)?;
        i64::try_from(value)
            .map_err(|_| self.wrong(abi::CAI_ERR_VALUE, key, index, &value, "at most 2^63 - 1"))
    }

    /// Converts an address or a handle.
    fn unsigned(&self, object: *mut Object, key: usize, index: Option<usize>) -> Result<u64> {
        let value = self.int128(object, key, index)?;
        u64::try_from(value)
            .map_err(|_| self.wrong(abi::CAI_ERR_VALUE, key, index, &value, "at least 0"))
    }

    /// Reads shape or strides.
    fn row(&self, object: *mut Object, key: usize, to: &mut [MaybeUninit<i64>]) -> Result<usize> {
        let (py, capi) = (self.py, self.py.capi());
        if py.type_of(object) == capi.tuple_type {
            // SAFETY: a live tuple.
            let count = unsafe { capi.tuple_len(object) };
            if let Some(to) = to.get_mut(..count) {
                for (index, place) in to.iter_mut().enumerate() {
                    // SAFETY: an index below the size of a tuple, which does not change: it keeps
                    // its items alive, and the caller keeps the tuple alive.
                    let item = unsafe { capi.tuple_item(object, index) };
                    place.write(self.integer(item, key, Some(index))?);
                }
                return Ok(count);
            }
        }
        if !is_sequence(self.py, object, self.options.strict()) {
            return Err(self.wrong_type(key, None, object, "a tuple of integers"));
        }
        let count = size(self.py, object)?;
        if count > to.len() {
            let found: Text<48> = Text::new(format_args!("{count} items"));
            return Err(self.wrong(
                abi::CAI_ERR_NDIM,
                key,
                None,
                &found,
                "at most CAI_MAX_NDIM (64)",
            ));
        }
        for (index, place) in to.iter_mut().enumerate().take(count) {
            let item = item(self.py, object, index)?;
            place.write(self.integer(item.get(), key, Some(index))?);
        }
        Ok(count)
    }

    fn version(&self, object: Option<*mut Object>) -> Result<Option<i64>> {
        let versions = self.protocol.versions();
        let Some(object) = object else {
            return if self.options.strict() && self.protocol != Protocol::Buffer {
                Err(self.wrong(
                    abi::CAI_ERR_KEY,
                    VERSION,
                    None,
                    &"no such key",
                    "this key, which is required",
                ))
            } else {
                Ok(None)
            };
        };
        let version = self.integer(object, VERSION, None)?;
        if versions.contains(&version) || (self.options.lenient() && version > *versions.end()) {
            return Ok(Some(version.min(*versions.end())));
        }
        let expected: Text<48> = if versions.start() == versions.end() {
            Text::new(format_args!("{}", versions.start()))
        } else {
            Text::new(format_args!("{} to {}", versions.start(), versions.end()))
        };
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
                // A typestr that parses is shorter than the array.
                out.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
                return Ok(out);
            }
            Err(failure) => failure,
        };
        match dtype::parse_lenient(text).filter(|_| !self.options.strict()) {
            Some(text) => Ok(text),
            None => Err(failure.at(format_args!("{}", self.path(TYPESTR, None)))),
        }
    }

    /// Reads address and read-only flag.
    fn data(&self, object: *mut Object, empty: bool) -> Result<(u64, bool)> {
        const EXPECTED: &str = "a tuple of an address and a read-only flag";
        if !is_sequence(self.py, object, self.options.strict()) {
            return Err(self.wrong_type(DATA, None, object, EXPECTED));
        }
        let count = size(self.py, object)?;
        if count != 2 {
            let found: Text<48> = Text::new(format_args!("{count} items"));
            return Err(self.wrong(abi::CAI_ERR_VALUE, DATA, None, &found, EXPECTED));
        }
        let (address, readonly) = (item(self.py, object, 0)?, item(self.py, object, 1)?);
        let (py, capi) = (self.py, self.py.capi());
        let address = if address.get() == capi.none && empty && !self.options.strict() {
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
                "an address, because the array has elements",
            ));
        }
        let flag = readonly.get();
        let readonly = if flag == capi.r#true {
            true
        } else if flag == capi.r#false {
            false
        } else {
            // A string or None is not accepted as a boolean; the booleans of other libraries
            // (NumPy's) are.
            let is_no_boolean = flag == capi.none
                || [capi.str_type, capi.bytes_type, capi.float_type, capi.tuple_type]
                    .iter()
                    .any(|&of| py.is(flag, of));
            if self.options.strict() || is_no_boolean {
                return Err(self.wrong_type(DATA, Some(1), flag, "True or False"));
            }
            // SAFETY: the GIL is held.
            match unsafe { (capi.is_true)(flag) } {
                value @ 0.. => value != 0,
                _ => return crate::python::py::raised(),
            }
        };
        Ok((address, readonly))
    }

    /// Reads the stream. The version follows from the contents: the presence of a stream decides,
    /// not the number.
    fn stream(
        &self,
        object: Option<*mut Object>,
        stated: Option<i64>,
        to: &mut Description,
    ) -> Result<()> {
        let Some(object) = object else {
            to.array.version = stated.unwrap_or(2) as u16;
            to.array.stream =
                if to.array.version < 3 { abi::CAI_STREAM_UNKNOWN } else { abi::CAI_STREAM_NONE };
            return Ok(());
        };
        let before = stated.filter(|&version| version < abi::CAI_INTERFACE_VERSION.into());
        if let Some(version) = before.filter(|_| self.options.strict()) {
            let found: Text<48> = Text::new(format_args!("a stream in version {version}"));
            let expected = "no such key below version 3";
            return Err(self.wrong(abi::CAI_ERR_STREAM_VERSION, STREAM, None, &found, expected));
        }
        to.array.version = abi::CAI_INTERFACE_VERSION;
        if object == self.py.capi().none {
            to.array.stream = abi::CAI_STREAM_NONE;
            return Ok(());
        }
        const EXPECTED: &str =
            "None, 1 (legacy default stream), 2 (per-thread default stream) or a cudaStream_t";
        let value = self.int128(object, STREAM, None)?;
        let wrong = |status| Err(self.wrong(status, STREAM, None, &value, EXPECTED));
        to.array.stream = match u64::try_from(value) {
            // Versions below 3 have no such key, so it does not say which stream a 0 is.
            Ok(0) if before.is_some() => {
                to.array.version = stated.unwrap_or_default() as u16;
                abi::CAI_STREAM_UNKNOWN
            }
            Ok(0) if self.options.lenient() => abi::CAI_STREAM_LEGACY,
            Ok(0) => return wrong(abi::CAI_ERR_STREAM_ZERO),
            Ok(abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN) | Err(_) => {
                return wrong(abi::CAI_ERR_VALUE);
            }
            Ok(value) => value,
        };
        Ok(())
    }

    /// Converts strides and offset of SYCL's dictionary, which count elements, to bytes.
    fn elements_to_bytes(&self, to: &mut Description, offset: i64) -> Result<()> {
        let itemsize = dtype::of_array(&to.array)?.itemsize;
        let overflow = |key, index, found: i64| {
            self.wrong(abi::CAI_ERR_SPAN_OVERFLOW, key, index, &found, "a span within 2^63 bytes")
        };
        if to.has_strides {
            let count = to.array.ndim as usize;
            for (index, stride) in to.strides[..count].iter_mut().enumerate() {
                // SAFETY: `row` wrote `ndim` strides.
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
}
