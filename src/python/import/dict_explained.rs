//! Reads dictionaries with values of any types, and explains what is wrong in them.
//!
//! Python code may run meanwhile, so each value is held.

use std::fmt::Display;
use std::mem::MaybeUninit;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_status};
use crate::dtype;
use crate::error::{Count, Failure, Result, Text, fail, failure};
use crate::python::import::dict_in_place::exact_values;
use crate::python::import::dict_keys::{
    DATA, Held, OFFSET, OtherObjects, Protocol, TEXTS, TYPESTR, in_dictionary,
};
use crate::python::import::dict_reader::{Entry, Reader, describe};
use crate::python::import::mapping::look_up;
use crate::python::import::options::ImportOptions;
use crate::python::owner::Description;
use crate::python::py::{Buffer, Builtin, Obj, Owned, Py};
use crate::python::values::Number;
use crate::read::Unchecked;
use crate::validate::Described;

/// Reads any dictionary into `to`.
#[inline(never)]
pub fn read<'py>(
    py: Py<'py>,
    dictionary: Obj,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<OtherObjects<'py>> {
    let mut values = match exact_values(py, dictionary) {
        Some(values) => values,
        None => look_up(py, dictionary, protocol, options)?,
    };
    let lent = match protocol {
        Protocol::Host => Lent::of(py, &Explaining { py, protocol, options }, &mut values)?,
        _ => None,
    };
    let mut others = read_values(py, &values, protocol, options, to)?;
    if let Some(lent) = lent {
        lent.check(to)?;
        others.lent = Some(lent.memory);
    }
    Ok(others)
}

/// Memory of an object that stands in `data` for an address, as NumPy's interface allows.
struct Lent<'py> {
    /// A memoryview, which keeps the memory.
    memory: Owned<'py>,
    nbytes: i64,
    /// The address in it of the element at index zero.
    offset: i64,
}

impl<'py> Lent<'py> {
    /// Replaces the object by its address. `None` if there is none that lends memory.
    fn of(py: Py<'py>, reader: &Explaining, values: &mut Held<'py>) -> Result<Option<Self>> {
        let Some(data) = &values[DATA] else { return Ok(None) };
        let is_pair = [Builtin::Tuple, Builtin::List].iter().any(|&of| data.obj().is_a(py, of));
        if is_pair || Buffer::request(py, data.obj())?.is_none() {
            return Ok(None);
        }
        let class = py.import(c"builtins")?.obj().attr(py, py.string(b"memoryview")?.obj())?;
        let memory = class.obj().call(py, [data.obj()])?;
        let Some(buffer) = Buffer::request(py, memory.obj())? else { return Ok(None) };
        let (start, nbytes) = (buffer.view().buf.addr() as u64, buffer.view().len as i64);
        let gaps = !memory.obj().attr(py, py.string(b"c_contiguous")?.obj())?.obj().is_true(py)?;
        if gaps {
            const EXPECTED: &str = "a C-contiguous buffer";
            let status = abi::CAI_ERR_CONVERT_CONTIGUOUS;
            return Err(reader.refuse(
                status,
                Entry::of(DATA),
                &"another order, or gaps",
                &EXPECTED,
            ));
        }
        let offset = match values[OFFSET].as_ref().filter(|value| !value.obj().is_none(py)) {
            Some(offset) => reader.integer(offset.obj(), Entry::of(OFFSET))?,
            None => 0,
        };
        if !(0..=nbytes).contains(&offset) {
            return Err(reader.refuse(
                abi::CAI_ERR_VALUE,
                Entry::of(OFFSET),
                &offset,
                &format_args!("0 to {nbytes}, the bytes of the buffer"),
            ));
        }
        let readonly = py.bool(buffer.view().readonly != 0).share(py);
        values[DATA] = Some(py.pair(py.unsigned(start + offset as u64)?, readonly)?);
        Ok(Some(Lent { memory, nbytes, offset }))
    }

    /// Checks that the memory contains the array.
    fn check(&self, to: &mut Description) -> Result<()> {
        // SAFETY: it was described, with as many extents and strides as it says, and nothing else.
        let array = unsafe { Unchecked::new(to.array()) };
        let in_dictionary = |failure| in_dictionary(Protocol::Host, failure);
        let span = Described::new(array).and_then(|described| described.layout.span());
        let span = span.map_err(in_dictionary)?;
        let upper = span.upper.checked_add(self.offset);
        if span.lower + self.offset < 0 || upper.is_none_or(|upper| upper > self.nbytes) {
            return fail!(CAI_ERR_VALUE, "{}['data']", Protocol::Host.name();
                found "a buffer of {}", Count(self.nbytes, "byte");
                expected "one that contains the array, which extends from byte {} to {}",
                span.lower + self.offset, span.upper.saturating_add(self.offset));
        }
        Ok(())
    }
}

/// Reads values of the keys into `to`.
#[cold]
#[inline(never)]
pub fn read_values<'py>(
    py: Py<'py>,
    values: &Held,
    protocol: Protocol,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<OtherObjects<'py>> {
    to.reset();
    let values = values.each_ref().map(|value| value.as_ref().map(Owned::obj));
    describe(py, &Explaining { py, protocol, options }, &values, protocol, options, to)
}

/// Reads objects of any types.
struct Explaining<'a> {
    py: Py<'a>,
    protocol: Protocol,
    options: &'a ImportOptions,
}

impl Explaining<'_> {
    /// Formats a path such as `['shape']` or `['shape'][2]`.
    fn path(&self, place: Entry) -> Text<95> {
        let (name, key) = (self.protocol.name(), TEXTS[place.key].to_str().unwrap_or_default());
        match place.index {
            Some(index) => Text::new(format_args!("{name}['{key}'][{index}]")),
            None => Text::new(format_args!("{name}['{key}']")),
        }
    }

    fn wrong_type(&self, place: Entry, object: Obj, expected: &str) -> Failure {
        self.refuse(abi::CAI_ERR_TYPE, place, &object.shown(self.py), &expected)
    }

    /// Converts an address or a handle.
    fn unsigned(&self, object: Obj, place: Entry) -> Result<u64> {
        let value = self.wide_integer(object, place)?;
        u64::try_from(value)
            .map_err(|_| self.refuse(abi::CAI_ERR_VALUE, place, &value, &"at least 0"))
    }

    /// Converts the read-only flag. A string or None is not accepted as a boolean; the booleans of
    /// other libraries (NumPy's) are.
    fn boolean(&self, flag: Obj) -> Result<bool> {
        const OTHERS: [Builtin; 4] = [Builtin::Str, Builtin::Bytes, Builtin::Float, Builtin::Tuple];
        let py = self.py;
        if flag == py.bool(true) || flag == py.bool(false) {
            return Ok(flag == py.bool(true));
        }
        let is_no_boolean = flag.is_none(py) || OTHERS.iter().any(|&of| flag.is_a(py, of));
        if self.options.strict() || is_no_boolean {
            return Err(self.wrong_type(Entry::item(DATA, 1), flag, "True or False"));
        }
        flag.is_true(py)
    }
}

impl<'a> Reader<'a> for Explaining<'_> {
    type Refusal = Failure;

    fn reads_more(_: &ImportOptions) -> bool {
        true
    }

    #[cold]
    fn refuse(
        &self,
        status: cai_status,
        place: Entry,
        found: &dyn Display,
        expected: &dyn Display,
    ) -> Failure {
        failure!(status, "{}", self.path(place); found "{found}"; expected "{expected}")
    }

    fn integer(&self, object: Obj, place: Entry) -> Result<i64> {
        let value = self.wide_integer(object, place)?;
        i64::try_from(value)
            .map_err(|_| self.refuse(abi::CAI_ERR_VALUE, place, &value, &"at most 2^63 - 1"))
    }

    fn wide_integer(&self, object: Obj, place: Entry) -> Result<i128> {
        match object.number(self.py, self.options.strict())? {
            Number::Value(value) => Ok(value),
            Number::Wide => {
                const FOUND: &str = "an integer of more than 64 bits";
                Err(self.refuse(abi::CAI_ERR_VALUE, place, &FOUND, &"at most 64 bits"))
            }
            Number::Other => Err(self.wrong_type(place, object, "an integer")),
        }
    }

    fn row(&self, object: Obj, key: usize, to: &mut [MaybeUninit<i64>]) -> Result<usize> {
        let py = self.py;
        if !object.is_like_tuple(py, self.options.strict()) {
            return Err(self.wrong_type(Entry::of(key), object, "a tuple of integers"));
        }
        let count = object.len(py)?;
        let Some(to) = to.get_mut(..count) else {
            const EXPECTED: &str = "at most CAI_MAX_NDIM (64)";
            let found = Count(count, "item");
            return Err(self.refuse(abi::CAI_ERR_NDIM, Entry::of(key), &found, &EXPECTED));
        };
        // A tuple does not change, so it keeps its items alive.
        let tuple = object.exact_tuple(py);
        for (index, place) in to.iter_mut().enumerate() {
            let at = Entry::item(key, index);
            place.write(match tuple.and_then(|tuple| tuple.get(py, index)) {
                Some(item) => self.integer(item, at)?,
                None => self.integer(object.item(py, index)?.obj(), at)?,
            });
        }
        Ok(count)
    }

    fn data(&self, object: Obj, empty: bool) -> Result<(u64, bool)> {
        const EXPECTED: &str = "a tuple of an address and a read-only flag";
        let (py, strict) = (self.py, self.options.strict());
        if !object.is_like_tuple(py, strict) {
            return Err(self.wrong_type(Entry::of(DATA), object, EXPECTED));
        }
        let count = object.len(py)?;
        if count != 2 {
            let found = Count(count, "item");
            return Err(self.refuse(abi::CAI_ERR_VALUE, Entry::of(DATA), &found, &EXPECTED));
        }
        let (address, readonly) = (object.item(py, 0)?, object.item(py, 1)?);
        let address = if address.obj().is_none(py) && empty && !strict {
            0
        } else {
            self.unsigned(address.obj(), Entry::item(DATA, 0))?
        };
        Ok((address, self.boolean(readonly.obj())?))
    }

    fn typestr(&self, object: Obj, to: &mut Description) -> Result<()> {
        let (py, place) = (self.py, Entry::of(TYPESTR));
        if !object.is_a(py, Builtin::Str) {
            return Err(self.wrong_type(place, object, "a string such as '<f4'"));
        }
        let text = object.text(py).unwrap_or_default();
        let complete;
        let text = match dtype::parse(text) {
            Ok(_) => text,
            Err(failure) => {
                let lenient = dtype::parse_lenient(text).filter(|_| !self.options.strict());
                let Some(found) = lenient else {
                    return Err(failure.at(format_args!("{}", self.path(place))));
                };
                complete = found;
                let length = complete.iter().position(|&byte| byte == 0);
                &complete[..length.unwrap_or(CAI_TYPESTR_SIZE)]
            }
        };
        to.set_typestr(text);
        Ok(())
    }

    fn repeats_type(&self, _: Obj, _: &Description) -> Result<bool> {
        Ok(false)
    }
}
