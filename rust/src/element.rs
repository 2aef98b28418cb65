//! Types of elements.

use crate::sys;

/// A Rust type of elements: which type of an array it reads.
///
/// It is implemented for integers, floats, [`Bool`] and [`Complex`]. Implement it for your own
/// `#[repr(C)]` structures, and for the 16-bit floats of the crate that you use:
///
/// ```
/// #[derive(Clone, Copy)]
/// #[repr(transparent)]
/// struct Bf16(u16);
///
/// // SAFETY: two bytes without padding, of which every value is valid.
/// unsafe impl libcai::Element for Bf16 {
///     const TYPESTR: &'static str = if cfg!(target_endian = "big") { ">V2" } else { "<V2" };
///     const CODE: u16 = libcai::sys::CAI_DTYPE_BFLOAT16;
/// }
/// ```
///
/// # Safety
/// Any bytes are a valid value of the type, which has no padding and no interior mutability. Its
/// size is that of `TYPESTR`.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The type in the grammar of NumPy's array interface, in the machine's byte order, at most 15
    /// characters: `<f4`.
    const TYPESTR: &'static str;
    /// The meaning of an opaque type: a `CAI_DTYPE_` constant of [`sys`].
    const CODE: u16 = sys::CAI_DTYPE_NONE;
}

/// A boolean of one byte, as arrays have it: 0 is false, every other value true. A Rust `bool` must
/// not be read from memory that other code writes, because it has two valid values only.
///
/// ```
/// use libcai::Bool;
///
/// let values: Vec<Bool> = [true, false].map(Bool::from).into();
/// let array = libcai::Array::from_vec(values, &[2])?;
/// assert_eq!(array.typestr(), "|b1");
/// assert!(array.to_vec::<Bool>()?[0].get());
/// # Ok::<(), libcai::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// Returns the value.
    #[must_use]
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Bool(value.into())
    }
}

/// A complex number of two floats.
///
/// ```
/// let number = libcai::Complex { re: 1.0f32, im: -2.0 };
/// let array = libcai::Array::from_vec(vec![number], &[1])?;
/// assert_eq!(array.typestr(), "<c8");
/// # Ok::<(), libcai::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// Real part.
    pub re: T,
    /// Imaginary part.
    pub im: T,
}

macro_rules! elements {
    ($($type:ty, $little:literal, $big:literal;)*) => {$(
        // SAFETY: a number, or two of one type, of as many bytes as the text states; every value is
        // valid.
        unsafe impl Element for $type {
            const TYPESTR: &'static str = if cfg!(target_endian = "big") { $big } else { $little };
        }
    )*};
}

elements! {
    i8, "|i1", "|i1";
    i16, "<i2", ">i2";
    i32, "<i4", ">i4";
    i64, "<i8", ">i8";
    u8, "|u1", "|u1";
    u16, "<u2", ">u2";
    u32, "<u4", ">u4";
    u64, "<u8", ">u8";
    f32, "<f4", ">f4";
    f64, "<f8", ">f8";
    Bool, "|b1", "|b1";
    Complex<f32>, "<c8", ">c8";
    Complex<f64>, "<c16", ">c16";
}
