//! Pointers that a C caller passes, as types. What the header requires of an argument is the contract
//! of its type, so an exported function argues about safety once: where it makes them.
//!
//! Each may be NULL. [`In::given`] and [`Out::given`] fail then with the name of the parameter.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};
use std::slice;

use crate::abi::{
    self, CAI_TYPESTR_SIZE, cai_array, cai_device, cai_driver_info, cai_dtype, cai_error,
    cai_layout, cai_owner, cai_pointer_info, cai_status,
};
use crate::error::{Failure, Result, fail};
use crate::owner::{Array, Ref};
pub use crate::read::Given;
use crate::read::{self, Growing, StatesSize, sizes};

/// Gives the arguments of an exported function their types: `array: In, out: Out(place)` is an `In` of
/// `array` and an `Out` of `place`. A list names the pointer and its length, an `Obj` its pointer.
/// Only unsafe functions compile with it.
macro_rules! arguments {
    (@new $name:ident $kind:ident) => { $kind::new($name) };
    (@new $name:ident Obj $from:expr) => { Obj::from_ptr($from) };
    (@new $name:ident $kind:ident $($from:expr),+) => { $kind::new($($from),+) };
    ($($name:ident: $kind:ident $(($($from:expr),+))?),+ $(,)?) => {
        // SAFETY: the caller passes what the header requires of each argument.
        #[allow(unsafe_op_in_unsafe_fn)]
        let ($($name,)+) = ($($crate::argument::arguments!(@new $name $kind $($($from),+)?),)+);
    };
}
pub(crate) use arguments;

fn given<T>(pointer: *mut T, name: &str) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| Failure::null(name))
}

/// A pointer to a value that is only read, or NULL. A list of pointers is a list of these.
#[repr(transparent)]
pub struct In<'a, T>(*const T, PhantomData<&'a T>);

impl<T> Clone for In<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<'_, T> {}

impl<'a, T> In<'a, T> {
    /// # Safety
    /// `pointer` is NULL, or points to a `T`. It is readable and unchanged for `'a`, with all that it
    /// points to, and its owners are alive as long. A structure that states its size has that size.
    #[inline(always)]
    pub unsafe fn new(pointer: *const T) -> Self {
        In(pointer, PhantomData)
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *const T {
        self.0
    }

    #[inline(always)]
    pub fn given(self, name: &str) -> Result<Given<'a, T>> {
        self.optional().ok_or_else(|| Failure::null(name))
    }

    #[inline(always)]
    pub fn optional(self) -> Option<Given<'a, T>> {
        // SAFETY: the contract of `new`.
        unsafe { Given::optional(self.0) }
    }
}

/// A type that has one size in all versions of the headers.
///
/// # Safety
/// It does: it does not state its size.
pub unsafe trait Fixed {}

macro_rules! fixed {
    ($($name:ty),+ $(,)?) => {$(
        // SAFETY: no member of it states its size.
        unsafe impl Fixed for $name {}
    )+};
}

fixed! {
    bool, i32, i64, u32, u64, usize, cai_device, cai_dtype, cai_layout, cai_error, cai_driver_info,
    cai_pointer_info,
}

// SAFETY: pointers have one size.
unsafe impl<T> Fixed for *mut T {}
// SAFETY: pointers have one size.
unsafe impl<T> Fixed for *const T {}

impl<T: Fixed + Copy> Given<'_, T> {
    #[inline(always)]
    pub fn read(self) -> T {
        // SAFETY: a value of this type and size (the contract of `Given::new`).
        unsafe { self.as_ptr().read() }
    }
}

impl Given<'_, cai_array> {
    /// Adds a reference to the owner. Only its first 16 bytes are read, the same in every version.
    #[inline(always)]
    pub fn retain(self) -> Result<Ref> {
        self.check_size()?;
        // SAFETY: the owner lies in these bytes, and is NULL or alive (the contract of `Given::new`).
        unsafe { Ref::retain((&raw const (*self.as_ptr()).owner).read()) }
    }
}

const _: () = assert!(sizes::PREFIX == offset_of!(cai_array, owner) + size_of::<*mut cai_owner>());

impl Given<'_, cai_owner> {
    #[inline(always)]
    pub fn retain(self) -> Result<Ref> {
        // SAFETY: alive (the contract of `Given::new`).
        unsafe { Ref::retain(self.as_ptr().cast_mut()) }
    }
}

/// A reference to an owner that a caller gives up, or NULL.
pub struct Reference<'a>(*mut cai_owner, PhantomData<&'a cai_owner>);

impl Reference<'_> {
    /// Wraps an argument.
    ///
    /// # Safety
    /// `owner` is NULL, or points to an owner of any library, which is alive for `'a`. The caller has
    /// a reference to it and gives that up if [`adopt`](Self::adopt) succeeds.
    #[inline(always)]
    pub unsafe fn new(owner: *mut cai_owner) -> Self {
        Reference(owner, PhantomData)
    }

    #[inline(always)]
    pub fn is_given(&self) -> bool {
        !self.0.is_null()
    }

    /// Fails for NULL.
    pub fn given(self, name: &str) -> Result<Self> {
        given(self.0, name).map(|_| self)
    }

    /// Returns the address, which identifies the owner.
    pub fn as_ptr(&self) -> *const cai_owner {
        self.0
    }

    /// Takes the reference over. Fails for NULL, and for an owner that cannot be released: then the
    /// caller keeps it.
    #[inline(always)]
    pub fn adopt(self) -> Result<Ref> {
        // SAFETY: NULL or alive, and given up once (the contract of `new`).
        unsafe { Ref::adopt(self.0) }
    }
}

/// A caller's text, or NULL.
#[derive(Clone, Copy)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    /// # Safety
    /// `pointer` is NULL, or points to characters that are readable and unchanged for `'a` up to the
    /// first NUL.
    #[inline(always)]
    pub unsafe fn new(pointer: *const c_char) -> Self {
        Text(pointer, PhantomData)
    }

    pub fn given(self, name: &str) -> Result<&'a CStr> {
        self.optional().ok_or_else(|| Failure::null(name))
    }

    pub fn optional(self) -> Option<&'a CStr> {
        // SAFETY: not NULL here, and terminated (the contract of `new`).
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}

#[derive(Clone, Copy)]
pub struct Typestr<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Typestr<'a> {
    /// # Safety
    /// `pointer` is NULL, or points to characters that are readable and unchanged for `'a` up to the
    /// first NUL, or to `CAI_TYPESTR_SIZE` of them.
    pub unsafe fn new(pointer: *const c_char) -> Self {
        Typestr(pointer, PhantomData)
    }

    /// Returns the text, or fails for NULL. `None` if it does not end within the size of a typestr.
    pub fn given(self, name: &str) -> Result<Option<&'a [u8]>> {
        given(self.0.cast_mut(), name)?;
        // SAFETY: not NULL (checked above), so readable up to the first NUL (the contract of `new`),
        // where the search for the length ends.
        Ok(unsafe {
            let length = (0..CAI_TYPESTR_SIZE).find(|&index| self.0.add(index).read() == 0);
            length.map(|length| slice::from_raw_parts(self.0.cast(), length))
        })
    }
}

/// A caller's list of values, whose length is another argument.
pub struct List<'a, T>(*const T, usize, PhantomData<&'a T>);

impl<'a, T> List<'a, T> {
    /// # Safety
    /// `pointer` is NULL, or points to `count` values that are readable and unchanged for `'a`.
    #[inline(always)]
    pub unsafe fn new(pointer: *const T, count: usize) -> Self {
        List(pointer, count, PhantomData)
    }

    pub fn not_null(&self, name: &str) -> Result<()> {
        given(self.0.cast_mut(), name).map(drop)
    }

    /// Returns the values, or fails for NULL unless there are none.
    pub fn given(self, name: &str) -> Result<&'a [T]> {
        if self.1 > 0 {
            given(self.0.cast_mut(), name)?;
        }
        // SAFETY: not NULL if there are any (checked above), so readable (the contract of `new`).
        Ok(unsafe { read::values(self.0, self.1) })
    }
}

/// A caller's buffer, whose size is another argument, and which is filled from its beginning.
pub struct Buffer<'a, T> {
    start: *mut T,
    size: usize,
    used: usize,
    alive: PhantomData<&'a mut T>,
}

impl<T: Copy> Buffer<'_, T> {
    /// # Safety
    /// `start` is NULL, or points to `size` values that are writable for `'a`, and which nothing else
    /// reads or writes meanwhile.
    pub unsafe fn new(start: *mut T, size: usize) -> Self {
        Buffer { start, size, used: 0, alive: PhantomData }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn is_given(&self) -> bool {
        !self.start.is_null()
    }

    /// Fails for NULL, unless `count` is 0.
    pub fn given(&self, count: usize, name: &str) -> Result<()> {
        if count > 0 {
            given(self.start, name)?;
        }
        Ok(())
    }

    /// Appends values. Writes nothing if they do not fit.
    #[inline(always)]
    pub fn append(&mut self, values: &[T]) {
        if self.is_given() && values.len() <= self.size - self.used {
            // SAFETY: not NULL, and the values fit (checked above); `size` of them are writable (the
            // contract of `new`).
            unsafe { self.start.add(self.used).copy_from(values.as_ptr(), values.len()) };
            self.used += values.len();
        }
    }
}

/// A caller's shape.
pub struct Shape<'a>(i32, List<'a, i64>);

impl<'a> Shape<'a> {
    /// # Safety
    /// If the number of dimensions is legal, `shape` is NULL or points to as many extents, which are
    /// readable and unchanged for `'a`.
    pub unsafe fn new(ndim: i32, shape: *const i64) -> Self {
        Shape(ndim, List(shape, usize::try_from(ndim).unwrap_or_default(), PhantomData))
    }

    /// Returns the extents, of which only the number is checked.
    pub fn given(self) -> Result<&'a [i64]> {
        let Shape(ndim, extents) = self;
        read::check_shape(ndim, extents.0)?;
        extents.given("shape")
    }
}

/// A pointer to an output, or NULL.
pub struct Out<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<T> Clone for Out<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<'_, T> {}

impl<'a, T> Out<'a, T> {
    pub const NONE: Self = Out(ptr::null_mut(), PhantomData);

    /// # Safety
    /// `pointer` is NULL, or points to a `T` that is writable for `'a`, and which nothing else reads
    /// or writes meanwhile. A structure that states its size has that size; other values may be
    /// uninitialized.
    #[inline(always)]
    pub unsafe fn new(pointer: *mut T) -> Self {
        Out(pointer, PhantomData)
    }

    #[inline(always)]
    pub fn given(self, name: &str) -> Result<Output<'a, T>> {
        Ok(Output(given(self.0, name)?, PhantomData))
    }

    #[inline(always)]
    pub fn optional(self) -> Option<Output<'a, T>> {
        Some(Output(NonNull::new(self.0)?, PhantomData))
    }
}

impl<T: Fixed> Out<'_, T> {
    /// Fails for NULL. Otherwise writes what `make` returns, on success.
    pub fn fill(self, name: &str, make: impl FnOnce() -> Result<T>) -> Result<()> {
        let output = self.given(name)?;
        make().map(|value| output.write(value))
    }

    /// Writes a value, unless the caller wants none.
    pub fn put(self, value: T) {
        if let Some(output) = self.optional() {
            output.write(value);
        }
    }
}

pub struct Output<'a, T>(NonNull<T>, PhantomData<&'a mut T>);

impl<T> Output<'_, T> {
    #[inline(always)]
    pub fn write(self, value: T)
    where
        T: Fixed,
    {
        // SAFETY: writable (the contract of `Out::new`), and not shorter than the type.
        unsafe { self.0.write(value) };
    }
}

impl<'a, T> Output<'a, T> {
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

/// Memory for a structure that states its size, or NULL. The caller says how many bytes there are.
pub struct Room<'a>(*mut u8, usize, PhantomData<&'a mut u8>);

impl Room<'_> {
    /// # Safety
    /// `start` is NULL, or points to `size` bytes that are writable for the lifetime, and which nothing
    /// else reads or writes meanwhile.
    pub unsafe fn new(start: *mut c_void, size: usize) -> Self {
        Room(start.cast(), size, PhantomData)
    }

    /// Writes a structure with the size of the room: zeros, and the members that `fill` sets, as far as
    /// there is room. Writes nothing for NULL and for a size that no version has. The status says all
    /// there is to say of a failure, and nothing can panic.
    pub fn initialize<T: Growing + StatesSize>(self, fill: impl FnOnce(&mut T)) -> cai_status {
        let Room(start, size, _) = self;
        if start.is_null() {
            return abi::CAI_ERR_NULL_ARGUMENT;
        }
        if !read::is_legal(size, T::FIRST) {
            return abi::CAI_ERR_STRUCT_SIZE;
        }
        let mut value: T = read::zeroed();
        fill(&mut value);
        let stated = size as u32;
        // SAFETY: `size` bytes are writable (the contract of `new`), at least 4; no more are written.
        // They are written as bytes, because a caller without our header may not align them.
        unsafe {
            start.write_bytes(0, size);
            start.copy_from((&raw const value).cast(), size.min(size_of::<T>()));
            start.copy_from((&raw const stated).cast(), size_of::<u32>());
        }
        abi::CAI_OK
    }
}

impl<'a> Out<'a, cai_array> {
    /// Returns the structure for an array, or fails for NULL and for a size that no version has.
    #[inline(always)]
    pub fn array(self, name: &str) -> Result<ArrayOutput<'a>> {
        let (place, size) = self.stated_size().ok_or_else(|| Failure::null(name))?;
        read::legal_array_size(size).map_err(|failure| failure.within(format_args!("{name}->")))?;
        Ok(ArrayOutput(place, size, PhantomData))
    }

    /// Returns a structure whose caller knows as much as this library.
    #[inline(always)]
    pub fn of_this_size(self) -> Option<ArrayOutput<'a>> {
        let (place, size) = self.stated_size()?;
        (size == size_of::<cai_array>()).then_some(ArrayOutput(place, size, PhantomData))
    }

    /// Returns the structure with the size that it states, unless it is NULL.
    #[inline(always)]
    fn stated_size(self) -> Option<(NonNull<cai_array>, usize)> {
        let place = NonNull::new(self.0)?;
        // SAFETY: not NULL (checked above), and its size is set (the contract of `new`).
        let size = unsafe { (&raw const (*place.as_ptr()).struct_size).read() };
        Some((place, size as usize))
    }
}

/// A structure for an array, with its size, which was checked.
pub struct ArrayOutput<'a>(NonNull<cai_array>, usize, PhantomData<&'a mut cai_array>);

impl ArrayOutput<'_> {
    pub fn differs_from(&self, input: In<cai_array>, name: &str) -> Result<()> {
        if ptr::eq(self.0.as_ptr(), input.as_ptr()) {
            return fail!(CAI_ERR_ARGUMENT, "out"; found "{name}"; expected "another structure");
        }
        Ok(())
    }

    #[inline(always)]
    pub fn give(self, array: Array) {
        self.put(&array, array.owner);
        array.into_owner().into_raw();
    }

    /// Gives a copy of an array with a reference to its owner to the caller.
    #[inline(always)]
    pub fn give_copy(self, array: &cai_array, owner: Ref) {
        debug_assert!(ptr::eq(array.owner, owner.as_ptr()));
        self.put(array, owner.into_raw());
    }

    /// # Safety
    /// The caller of the exported function gets one reference to the owner of `array`.
    #[inline(always)]
    pub unsafe fn write(self, array: &cai_array) {
        self.put(array, array.owner);
    }

    /// Writes an array with this owner.
    #[inline(always)]
    fn put(&self, array: &cai_array, owner: *mut cai_owner) {
        let to = self.0.as_ptr();
        // SAFETY: writable, with as many bytes as it states (the contract of `Out::new`); every
        // version has an owner.
        unsafe {
            read::write_array(to, self.1, array);
            (&raw mut (*to).owner).write(owner);
        }
    }
}

/// A pointer to an array that a function changes, or NULL.
pub struct InOut<'a>(*mut cai_array, PhantomData<&'a mut cai_array>);

impl<'a> InOut<'a> {
    /// # Safety
    /// `array` is NULL, or as for [`In::new`] and writable until its owner is released; nothing else
    /// reads or writes it meanwhile. If it was never initialized, its first 16 bytes are readable and
    /// writable all the same. The caller has the reference that the structure holds.
    #[inline(always)]
    pub unsafe fn new(array: *mut cai_array) -> Self {
        InOut(array, PhantomData)
    }

    #[inline(always)]
    pub fn is_given(&self) -> bool {
        !self.0.is_null()
    }

    #[inline(always)]
    pub fn input(&self) -> In<'_, cai_array> {
        In(self.0, PhantomData)
    }

    /// Returns the structure, or fails for NULL and for a size that no version has.
    #[inline(always)]
    pub fn given(self, name: &str) -> Result<Structure<'a>> {
        let structure = given(self.0, name)?;
        self.input().given(name)?.check_size()?;
        Ok(Structure(structure, PhantomData))
    }

    /// Clears the structure, and returns the reference that it held, if any. A size that no version
    /// has was never set: then only the prefix of all versions is cleared.
    #[inline(always)]
    pub fn take(self) -> Option<Ref> {
        let array = NonNull::new(self.0)?.as_ptr();
        // SAFETY: the prefix is readable and writable even if `struct_size` was never set.
        let owner = unsafe {
            let owner = (&raw const (*array).owner).read();
            // The number of bytes is a constant in each branch: the compiler needs no call.
            if read::is_legal((&raw const (*array).struct_size).read() as usize, sizes::ARRAY) {
                clear(array, sizes::ARRAY);
            } else {
                clear(array, sizes::PREFIX);
            }
            owner
        };
        // The structure has held this reference, which the caller gives up (the contract of `new`).
        let owner = Reference(owner, PhantomData);
        if owner.is_given() { owner.adopt().ok() } else { None }
    }
}

/// Sets the members of a structure to 0, except `struct_size`. Not as many bytes as the structure
/// states, because an assigned copy of a longer one has fewer.
///
/// # Safety
/// `bytes`, at least 4, are writable at `array`.
#[inline(always)]
unsafe fn clear(array: *mut cai_array, bytes: usize) {
    let kept = offset_of!(cai_array, flags);
    // SAFETY: as many bytes are writable (this function's contract).
    unsafe { array.cast::<u8>().add(kept).write_bytes(0, bytes - kept) };
}

/// An array that a function changes, of a legal size.
pub struct Structure<'a>(NonNull<cai_array>, PhantomData<&'a mut cai_array>);

/// The bytes that every version of a structure has.
type Members = [MaybeUninit<u8>; sizes::ARRAY];

impl<'a> Structure<'a> {
    #[inline(always)]
    pub fn input(&self) -> Given<'_, cai_array> {
        // SAFETY: `InOut::new` requires what `Given::new` does, and its size was found to be legal.
        unsafe { Given::new(self.0.as_ptr()) }
    }

    /// Copies the members that every version has.
    pub fn first_members(&self) -> Result<cai_array> {
        // SAFETY: every version has as many bytes.
        read::first_members(unsafe { self.0.cast().as_ref() })
    }

    /// Clears the structure, which its owner may free at once, and returns what it contained.
    #[inline(always)]
    pub fn take(self) -> Taken<'a> {
        let array = self.0.as_ptr();
        // SAFETY: every version has these members and as many bytes, and the size is legal
        // (`InOut::given`).
        unsafe {
            let taken = Taken {
                owner: Reference((&raw const (*array).owner).read(), PhantomData),
                device_type: (&raw const (*array).device.r#type).read(),
                members: Saved(self.0.cast::<Members>().read(), self.0, PhantomData),
            };
            clear(array, sizes::ARRAY);
            taken
        }
    }

    fn owner(&mut self) -> &mut *mut cai_owner {
        // SAFETY: every version has this member.
        unsafe { &mut (*self.0.as_ptr()).owner }
    }

    /// Takes the reference out. Fails, and changes nothing, for NULL and for an owner that cannot be
    /// released.
    pub fn take_owner(&mut self) -> Result<Ref> {
        // The structure holds this reference, which the caller gives up (the contract of `new`).
        let owner = Reference(*self.owner(), PhantomData).adopt()?;
        *self.owner() = ptr::null_mut();
        Ok(owner)
    }

    /// Sets the owner, after it was taken out.
    pub fn set_owner(&mut self, owner: Ref) {
        *self.owner() = owner.into_raw();
    }

    pub fn set_mask(&mut self, mask: *const cai_array) {
        // SAFETY: every version has this member.
        unsafe { (&raw mut (*self.0.as_ptr()).mask).write(mask) };
    }

    /// Sets the members that describe the stream. The others, known or not, stay as they are.
    pub fn set_stream(&mut self, from: &cai_array) {
        let array = self.0.as_ptr();
        // SAFETY: every version has these members.
        unsafe {
            (&raw mut (*array).stream).write(from.stream);
            (&raw mut (*array).stream_id).write(from.stream_id);
            (&raw mut (*array).event).write(from.event);
            (&raw mut (*array).context).write(from.context);
        }
    }
}

/// Contents of a structure before it was cleared.
pub struct Taken<'a> {
    /// The reference that the structure held.
    pub owner: Reference<'a>,
    pub device_type: i32,
    /// The members that every version has.
    pub members: Saved<'a>,
}

/// Members of a structure, and the place that they come from.
pub struct Saved<'a>(Members, NonNull<cai_array>, PhantomData<&'a mut cai_array>);

impl Saved<'_> {
    /// # Safety
    /// The reference was not released, so the structure still exists.
    pub unsafe fn restore(self) {
        // SAFETY: writable as before (this function's contract).
        unsafe { self.1.cast::<Members>().write(self.0) };
    }
}
