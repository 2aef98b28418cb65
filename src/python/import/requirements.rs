//! Requirements of the caller, checked after an import.

use std::fmt;

use crate::abi::{self, cai_array, cai_device};
use crate::device::{has_streams, is_cuda};
use crate::error::{Failure, Result, Text, fail, failure};
use crate::python::import::options::ImportOptions;
use crate::python::owner::Description;
use crate::read::Given;
use crate::sync::identity;
use crate::validate::{self, Valid};
use crate::{driver, dtype};

/// Checks the caller's requirements, and completes the array as requested.
#[cold]
#[inline(never)]
pub fn check_requirements(to: &mut Description, options: &ImportOptions) -> Result<()> {
    let raw = &options.raw;
    let array = &mut to.array;
    if array.dtype_code == 0
        && matches!(array.typestr[1] as u8, b'V' | b'f')
        && array.descr.is_null()
    {
        // `ImportOptions::new` checked that the codes are of these sizes.
        array.dtype_code = match (array.typestr[1] as u8, array.typestr[2] as u8, array.typestr[3])
        {
            (_, b'1', 0) => raw.opaque_8bit,
            (b'V', b'2', 0) => raw.opaque_16bit,
            _ => 0,
        };
    }
    if options.has(abi::CAI_IMPORT_QUERY_DEVICE) && array.device.r#type == abi::CAI_DEVICE_UNKNOWN {
        ask_device(array)?;
        if array.device.r#type == abi::CAI_DEVICE_CPU && !options.host() {
            return fail!(CAI_ERR_HOST_MEMORY, "data";
                found "{:p}, memory that the CUDA driver does not know", array.data;
                expected "device memory");
        }
    }
    if options.has(abi::CAI_IMPORT_QUERY_DEVICE) && !array.mask.is_null() {
        for_each_mask(array, ask_mask)?;
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
    if options.has(abi::CAI_IMPORT_REQUIRE_WRITABLE) && array.flags & abi::CAI_ARRAY_READONLY != 0 {
        return fail!(CAI_ERR_READONLY, "data";
            found "a read-only array"; expected "a writable array");
    }
    if options.has(abi::CAI_IMPORT_REQUIRE_NDIM) && array.ndim != raw.ndim {
        return fail!(CAI_ERR_CONVERT_NDIM, "shape";
            found "{} dimensions", array.ndim; expected "{}", raw.ndim);
    }
    // SAFETY: the array was imported, and so validated.
    let array = unsafe { Valid::assume(array) };
    if options.has(abi::CAI_IMPORT_REQUIRE_NATIVE) {
        array.byte_order()?;
    }
    let has_objects = || match array.fields() {
        Some(fields) => dtype::descr::has_objects(fields),
        None => Ok(array.dtype().kind as u8 == b'O'),
    };
    if options.has(abi::CAI_IMPORT_REFUSE_OBJECTS) && has_objects()? {
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr";
            found "{}, which contains Python objects", text_of(&array);
            expected "numbers or text, because CAI_IMPORT_REFUSE_OBJECTS is set");
    }
    if raw.typestr[0] != 0 {
        let wanted = dtype::from_field(&raw.typestr, raw.dtype_code)?;
        if !dtype::equal(&array.dtype(), &wanted) {
            let demanded = cai_array { typestr: raw.typestr, dtype_code: raw.dtype_code, ..*array };
            return fail!(CAI_ERR_CONVERT_TYPE, "typestr";
                found "{}", text_of(&array); expected "{}", text_of(&demanded));
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

/// The failure for a mask that the caller did not allow, and would ignore.
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
/// now. The mask stays as it is: it may be that of a producer.
fn ask_mask(mask: &cai_array, of: &mut cai_device) -> Result<()> {
    if mask.data.is_null() {
        return Ok(());
    }
    let mut place = mask.device;
    if place.r#type == abi::CAI_DEVICE_UNKNOWN && is_cuda(of.r#type) {
        (place, _) = driver::locate(mask.data)?;
    }
    validate::mask_device(place, *of)?;
    if place.r#type != abi::CAI_DEVICE_UNKNOWN {
        *of = place;
    }
    Ok(())
}
