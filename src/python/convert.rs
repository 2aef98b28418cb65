//! Conversions between Python objects and native values.

use std::ptr::{self, NonNull};

use crate::error::{Result, Shown, Text, fail};
use crate::python::cache::Version;
use crate::python::capi::Object;
use crate::python::py::{Name, Obj, Owned, Py, raised};

impl<'py> Py<'py> {
    /// Returns an attribute, or `None` after an AttributeError. Other exceptions stay set.
    #[inline(never)]
    pub fn attribute(self, object: *mut Object, name: Name) -> Result<Option<Owned<'py>>> {
        self.attribute_inlined(object, name)
    }

    /// As [`Py::attribute`], for the path that most imports take.
    #[inline(always)]
    pub fn attribute_inlined(self, object: *mut Object, name: Name) -> Result<Option<Owned<'py>>> {
        let Some(object) = NonNull::new(object) else { return Ok(None) };
        // SAFETY: the GIL is held; the object is alive.
        unsafe { Obj::new(object) }.optional_attr_inlined(self, name)
    }

    /// Returns the characters of a string object, which must stay alive, or `None` if they are not
    /// valid UTF-8.
    pub fn text<'a>(self, string: *mut Object) -> Option<&'a [u8]> {
        let mut length = 0;
        // SAFETY: the GIL is held. CPython checks that the object is a string. The characters live
        // as long as the string.
        unsafe {
            let text = (self.capi().str_utf8)(string, &raw mut length);
            if text.is_null() {
                (self.capi().error_clear)();
                return None;
            }
            Some(std::slice::from_raw_parts(text.cast(), length as usize))
        }
    }

    /// Returns true for an object of this type or of one derived from it.
    pub fn is(self, object: *mut Object, of: *mut Object) -> bool {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { self.capi().is_instance(object, of) }
    }

    /// Returns the type of an object, borrowed.
    #[inline(always)]
    pub fn type_of(self, object: *mut Object) -> *mut Object {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { self.capi().type_of(object) }
    }

    /// Returns an object's type and the version that it has now.
    #[inline(always)]
    pub fn version_of(self, object: *mut Object) -> Version {
        let r#type = self.type_of(object);
        // SAFETY: the GIL is held; the object keeps its type alive.
        Version { r#type, number: unsafe { self.capi().type_version(r#type) } }
    }

    /// Returns a type with its version, which it gets if it has none. CPython may deny it one.
    pub fn assign_version(self, r#type: *mut Object) -> Result<Version> {
        let capi = self.capi();
        match capi.assign_version {
            // SAFETY: the GIL is held; a live type.
            Some(assign) => drop(unsafe { assign(r#type) }),
            // Looking any attribute up does it.
            None => drop(self.own_attribute(r#type, self.names.requires_grad)?),
        }
        // SAFETY: the GIL is held; a live type.
        Ok(Version { r#type, number: unsafe { capi.type_version(r#type) } })
    }

    /// Looks an attribute up as Python looks up special methods: in a type and its bases, without
    /// calling a descriptor. Returns as well whether the version of the type covers the result:
    /// where CPython has no function for it, the attribute of the type is read instead, in which
    /// the metaclass has a part.
    pub fn own_attribute(
        self,
        r#type: *mut Object,
        name: Name,
    ) -> Result<(Option<Owned<'py>>, bool)> {
        let capi = self.capi();
        if let Some(lookup) = capi.type_lookup_ref {
            // SAFETY: the GIL is held; both objects are alive.
            let found = NonNull::new(unsafe { lookup(r#type, name.as_ptr()) });
            return Ok((found.map(|object| Owned { object, py: self }), true));
        }
        if let Some(lookup) = capi.type_lookup {
            // SAFETY: the GIL is held; both objects are alive. The result belongs to the type.
            let found = NonNull::new(unsafe { lookup(r#type, name.as_ptr()) });
            return Ok((found.map(|object| Owned::share(self, object)), true));
        }
        match (capi.type_dict, capi.dict_get_ref) {
            (Some(dict), Some(get)) => {
                let bases = self.bases(r#type)?;
                // SAFETY: the GIL is held; a tuple, and positions below its size.
                for index in 0..unsafe { (capi.tuple_size)(bases.get()) } {
                    // SAFETY: as above; the tuple holds types.
                    let base = unsafe { (capi.tuple_get)(bases.get(), index) };
                    // SAFETY: the GIL is held; a live type.
                    let members = Owned::new(self, unsafe { dict(base) })?;
                    let mut found = ptr::null_mut();
                    // SAFETY: the GIL is held; a dictionary, a string and a place for the result.
                    if unsafe { get(members.get(), name.as_ptr(), &raw mut found) } < 0 {
                        return raised();
                    }
                    if let Some(object) = NonNull::new(found) {
                        return Ok((Some(Owned { object, py: self }), true));
                    }
                }
                Ok((None, true))
            }
            _ => Ok((self.attribute(r#type, name)?, false)),
        }
    }

    /// Returns a type and its bases in the order of look-ups. A metaclass may have another idea of
    /// `__mro__`, so the descriptor of `type` is called.
    fn bases(self, r#type: *mut Object) -> Result<Owned<'py>> {
        let capi = self.capi();
        if self.type_of(r#type) == capi.type_type {
            // SAFETY: the GIL is held; a live type, which has the attribute.
            return Owned::new(self, unsafe { (capi.get_attr)(r#type, self.names.mro.as_ptr()) });
        }
        let Some(dict) = capi.type_dict else { return raised() };
        // SAFETY: the GIL is held throughout; `type` always has the attribute, and a tuple takes
        // over the reference to its item.
        unsafe {
            let members = Owned::new(self, dict(capi.type_type))?;
            let descriptor =
                Owned::new(self, (capi.get_item)(members.get(), self.names.mro.as_ptr()))?;
            let get = Owned::new(self, (capi.get_attr)(descriptor.get(), self.names.get.as_ptr()))?;
            let arguments = Owned::new(self, (capi.tuple_new)(1))?;
            (capi.incref)(r#type);
            (capi.tuple_set)(arguments.get(), 0, r#type);
            Owned::new(self, (capi.call)(get.get(), arguments.get(), ptr::null_mut()))
        }
    }

    /// Returns an attribute of an object's type. The lookup may run code that gives the object
    /// another type, so a reference to this one is held meanwhile.
    pub fn type_attribute(self, object: *mut Object, name: Name) -> Result<Option<Owned<'py>>> {
        let Some(r#type) = NonNull::new(self.type_of(object)) else { return Ok(None) };
        let r#type = Owned::share(self, r#type);
        self.attribute(r#type.get(), name)
    }

    /// Returns true if an object's type, or one that it derives from, has an attribute.
    pub fn type_has(self, object: *mut Object, name: Name) -> Result<bool> {
        let Some(lookup) = self.capi().type_lookup else {
            return self.type_attribute(object, name).map(|found| found.is_some());
        };
        let Some(r#type) = NonNull::new(self.type_of(object)) else { return Ok(false) };
        // Comparing names may run code that gives the object another type.
        let r#type = Owned::share(self, r#type);
        // SAFETY: the GIL is held; both objects are alive. The result is borrowed, and not used.
        Ok(!unsafe { lookup(r#type.get(), name.as_ptr()) }.is_null())
    }

    /// Returns the name of an object's type, for messages.
    pub fn type_name(self, object: *mut Object) -> Text<64> {
        match self.type_attribute(object, self.names.name) {
            Ok(Some(name)) if self.is(name.get(), self.capi().str_type) => {
                let text = self.text(name.get()).unwrap_or_default();
                Text::new(format_args!("{}", text.escape_ascii()))
            }
            Ok(_) => Text::new(format_args!("object")),
            Err(_) => {
                self.clear();
                Text::new(format_args!("object"))
            }
        }
    }

    /// Returns a string from the cache, or makes and caches it: for the few typestrs that arrays
    /// have.
    pub fn typestr(self, text: &[u8]) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held.
        if let Some(known) = unsafe { self.texts.get(self.capi(), text) } {
            return Ok(Owned::share(self, known));
        }
        let made = self.string(text)?;
        // SAFETY: the GIL is held.
        unsafe { self.texts.add(self.capi(), text, made.get()) };
        Ok(made)
    }
}

/// What an object is as an integer.
pub enum Number {
    /// An integer of 64 bits, signed or unsigned.
    Value(i128),
    /// An integer of more bits.
    Wide,
    /// No integer: a boolean, a float, a text, or any other object without `__index__`.
    Other,
}

/// Converts an integer of any type: in strict mode only Python's own. Calls `__index__`.
pub fn number(py: Py, object: *mut Object, strict: bool) -> Result<Number> {
    let capi = py.capi();
    if let Some(value) = exact_integer(py, object) {
        return Ok(Number::Value(value.into()));
    }
    // A boolean is an integer in Python, but not an address or an extent.
    if py.type_of(object) == capi.bool_type {
        return Ok(Number::Other);
    }
    let made = if strict {
        if !py.is(object, capi.long_type) {
            return Ok(Number::Other);
        }
        None
    } else {
        // SAFETY: the GIL is held.
        let number = unsafe { (capi.index)(object) };
        if number.is_null() {
            // Floats, texts and most objects.
            // SAFETY: the GIL is held.
            unsafe {
                if (capi.error_matches)(*capi.type_error) == 0 {
                    return raised();
                }
                (capi.error_clear)();
            }
            return Ok(Number::Other);
        }
        Some(Owned::new(py, number)?)
    };
    let integer = made.as_ref().map_or(object, Owned::get);
    let mut overflow = 0;
    // SAFETY: the GIL is held; the object is an integer.
    let value = unsafe { (capi.long_as_signed)(integer, &raw mut overflow) };
    if overflow == 0 {
        return Ok(Number::Value(value.into()));
    }
    if overflow > 0 {
        // SAFETY: the GIL is held; the object is an integer.
        let value = unsafe { (capi.long_as_unsigned)(integer) };
        if !py.has_exception() {
            return Ok(Number::Value(value.into()));
        }
        py.clear();
    }
    Ok(Number::Wide)
}

/// Returns the value of an exact integer of up to 64 bits, signed. Runs no Python code and sets no
/// exception.
#[inline(always)]
pub fn exact_integer(py: Py, object: *mut Object) -> Option<i64> {
    let capi = py.capi();
    if py.type_of(object) != capi.long_type {
        return None;
    }
    // SAFETY: the GIL is held; an exact integer.
    match unsafe { capi.short_integer(object, capi.facts.head) } {
        Some(value) => Some(value),
        None => long_integer(py, object),
    }
}

/// As [`exact_integer`], for an exact integer of any length.
#[inline(never)]
fn long_integer(py: Py, integer: *mut Object) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: the object is an exact integer: no Python code runs, and no exception is set.
    let value = unsafe { (py.capi().long_as_signed)(integer, &raw mut overflow) };
    (overflow == 0).then_some(value)
}

/// Returns true for a sequence that may be used instead of a tuple.
pub fn is_sequence(py: Py, object: *mut Object, strict: bool) -> bool {
    let capi = py.capi();
    if py.is(object, capi.tuple_type) {
        return true;
    }
    let other = [capi.str_type, capi.bytes_type, capi.bytearray_type, capi.dict_type];
    !strict
        && !other.iter().any(|&of| py.is(object, of))
        // SAFETY: the GIL is held; any object may be passed.
        && unsafe { (capi.sequence_check)(object) } != 0
}

/// Returns the number of items of a sequence. May run Python code.
pub fn size(py: Py, sequence: *mut Object) -> Result<usize> {
    // SAFETY: the GIL is held.
    let size = unsafe { (py.capi().sequence_size)(sequence) };
    // A negative result is an exception of the producer.
    usize::try_from(size).or_else(|_| raised())
}

/// Returns an item of a sequence. May run Python code.
pub fn item<'py>(py: Py<'py>, sequence: *mut Object, index: usize) -> Result<Owned<'py>> {
    // SAFETY: the GIL is held.
    Owned::new(py, unsafe { (py.capi().sequence_item)(sequence, index as isize) })
}

/// Formats an object for a message: its value if that is short, otherwise its type.
pub fn shown(py: Py, object: *mut Object) -> Text<64> {
    let capi = py.capi();
    if object == capi.none {
        return Text::new(format_args!("None"));
    }
    let plain = [capi.long_type, capi.str_type, capi.bool_type, capi.float_type, capi.bytes_type];
    if plain.contains(&py.type_of(object)) {
        // SAFETY: the GIL is held.
        let text = unsafe { (capi.repr)(object) };
        match Owned::new(py, text) {
            Ok(text) => {
                let text = py.text(text.get()).unwrap_or_default();
                return Text::new(format_args!("{}", Shown(text)));
            }
            Err(_) => py.clear(),
        }
    }
    Text::new(format_args!("an object of type {}", py.type_name(object)))
}

/// Makes a tuple of two integers.
pub fn pair<'py>(py: Py<'py>, first: i64, second: i64) -> Result<Owned<'py>> {
    let capi = py.capi();
    // SAFETY: the GIL is held. `tuple_set` takes over the reference to the item.
    unsafe {
        let pair = Owned::new(py, (capi.tuple_new)(2))?;
        for (index, number) in [first, second].into_iter().enumerate() {
            let number = Owned::new(py, (capi.long_from_signed)(number))?;
            (capi.tuple_set)(pair.get(), index as isize, number.into_raw());
        }
        Ok(pair)
    }
}

/// Returns the integers of a sequence of two, such as the result of `__dlpack_device__`. Integers
/// of more than 64 bits are the nearest ones.
pub fn two_integers(py: Py, tuple: &Owned, name: &'static str) -> Result<(i64, i64)> {
    let capi = py.capi();
    let item = |index: isize| -> Result<i64> {
        // SAFETY: the GIL is held.
        unsafe {
            let item = Owned::new(py, (capi.sequence_item)(tuple.get(), index))?;
            let number = (capi.index)(item.get());
            if number.is_null() && (capi.error_matches)(*capi.type_error) != 0 {
                py.clear();
                return fail!(
                    CAI_ERR_TYPE,
                    "{name}[{index}]",
                    found = ("an object of type {}", py.type_name(item.get())),
                    expected = "an integer"
                );
            }
            let number = Owned::new(py, number)?;
            let mut overflow = 0;
            let value = (capi.long_as_signed)(number.get(), &raw mut overflow);
            Ok(match overflow {
                0 => value,
                1.. => i64::MAX,
                _ => i64::MIN,
            })
        }
    };
    // SAFETY: the GIL is held; `capsule_is` accepts any object.
    unsafe {
        let size = match (capi.sequence_check)(tuple.get()) {
            0 => 0,
            _ => (capi.sequence_size)(tuple.get()),
        };
        if size < 0 {
            return raised();
        }
        if size != 2 {
            return fail!(
                CAI_ERR_TYPE,
                "{name}",
                found = ("an object of type {}", py.type_name(tuple.get())),
                expected = "a tuple of two integers"
            );
        }
    }
    Ok((item(0)?, item(1)?))
}

pub fn none<'py>(py: Py<'py>) -> Owned<'py> {
    shared(py, py.capi().none)
}

/// Adds a reference to an immortal object.
pub fn shared<'py>(py: Py<'py>, constant: *mut Object) -> Owned<'py> {
    match ptr::NonNull::new(constant) {
        Some(object) => Owned::share(py, object),
        // `capi` found it at start.
        None => unreachable!(),
    }
}

pub fn integer<'py>(py: Py<'py>, value: i64) -> Result<Owned<'py>> {
    // SAFETY: the GIL is held.
    Owned::new(py, unsafe { (py.capi().long_from_signed)(value) })
}

pub fn unsigned<'py>(py: Py<'py>, value: u64) -> Result<Owned<'py>> {
    // SAFETY: the GIL is held.
    Owned::new(py, unsafe { (py.capi().long_from_unsigned)(value) })
}

pub fn tuple<'py, const N: usize>(py: Py<'py>, items: [Owned<'py>; N]) -> Result<Owned<'py>> {
    let capi = py.capi();
    // SAFETY: the GIL is held. `tuple_set` takes over the reference to the item.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(N as isize))?;
        for (index, item) in items.into_iter().enumerate() {
            (capi.tuple_set)(tuple.get(), index as isize, item.into_raw());
        }
        Ok(tuple)
    }
}
