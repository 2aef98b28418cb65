//! Requirements of the caller, checked after an import.

use std::fmt;

use crate::abi::{self, cai_array, cai_device, cai_import_options};
use crate::device::{has_streams, is_cuda};
use crate::error::{Count, Failure, Result, Text, fail, failure};
use crate::python::import::options::{self, ImportOptions};
use crate::python::owner::Description;
use crate::read::{Given, Unchecked};
use crate::sync::identity;
use crate::validate::{self, Valid};
use crate::{driver, dtype};

/// Checks the caller's requirements, and completes the array as requested.
#[inline(always)]
pub fn check(to: &mut Description, options: &ImportOptions) -> Result<()> {
    name_opaque(&mut to.array, &options.raw);
    if are_met(&to.array, &options.raw) {
        return Ok(());
    }
    check_requirements(to, options)
}

/// Sets the code of opaque elements, if the caller says what they mean and the array does not.
#[inline(always)]
fn name_opaque(array: &mut cai_array, options: &cai_import_options) {
    if options.opaque_8bit | options.opaque_16bit == 0
        || array.dtype_code != abi::CAI_DTYPE_NONE
        || !array.descr.is_null()
    {
        return;
    }
    // The options were checked: the codes are of these sizes.
    array.dtype_code = match array.typestr.map(|byte| byte as u8) {
        [_, b'V' | b'f', b'1', 0, ..] => options.opaque_8bit,
        [_, b'V', b'2', 0, ..] => options.opaque_16bit,
        _ => abi::CAI_DTYPE_NONE,
    };
}

/// Returns true if there are no requirements, or for an array of a common kind that meets them as it
/// is. False says nothing: [`check_requirements`] decides, and a test compares the two.
#[inline(always)]
pub fn are_met(array: &cai_array, options: &cai_import_options) -> bool {
    options::ask_nothing(options) || meets(array, options)
}

#[inline]
fn meets(array: &cai_array, options: &cai_import_options) -> bool {
    const FOREIGN: u8 = if dtype::NATIVE == b'<' { b'>' } else { b'<' };
    const C: u32 = abi::CAI_IMPORT_REQUIRE_C_CONTIGUOUS;
    const F: u32 = abi::CAI_IMPORT_REQUIRE_F_CONTIGUOUS;
    let has = |flag: u32| options.flags & flag != 0;
    let [order, kind, ..] = array.typestr.map(|byte| byte as u8);
    matches!(kind, b'b' | b'i' | b'u' | b'f' | b'c' | b'V' | b'm' | b'M')
        && (array.descr.is_null()
            || !has(abi::CAI_IMPORT_REQUIRE_NATIVE | abi::CAI_IMPORT_REFUSE_OBJECTS)
            || has_common_fields(array))
        && (array.mask.is_null()
            || !has(abi::CAI_IMPORT_REQUIRE_STREAM | abi::CAI_IMPORT_QUERY_DEVICE))
        && !has(abi::CAI_IMPORT_IDENTIFY_STREAM)
        && !(has(abi::CAI_IMPORT_QUERY_DEVICE) && array.device.r#type == abi::CAI_DEVICE_UNKNOWN)
        && !(has(abi::CAI_IMPORT_REQUIRE_STREAM) && array.stream == abi::CAI_STREAM_UNKNOWN)
        && !(has(abi::CAI_IMPORT_REQUIRE_WRITABLE) && array.flags & abi::CAI_ARRAY_READONLY != 0)
        && !(has(abi::CAI_IMPORT_REQUIRE_NDIM) && array.ndim != options.ndim)
        && !(has(abi::CAI_IMPORT_REQUIRE_NATIVE) && order == FOREIGN)
        && (options.typestr[0] == 0
            || (array.typestr == options.typestr && array.dtype_code == options.dtype_code))
        && (!has(C | F) || (has(C) && array.strides.is_null()))
}

/// Returns true for fields of the machine's byte order without Python objects and other fields.
fn has_common_fields(array: &cai_array) -> bool {
    // SAFETY: the array was imported or exported, and so validated.
    let fields = unsafe { Unchecked::new(array) }.fields();
    fields.is_ok_and(|fields| fields.is_none_or(dtype::descr::are_commonly_native))
}

/// Returns the requirement that the array of a protocol does not meet, and that of another protocol
/// may: a dictionary without a stream leaves it to `__dlpack__` to order the work, opaque elements
/// have a type in DLPack, and Arrow's arrays are always read-only. A table of this library states
/// all that is known. Not every protocol has masks, so nothing replaces an array with one.
#[inline]
pub fn left_to_others(
    protocol: u8,
    to: &mut Description,
    options: &ImportOptions,
) -> Option<Failure> {
    if options::ask_nothing(&options.raw) { None } else { find_unmet(protocol, to, options) }
}

#[inline(never)]
fn find_unmet(protocol: u8, to: &mut Description, options: &ImportOptions) -> Option<Failure> {
    let (array, raw) = (&mut to.array, &options.raw);
    if protocol == abi::CAI_PROTOCOL_EXCHANGE || !array.mask.is_null() {
        return None;
    }
    name_opaque(array, raw);
    let is_without_code = array.dtype_code == abi::CAI_DTYPE_NONE
        && array.descr.is_null()
        && raw.dtype_code != abi::CAI_DTYPE_NONE;
    let checks = || {
        if options.has(abi::CAI_IMPORT_REQUIRE_STREAM) {
            require_stream(array)?;
        }
        if protocol == abi::CAI_UNSTABLE_PROTOCOL_ARROW {
            require_writable(array, options)?;
        }
        if is_without_code && array.typestr == raw.typestr {
            other_type(array, raw)?;
        }
        Ok(())
    };
    checks().err()
}

/// Checks the requirements, asks the driver as requested, and explains what is not met.
#[cold]
#[inline(never)]
fn check_requirements(to: &mut Description, options: &ImportOptions) -> Result<()> {
    let raw = &options.raw;
    let array = &mut to.array;
    if options.has(abi::CAI_IMPORT_QUERY_DEVICE) && array.device.r#type == abi::CAI_DEVICE_UNKNOWN {
        ask_device(array)?;
        if array.device.r#type == abi::CAI_DEVICE_CPU && !options.host() {
            return fail!(CAI_ERR_HOST_MEMORY, "data";
                found "{:p}, memory that the CUDA driver does not know", array.data;
                expected "device memory");
        }
    }
    if options.has(abi::CAI_IMPORT_QUERY_DEVICE) && !array.mask.is_null() {
        // Without elements, nothing is read through the mask, and the device may be a guess.
        let mut is_read = !array.data.is_null();
        for_each_mask(array, |mask, of| {
            ask_mask(mask, of, std::mem::replace(&mut is_read, !mask.data.is_null()))
        })?;
    }
    if options.has(abi::CAI_IMPORT_IDENTIFY_STREAM)
        && array.version >= 3
        && has_streams(array.device.r#type)
    {
        identity::identify(array)?;
    }
    if options.has(abi::CAI_IMPORT_REQUIRE_STREAM) {
        require_stream(array)?;
        for_each_mask(array, |mask, _| require_stream(mask))?;
    }
    require_writable(array, options)?;
    if options.has(abi::CAI_IMPORT_REQUIRE_NDIM) && array.ndim != raw.ndim {
        return fail!(CAI_ERR_CONVERT_NDIM, "shape";
            found "{}", Count(array.ndim, "dimension"); expected "{}", raw.ndim);
    }
    // SAFETY: the array was imported, and so validated.
    let array = unsafe { Valid::assume(array) };
    if options.has(abi::CAI_IMPORT_REQUIRE_NATIVE) {
        array.byte_order()?;
    }
    if options.has(abi::CAI_IMPORT_REFUSE_OBJECTS) && array.has_objects()? {
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr";
            found "{}, which contains Python objects", text_of(&array);
            expected "numbers or text, because CAI_IMPORT_REFUSE_OBJECTS is set");
    }
    if raw.typestr[0] != 0 {
        let wanted = dtype::from_field(&raw.typestr, raw.dtype_code)?;
        if !dtype::equal(&array.dtype(), &wanted) {
            return other_type(&array, raw);
        }
    }
    let (c, f) = (
        options.has(abi::CAI_IMPORT_REQUIRE_C_CONTIGUOUS),
        options.has(abi::CAI_IMPORT_REQUIRE_F_CONTIGUOUS),
    );
    let layout = array.layout();
    if (c || f) && !(c && layout.is_c_contiguous()) && !(f && layout.is_f_contiguous()) {
        let strides: Text<80> = match layout.strides {
            Some(strides) => Text::new(format_args!("{strides:?}")),
            None => Text::new(format_args!("None, which is C order,")),
        };
        let wanted = match (c, f) {
            (true, false) => "C-contiguous",
            (false, _) => "Fortran-contiguous",
            _ => "C- or Fortran-contiguous",
        };
        return fail!(CAI_ERR_CONVERT_CONTIGUOUS, "strides";
            found "{strides}"; expected "a {wanted} array");
    }
    Ok(())
}

fn require_writable(array: &cai_array, options: &ImportOptions) -> Result<()> {
    if options.has(abi::CAI_IMPORT_REQUIRE_WRITABLE) && array.flags & abi::CAI_ARRAY_READONLY != 0 {
        return fail!(CAI_ERR_READONLY, "data";
            found "a read-only array"; expected "a writable array");
    }
    Ok(())
}

fn other_type(array: &cai_array, options: &cai_import_options) -> Result<()> {
    let (typestr, dtype_code) = (options.typestr, options.dtype_code);
    let wanted = cai_array { typestr, dtype_code, ..*array };
    fail!(CAI_ERR_CONVERT_TYPE, "typestr";
        found "{}", text_of(array); expected "{}", text_of(&wanted))
}

/// Checks that a wait for the array's work is possible, without its masks.
fn require_stream(array: &cai_array) -> Result<()> {
    if array.stream != abi::CAI_STREAM_UNKNOWN || !array.event.is_null() {
        return Ok(());
    }
    fail!(CAI_ERR_CONVERT_STREAM, "stream";
        found "CAI_STREAM_UNKNOWN and no event";
        expected "a stream, because CAI_IMPORT_REQUIRE_STREAM is set: ask the producer for \
            __cuda_array_interface__ of version 3, whose stream may be None")
}

/// The failure for a mask that the caller did not allow, and would ignore: its results would be
/// wrong. The opposite default could not be changed after a release.
#[cold]
pub fn refuse_mask(field: fmt::Arguments) -> Failure {
    failure!(abi::CAI_ERR_CONVERT_MASK, "{field}";
        found "a mask"; expected "none, because CAI_IMPORT_ALLOW_MASK is not set")
}

fn text_of(array: &cai_array) -> Text<40> {
    let text = crate::read::typestr(&array.typestr).unwrap_or_default().escape_ascii();
    if array.dtype_code == 0 {
        Text::new(format_args!("{text}"))
    } else {
        Text::new(format_args!("{text} with dtype_code {}", array.dtype_code))
    }
}

/// Asks the driver for the device, and for the context if the stream has none.
fn ask_device(array: &mut cai_array) -> Result<()> {
    if array.data.is_null() {
        array.device = driver::device_without_memory(array.context);
        return Ok(());
    }
    let (device, context) = driver::locate(array.data)?;
    array.device = device;
    let streamless = array.stream >= abi::CAI_STREAM_UNKNOWN;
    if streamless && array.context.is_null() {
        array.context = context.cast();
    }
    Ok(())
}

/// Calls `check` for each mask of the chain, whose failures get the path, with the device of the
/// array that it is the mask of as far as that is known.
fn for_each_mask(
    array: &cai_array,
    mut check: impl FnMut(&cai_array, &mut cai_device) -> Result<()>,
) -> Result<()> {
    let (mut of, mut next) = (array.device, array.mask);
    for depth in 1.. {
        if next.is_null() {
            break;
        }
        // SAFETY: the array was imported, so its chain of masks was validated, and is finite.
        let mask = unsafe { Given::new(next) }.array()?;
        check(&mask, &mut of).map_err(|failure| failure.in_mask(depth))?;
        next = mask.mask;
    }
    Ok(())
}

/// Checks the device of a mask, as far as the driver knows it, against what is known of the array
/// now, if the array's elements are read. The mask stays as it is: it may be that of a producer.
fn ask_mask(mask: &cai_array, of: &mut cai_device, is_read: bool) -> Result<()> {
    if mask.data.is_null() {
        return Ok(());
    }
    let mut place = mask.device;
    if place.r#type == abi::CAI_DEVICE_UNKNOWN && is_cuda(of.r#type) {
        (place, _) = driver::locate(mask.data)?;
    }
    if is_read {
        validate::mask_device(place, *of)?;
    }
    if place.r#type != abi::CAI_DEVICE_UNKNOWN {
        *of = place;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ffi::{c_char, c_void};
    use std::ptr;

    use proptest::prelude::*;
    use proptest::sample::select;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::abi::{CAI_TYPESTR_SIZE, cai_descr, cai_field};
    use crate::read::NOTHING;

    const UNKNOWN: cai_device = cai_device { r#type: abi::CAI_DEVICE_UNKNOWN, id: 0 };
    const CUDA: cai_device = cai_device { r#type: abi::CAI_DEVICE_CUDA, id: 0 };

    fn text(typestr: &str) -> [c_char; CAI_TYPESTR_SIZE] {
        let mut text = [0; CAI_TYPESTR_SIZE];
        for (to, from) in text.iter_mut().zip(typestr.bytes()) {
            *to = from as c_char;
        }
        text
    }

    const TYPES: &[&str] = &[
        "<f8", ">f8", "|f8", "<i8", ">i8", "<c16", ">c16", "|u1", "<u1", "|b1", "|f1", "|V1",
        "<V2", "|V8", "|V8", "|O8", "<M8[ns]", ">M8[ns]", "<U2",
    ];

    /// Mostly nothing, and sometimes one of these.
    fn rarely<T: Copy + std::fmt::Debug + 'static>(
        nothing: T,
        others: &'static [T],
    ) -> impl Strategy<Value = T> {
        prop_oneof![6 => Just(nothing), 1 => select(others)]
    }

    prop_compose! {
        /// Requirements that many arrays meet.
        fn requirements()(
            flags in prop::collection::vec(select(vec![
                abi::CAI_IMPORT_REQUIRE_WRITABLE, abi::CAI_IMPORT_REQUIRE_C_CONTIGUOUS,
                abi::CAI_IMPORT_REQUIRE_F_CONTIGUOUS, abi::CAI_IMPORT_REQUIRE_NATIVE,
                abi::CAI_IMPORT_REQUIRE_NDIM, abi::CAI_IMPORT_REQUIRE_STREAM,
                abi::CAI_IMPORT_REFUSE_OBJECTS,
            ]), 0..5),
            (asks, identifies) in (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
            ndim in 0..4,
            typestr in rarely("", TYPES),
            dtype_code in rarely(0, &[abi::CAI_DTYPE_BFLOAT16, abi::CAI_DTYPE_FLOAT8_E5M2]),
            opaque_8bit in rarely(0, &[abi::CAI_DTYPE_FLOAT8_E5M2]),
            opaque_16bit in rarely(0, &[abi::CAI_DTYPE_BFLOAT16]),
        ) -> cai_import_options {
            let asks = if asks { abi::CAI_IMPORT_QUERY_DEVICE } else { 0 };
            let identifies = if identifies { abi::CAI_IMPORT_IDENTIFY_STREAM } else { 0 };
            cai_import_options {
                flags: flags.iter().fold(asks | identifies, |all, flag| all | flag),
                ndim,
                typestr: text(typestr),
                dtype_code,
                opaque_8bit,
                opaque_16bit,
                ..ImportOptions::NONE.raw
            }
        }
    }

    /// Fields of eight bytes: one.
    fn with_field<T>(typestr: &str, body: impl FnOnce(&cai_descr) -> T) -> T {
        let row = cai_field {
            name: c"of".as_ptr(),
            title: ptr::null(),
            typestr: text(typestr),
            nested: ptr::null(),
            shape: ptr::null(),
            ndim: 0,
            dtype_code: 0,
            reserved: 0,
        };
        let (struct_size, field_size) = (size_of::<cai_descr>() as u32, size_of::<cai_field>());
        body(&cai_descr {
            struct_size,
            field_size: field_size as u32,
            count: 1,
            fields: &raw const row,
        })
    }

    /// What a check may change, and the driver is asked for.
    fn state(array: &cai_array) -> [u64; 6] {
        let device = array.device;
        let (context, code) = (array.context as u64, array.dtype_code.into());
        [code, device.r#type as u64, device.id as u64, array.stream, array.stream_id, context]
    }

    /// The check accepts what the predicate accepts, and leaves it as it is.
    #[test]
    fn the_check_accepts_what_meets_requirements() {
        const CASES: u32 = 10_000;
        let config =
            ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
        let accepted = Cell::new(0);
        let inputs = (
            requirements(),
            (select(TYPES), any::<bool>()),
            prop::collection::vec(1i64..4, 0..4),
            (0..6u32, -3i64..3),
            (
                prop::bool::weighted(0.2),
                (prop::bool::weighted(0.5), select(vec!["|O8", "<i8", ">i8", "|V8"])),
                prop::bool::weighted(0.1),
            ),
            (
                select(vec![abi::CAI_STREAM_NONE, abi::CAI_STREAM_UNKNOWN, 1, 1 << 45]),
                any::<bool>(),
            ),
        );
        TestRunner::new(config)
            .run(
                &inputs,
                |(raw, (typestr, wanted), shape, (order, steps), rare, (stream, known))| {
                    let (readonly, (fields, of_field), masked) = rare;
                    let Ok(options) = ImportOptions::checked(cai_import_options {
                        typestr: if wanted { text(typestr) } else { raw.typestr },
                        ..raw
                    }) else {
                        return Ok(());
                    };
                    let item = dtype::parse(typestr.as_bytes()).map_or(0, |dtype| dtype.itemsize);
                    let mut strides = vec![item * steps; shape.len()];
                    if order < 4 {
                        let mut step = item;
                        for axis in 0..shape.len() {
                            let axis = if order % 2 == 0 { shape.len() - 1 - axis } else { axis };
                            (strides[axis], step) = (step, step * shape[axis]);
                        }
                    }
                    with_field(of_field, |field| {
                        let mask = cai_array {
                            data: (1u64 << 46) as *mut c_void,
                            shape: shape.as_ptr(),
                            ndim: shape.len() as i32,
                            typestr: text("|b1"),
                            stream: abi::CAI_STREAM_UNKNOWN,
                            ..NOTHING
                        };
                        let dtype_code = match typestr {
                            "<V2" if raw.ndim == 1 => abi::CAI_DTYPE_BFLOAT16,
                            "|u1" if raw.ndim == 1 => abi::CAI_DTYPE_FLOAT8_E5M2,
                            _ => abi::CAI_DTYPE_NONE,
                        };
                        let array = cai_array {
                            flags: if readonly { abi::CAI_ARRAY_READONLY } else { 0 },
                            strides: if order > 1 { strides.as_ptr() } else { ptr::null() },
                            dtype_code,
                            typestr: text(typestr),
                            descr: if fields && item == 8 { field } else { ptr::null() },
                            mask: if masked { &raw const mask } else { ptr::null() },
                            stream,
                            version: 3,
                            device: if known { CUDA } else { UNKNOWN },
                            ..mask
                        };
                        // SAFETY: all that it points to is readable, and it has no owner.
                        if unsafe { validate::array(&array, abi::CAI_CHECK_LAYOUT) }.is_err() {
                            return Ok(());
                        }
                        if are_met(&array, &options.raw) {
                            accepted.set(accepted.get() + 1);
                            let mut to = Description::new();
                            to.array = array;
                            prop_assert!(options.raw.flags & abi::CAI_IMPORT_IDENTIFY_STREAM == 0);
                            let asks = options.has(abi::CAI_IMPORT_QUERY_DEVICE);
                            prop_assert!(!asks || (known && !masked));
                            prop_assert!(check_requirements(&mut to, &options).is_ok());
                            prop_assert_eq!(state(&to.array), state(&array));
                        }
                        Ok(())
                    })
                },
            )
            .unwrap();
        assert!(accepted.get() > CASES / 10, "{} of {CASES} are met", accepted.get());
    }
}
