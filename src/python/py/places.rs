//! Places in objects that are read without a call, found with objects that are made for it.

use std::ffi::{CStr, c_void};
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::containers::NewTuple;
use super::table::{Functions, New};
use super::{Attached, Builtin, Capi, Obj, ObjectLayout, Owned, Tuple, TypeObj};
use crate::python::capi::Object;

/// From 3.11 on, no number of a type's version returns. Before, `PyType_ClearCache` begins anew, so
/// that a type can get the number that it had before a change: they are not used.
const UNIQUE_VERSIONS: u32 = 0x030b;

/// Encoding of integers of up to two digits. A word states the number of digits and the sign;
/// the digits, of 30 bits each, follow it.
///
/// CPython publishes nothing about it, so numbers are made and read back. If they are not read
/// right, CPython is called for each integer, as it could be always. That makes the import of a
/// dictionary 6 to 20 % slower, depending on the number of dimensions.
#[derive(Clone, Copy)]
pub struct Integers {
    /// The bits of the word that count.
    mask: usize,
    /// The word of zero.
    zero: usize,
    /// The word of a positive number of one digit.
    one: usize,
    /// The word of a positive number of two digits.
    two: usize,
    /// The word of a negative number of one digit.
    minus: usize,
}

impl Integers {
    /// Not known: no word is one of these.
    const UNKNOWN: Integers = {
        const NONE: usize = usize::MAX;
        Integers { mask: 0, zero: NONE, one: NONE, two: NONE, minus: NONE }
    };

    /// Up to 3.11, the word is the number of digits, negative for negative numbers. From 3.12 on,
    /// it is 8 times that number, plus 1 for zero and 2 for negative numbers; from 3.14 on, a bit
    /// of 4 marks immortal ones.
    const KNOWN: [Integers; 2] = [
        Integers { mask: usize::MAX, zero: 0, one: 1, two: 2, minus: usize::MAX },
        Integers { mask: !4, zero: 1, one: 8, two: 16, minus: 10 },
    ];
}

/// Places of what is read without a call. They were found in objects of this process, so each
/// object has them.
#[derive(Clone, Copy)]
pub struct Places {
    /// Bytes of the head of an object. The type is its last word. A size follows, in objects that
    /// have one.
    head: NonZeroUsize,
    /// Bytes from the start of a tuple to its items.
    items: usize,
    tuple: *mut Object,
    list: *mut Object,
    int: *mut Object,
    /// Encoding of integers, behind the head.
    integers: Integers,
}

impl Places {
    /// Returns the address of an object's type, which may change when Python code runs.
    #[inline(always)]
    pub fn type_of(&self, object: Obj) -> *mut Object {
        // SAFETY: the type is there (`Places`), and the object is alive (`Obj`).
        unsafe { object.object.byte_add(self.head.get()).cast::<*mut Object>().sub(1).read() }
    }

    /// Returns the address behind the head of an object.
    #[inline(always)]
    pub fn contents(&self, object: Obj) -> *const c_void {
        object.as_ptr().wrapping_byte_add(self.head.get()).cast()
    }

    #[inline(always)]
    pub fn exact_tuple<'a>(&self, object: Obj<'a>) -> Option<Tuple<'a>> {
        (self.type_of(object) == self.tuple).then(|| Tuple::of(object))
    }

    #[inline(always)]
    pub fn items<'a>(&self, tuple: Tuple<'a>) -> &'a [Option<Obj<'a>>] {
        let tuple = Obj::from(tuple).object;
        // SAFETY: a tuple has a size and as many items there (`Places`), which it keeps alive. It is
        // alive itself (`Obj`), and does not change.
        unsafe {
            let count = tuple.byte_add(self.head.get()).cast().read();
            std::slice::from_raw_parts(tuple.byte_add(self.items).cast().as_ptr(), count)
        }
    }

    /// Sets an item of a new tuple as CPython's macro does, without the checks of its function.
    #[inline(always)]
    pub(super) fn set_item(&self, tuple: &NewTuple, index: usize, item: Owned) {
        let tuple = tuple.obj().object;
        // SAFETY: a tuple has a size and as many items there (`Places`). Nothing else refers to it
        // yet (`NewTuple`), and the item, which is in range, is NULL until it is set.
        unsafe {
            let count: usize = tuple.byte_add(self.head.get()).cast().read();
            assert!(index < count);
            tuple.byte_add(self.items).cast::<*mut Object>().add(index).write(item.into_raw());
        }
    }

    /// Returns the number of items of an exact list. `None` for other objects.
    #[inline(always)]
    pub fn list_len(&self, object: Obj) -> Option<usize> {
        if self.type_of(object) != self.list {
            return None;
        }
        let size = object.as_ptr().wrapping_byte_add(self.head.get()).cast();
        // SAFETY: a list has a size there (`Places`), and is alive (`Obj`). Other threads of a
        // free-threaded build change it atomically.
        Some(unsafe { AtomicUsize::from_ptr(size) }.load(Ordering::Relaxed))
    }

    /// Returns the value of an exact integer if it has one digit, or two and is positive. `None` for
    /// others, for objects of other types, and if the encoding of integers is not known.
    #[inline(always)]
    pub fn integer(&self, object: Obj) -> Option<i64> {
        if self.type_of(object) != self.int {
            return None;
        }
        // SAFETY: `Probe::has_integers` found the word there in integers, with as many digits behind
        // it, or is about to. The object is alive (`Obj`), and integers do not change.
        unsafe {
            let word = object.object.byte_add(self.head.get()).cast::<usize>();
            let digits = word.add(1).cast::<u32>();
            let state = word.read() & self.integers.mask;
            if state == self.integers.one {
                Some(digits.read().into())
            } else if state == self.integers.two {
                Some(i64::from(digits.read()) | i64::from(digits.add(1).read()) << 30)
            } else if state == self.integers.zero {
                Some(0)
            } else if state == self.integers.minus {
                Some(-i64::from(digits.read()))
            } else {
                None
            }
        }
    }
}

impl Capi {
    /// Returns the address of an object's type, which may change when Python code runs.
    #[inline(always)]
    pub fn type_of(&self, object: Obj) -> *mut Object {
        match &self.facts.places {
            Some(places) => places.type_of(object),
            None => self.ask_type_of(object),
        }
    }

    /// Asks CPython, if the place is not known. The object keeps its type alive.
    #[cold]
    #[inline(never)]
    fn ask_type_of(&self, object: Obj) -> *mut Object {
        let r#type = (self.object_type)(object);
        let address = r#type.0.map_or(ptr::null_mut(), NonNull::as_ptr);
        (self.decref)(r#type);
        address
    }

    /// Returns the number of a type's version: another one after each change of the type or of a
    /// base. 0 if it has none, or if that is not known.
    #[inline(always)]
    pub(super) fn type_version(&self, r#type: TypeObj) -> u32 {
        match self.facts.type_version {
            0 => 0,
            offset => {
                let number = Obj::from(r#type).as_ptr().wrapping_byte_add(offset).cast::<u32>();
                // SAFETY: `Probe::versions` found the number there, and the type is alive
                // (`TypeObj`). Other threads of a free-threaded build change it atomically.
                unsafe { AtomicU32::from_ptr(number) }.load(Ordering::Acquire)
            }
        }
    }
}

/// Finds out where objects store what is read without a call. An exception that is set already is
/// the caller's.
pub fn find_places(attached: Attached) -> ObjectLayout {
    let mut facts = attached.capi().facts;
    attached.keeping_exception(|| {
        let probe = Probe(attached);
        facts.head = probe.number(Builtin::Object, c"__basicsize__");
        facts.places = probe.places(facts.head, probe.number(Builtin::Tuple, c"__basicsize__"));
        if facts.version >= UNIQUE_VERSIONS {
            facts.type_version = probe.versions().unwrap_or(0);
        }
        (attached.capi().error_clear)();
    });
    facts
}

/// Makes objects and looks into them.
#[derive(Clone, Copy)]
struct Probe<'a>(Attached<'a>);

/// An object of a probe. Released when dropped, unless CPython ends the thread, without the GIL.
struct Made<'a>(NonNull<Object>, Probe<'a>);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if self.1.capi().is_attached() {
            (self.1.capi().decref)(New(Some(self.0)));
        }
    }
}

impl Made<'_> {
    fn obj(&self) -> Obj<'_> {
        // SAFETY: this reference keeps the object alive, and the thread is attached (`Probe`).
        unsafe { Obj::new(self.0) }
    }

    fn share(&self) -> New {
        self.1.share(self.obj())
    }
}

impl<'a> Probe<'a> {
    fn capi(self) -> &'a Capi {
        self.0.capi()
    }

    fn made(self, new: New) -> Option<Made<'a>> {
        new.0.map(|object| Made(object, self))
    }

    fn text(self, text: &'static CStr) -> Option<Made<'a>> {
        self.made((self.capi().str_intern)(text.into()))
    }

    fn builtin(self, object: Builtin) -> Obj<'a> {
        object.of(self.0)
    }

    fn share(self, object: Obj) -> New {
        (self.capi().incref)(object);
        New(Some(object.object))
    }

    /// Returns an attribute that is a positive integer; 0 if it is something else.
    fn number(self, object: Builtin, name: &'static CStr) -> usize {
        let value = self
            .text(name)
            .and_then(|name| self.made((self.capi().get_attr)(self.builtin(object), name.obj())));
        // A function that fails returns a negative number.
        let number = value.map_or(0, |value| (self.capi().long_as_size)(value.obj()));
        usize::try_from(number).unwrap_or(0)
    }

    /// Finds out with one tuple whether types, sizes and the items of tuples are where they should be:
    /// the type at the end of an object's head, a size behind the head, the items behind what
    /// `tuple.__basicsize__` states. Otherwise CPython is called for them.
    fn places(self, head: usize, items: usize) -> Option<Places> {
        const WORD: usize = size_of::<usize>();
        if head < 2 * WORD || items < head + WORD || head % WORD != 0 || items % WORD != 0 {
            return None;
        }
        let constants = [Builtin::None, Builtin::True, Builtin::False].map(|it| self.builtin(it));
        let tuple = self.made((self.capi().tuple_new)(constants.len() as isize))?;
        for (index, &item) in constants.iter().enumerate() {
            (self.capi().tuple_set)(tuple.obj(), index as isize, self.share(item));
        }
        // SAFETY: the tuple has as many bytes as `__basicsize__` states and a word for each item,
        // of which only these are read, and every bit pattern is a valid integer.
        let word = |offset: usize| unsafe { tuple.0.byte_add(offset).cast::<usize>().read() };
        let as_stated = word(head - WORD) == self.capi().tuple_type as usize
            && word(head) == constants.len()
            && (0..)
                .zip(constants)
                .all(|(index, item)| word(items + index * WORD) == item.as_ptr() as usize);
        let head = NonZeroUsize::new(head).filter(|_| as_stated)?;
        let Functions { tuple_type: tuple, list_type: list, long_type: int, .. } = **self.capi();
        let places = |integers| Places { head, items, tuple, list, int, integers };
        let known = Integers::KNOWN.map(places).into_iter();
        let found = known.filter(|_| WORD == 8).find(|places| self.has_integers(places));
        Some(found.unwrap_or(places(Integers::UNKNOWN)))
    }

    /// Checks how integers store their digits, with numbers of zero to three. A wrong layout takes
    /// the first numbers for others before it expects more digits.
    fn has_integers(self, places: &Places) -> bool {
        const DIGIT: i64 = 1 << 30;
        const NUMBERS: [i64; 12] = [
            0,
            1,
            -1,
            257,
            DIGIT - 1,
            DIGIT,
            -DIGIT,
            5 * DIGIT + 3,
            -7 * DIGIT - 1,
            DIGIT * DIGIT - 1,
            DIGIT * DIGIT,
            i64::MIN,
        ];
        NUMBERS.iter().all(|&number| {
            let Some(integer) = self.made((self.capi().long_from_signed)(number)) else {
                return false;
            };
            let is_short = -DIGIT < number && number < DIGIT * DIGIT;
            places.integer(integer.obj()) == is_short.then_some(number)
        })
    }

    /// Finds out where types store their version, with one whose base changes. `tp_version_tag` is
    /// the word after the next to `tp_weaklist`, whose place `type` publishes.
    fn versions(self) -> Option<usize> {
        let size = |name| self.number(Builtin::Type, name);
        let (weak, whole) = (size(c"__weakrefoffset__"), size(c"__basicsize__"));
        let offset = weak + 2 * size_of::<usize>();
        if weak == 0 || weak % size_of::<usize>() != 0 || offset + size_of::<u64>() > whole {
            return None;
        }
        let name = self.text(c"x")?;
        let base = self.new_type(None)?;
        let derived = self.new_type(Some(&base))?;
        let number = |of: &Made| {
            // SAFETY: inside of a type, as `__basicsize__` states, and every bit pattern is a valid
            // integer.
            unsafe { of.0.byte_add(offset).cast::<u32>().read() }
        };
        // Gives the base an attribute, and reads it from the type that derives from it.
        let set = |value| (self.capi().set_attr)(base.obj(), name.obj(), value) == 0;
        let look_up = |value: Obj| {
            let found = self.made((self.capi().get_attr)(derived.obj(), name.obj()));
            found.is_some_and(|found| found.obj() == value)
        };
        let (none, r#true) = (self.builtin(Builtin::None), self.builtin(Builtin::True));
        if !set(none) || !look_up(none) {
            return None;
        }
        let (first, of_base) = (number(&derived), number(&base));
        if first == 0 || of_base == 0 || first == of_base || !look_up(none) {
            return None;
        }
        if number(&derived) != first || !set(r#true) || number(&derived) != 0 || !look_up(r#true) {
            return None;
        }
        let second = number(&derived);
        (second != 0 && second != first).then_some(offset)
    }

    /// Returns a new type with this base, or with `object`.
    fn new_type(self, base: Option<&Made>) -> Option<Made<'a>> {
        let bases = self.made((self.capi().tuple_new)(isize::from(base.is_some())))?;
        if let Some(base) = base {
            (self.capi().tuple_set)(bases.obj(), 0, base.share());
        }
        let members = self.made((self.capi().dict_new)())?;
        let arguments = self.made((self.capi().tuple_new)(3))?;
        let items = [self.text(c"libcai_probe")?, bases, members];
        for (index, item) in items.iter().enumerate() {
            (self.capi().tuple_set)(arguments.obj(), index as isize, item.share());
        }
        let r#type = self.builtin(Builtin::Type);
        self.made((self.capi().call)(r#type, Tuple::of(arguments.obj()), None))
    }
}
