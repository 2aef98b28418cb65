//! Comparison of an array's elements with a Rust type.

use crate::element::Element;
use crate::error::{Error, Result, call};
use crate::sys::{self, cai_array, cai_dtype};

/// Fails if the elements of an array are not of type `T`.
pub(crate) fn check_type<T: Element>(array: &cai_array) -> Result<()> {
    let wanted = T::TYPESTR.as_bytes();
    let has = |index: usize| array.typestr.get(index).map(|character| *character as u8);
    let same = wanted.iter().enumerate().all(|(index, byte)| has(index) == Some(*byte))
        && has(wanted.len()) == Some(0);
    if same && array.dtype_code == T::CODE && array.descr.is_null() {
        return Ok(());
    }
    check_type_slowly(array, wanted, size_of::<T>(), T::CODE)
}

#[inline(never)]
fn check_type_slowly(array: &cai_array, wanted: &[u8], size: usize, code: u16) -> Result<()> {
    let empty = cai_dtype {
        kind: 0,
        byte_order: 0,
        code: 0,
        unit: 0,
        unit_count: 0,
        reserved: [0; 2],
        itemsize: 0,
        bits: 0,
    };
    let (mut found, mut expected) = (empty, empty);
    let mut text = [0; sys::CAI_TYPESTR_SIZE];
    for (to, byte) in text.iter_mut().take(15).zip(wanted) {
        *to = *byte as std::ffi::c_char;
    }
    // SAFETY: the array is valid, the text ends in NUL, and the outputs are writable.
    unsafe {
        call(|error| sys::cai_array_dtype(array, &mut found, error))?;
        call(|error| sys::cai_array_validate(array, sys::CAI_CHECK_NATIVE, error))?;
        call(|error| sys::cai_dtype_parse(text.as_ptr(), &mut expected, error))?;
    }
    expected.code = code;
    let name = |dtype: &cai_dtype| {
        let mut text = [0u8; 32];
        let mut length = 0;
        // SAFETY: the type was parsed, and 32 characters are writable.
        let result = call(|error| unsafe {
            sys::cai_dtype_format(dtype, text.as_mut_ptr().cast(), text.len(), &mut length, error)
        });
        let code = match dtype.code {
            sys::CAI_DTYPE_NONE => String::new(),
            code => format!(" with dtype_code {code}"),
        };
        result.map(|()| format!("{}{code}", String::from_utf8_lossy(&text[..length])))
    };
    // SAFETY: both are types.
    let equal = unsafe { sys::cai_dtype_equal(&found, &expected) };
    // A code names the elements, whatever kind carries them.
    let same_code = code != sys::CAI_DTYPE_NONE && found.code == code;
    let same = equal || same_code && found.itemsize == expected.itemsize;
    if !same || found.itemsize != size as i64 {
        let expected = name(&expected)?;
        return Err(Error::new(sys::CAI_ERR_CONVERT_TYPE, "typestr", name(&found)?, expected));
    }
    Ok(())
}
