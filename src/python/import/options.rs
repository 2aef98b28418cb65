//! Import options of a caller.

use crate::abi::{self, cai_import_options};
use crate::argument::{Given, In};
use crate::dtype;
use crate::error::{Result, fail};

/// A default order: the same protocols first. DLPack's table comes before the dictionary: PyTorch's
/// table has the current stream, its dictionary has none.
macro_rules! order {
    ($($last:ident)*) => {
        &[
            abi::CAI_PROTOCOL_EXCHANGE,
            abi::CAI_PROTOCOL_DLPACK_EXCHANGE,
            abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE,
            abi::CAI_PROTOCOL_DLPACK,
            abi::CAI_PROTOCOL_SYCL_USM,
            abi::CAI_PROTOCOL_OPENCL_BUFFER,
            $(abi::$last),*
        ]
    };
}

const DEVICE_ORDER: &[u8] = order!(CAI_UNSTABLE_PROTOCOL_ARROW);

/// All protocols. Pillow's images are lists of pixels in Arrow, and have their shape in NumPy's
/// interface, which therefore comes before it.
const HOST_ORDER: &[u8] = order!(
    CAI_PROTOCOL_ARRAY_STRUCT
    CAI_PROTOCOL_ARRAY_INTERFACE
    CAI_UNSTABLE_PROTOCOL_ARROW
    CAI_PROTOCOL_PEP3118
);

const LAST: u8 = HOST_ORDER.len() as u8;

macro_rules! contradictions {
    ($($one:ident $other:ident),*) => {
        [$((abi::$one | abi::$other, stringify!($one and $other))),*]
    };
}
/// Pairs of flags of which only one can be meant.
const CONTRADICTIONS: [(u32, &str); 4] = contradictions![
    CAI_IMPORT_STRICT CAI_IMPORT_ALLOW_STREAM_ZERO,
    CAI_IMPORT_STRICT CAI_IMPORT_ALLOW_PACKED_MASK,
    CAI_IMPORT_STRICT CAI_UNSTABLE_IMPORT_VERSION_4,
    CAI_IMPORT_OPENCL_BUFFER_CL_MEM CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS
];

const FLAGS: u32 = (2 * abi::CAI_IMPORT_ALLOW_PACKED_MASK - 1)
    | abi::CAI_UNSTABLE_IMPORT_LANES
    | abi::CAI_UNSTABLE_IMPORT_VERSION_4;

/// Returns true if nothing has to be checked after an import.
#[inline]
pub fn ask_nothing(options: &cai_import_options) -> bool {
    const LOOKS: u32 = abi::CAI_IMPORT_REQUIRE_WRITABLE
        | abi::CAI_IMPORT_REQUIRE_C_CONTIGUOUS
        | abi::CAI_IMPORT_REQUIRE_F_CONTIGUOUS
        | abi::CAI_IMPORT_REQUIRE_NATIVE
        | abi::CAI_IMPORT_REQUIRE_NDIM
        | abi::CAI_IMPORT_REQUIRE_STREAM
        | abi::CAI_IMPORT_QUERY_DEVICE
        | abi::CAI_IMPORT_REFUSE_OBJECTS
        | abi::CAI_IMPORT_IDENTIFY_STREAM;
    options.flags & LOOKS == 0 && options.typestr[0] == 0
}

/// Returns options that are certainly right, try the protocols in the default order and change no
/// array, in place.
#[inline]
pub fn common(options: In<'_, cai_import_options>) -> Option<&cai_import_options> {
    match options.optional() {
        None => Some(&ImportOptions::NONE.raw),
        Some(options) => options
            .of_this_size()
            .filter(|options| options.protocols[0] == 0 && options.opaque_16bit == 0)
            .filter(|options| are_common(options)),
    }
}

/// Returns true for those of nearly all callers: with a known type, if any, and no codes but that of
/// bfloat16. False says nothing: [`ImportOptions::checked`] decides, and a test compares the two.
#[inline]
fn are_common(options: &cai_import_options) -> bool {
    let is_bfloat16 = |code: u16| code == abi::CAI_DTYPE_BFLOAT16;
    let [_, kind, size, ..] = options.typestr.map(|byte| byte as u8);
    options.flags & !FLAGS == 0
        && CONTRADICTIONS.iter().all(|&(both, _)| options.flags & both != both)
        // All of them, without a branch for each.
        && options.protocols.iter().fold(0, |last, &via| last.max(via)) <= LAST
        && options.reserved == [0; 3]
        && options.dlpack_stream != 0
        && options.opaque_8bit == 0
        && (options.opaque_16bit == 0 || is_bfloat16(options.opaque_16bit))
        && (options.dtype_code == 0
            || (is_bfloat16(options.dtype_code) && (kind, size) == (b'V', b'2')))
        && (options.typestr[0] == 0 || dtype::common_itemsize(&options.typestr).is_some())
}

pub struct ImportOptions {
    pub raw: cai_import_options,
}

impl ImportOptions {
    pub const NONE: ImportOptions = ImportOptions {
        raw: cai_import_options {
            struct_size: size_of::<cai_import_options>() as u32,
            flags: 0,
            protocols: [0; 16],
            dlpack_stream: abi::CAI_STREAM_UNKNOWN,
            ndim: 0,
            dtype_code: 0,
            opaque_8bit: 0,
            opaque_16bit: 0,
            reserved: [0; 3],
            typestr: [0; abi::CAI_TYPESTR_SIZE],
        },
    };

    pub fn new(options: Given<cai_import_options>) -> Result<Self> {
        match options.of_this_size().filter(|options| are_common(options)) {
            Some(&raw) => Ok(ImportOptions { raw }),
            None => Self::checked(options.options()?),
        }
    }

    /// Checks everything, and explains what is wrong.
    #[cold]
    #[inline(never)]
    pub(super) fn checked(raw: cai_import_options) -> Result<Self> {
        let options = &raw;
        if options.flags & !FLAGS != 0 {
            return fail!(CAI_ERR_NEWER_CALLER, "options->flags";
                found "{:#x}, which has no name in this version", options.flags & !FLAGS;
                expected "flags that this version of cai/python.h names CAI_IMPORT_");
        }
        for (both, found) in CONTRADICTIONS {
            if options.flags & both == both {
                return fail!(CAI_ERR_ARGUMENT, "options->flags";
                    found "{found}"; expected "at most one of them");
            }
        }
        if let Some(index) = options.protocols.iter().position(|&via| via > LAST) {
            return fail!(CAI_ERR_NEWER_CALLER, "options->protocols[{index}]";
                found "{}", options.protocols[index];
                expected "0 or a CAI_PROTOCOL_ number, 1 to {LAST}");
        }
        if options.reserved != [0; 3] {
            return fail!(CAI_ERR_NEWER_CALLER, "options->reserved";
                found "a non-zero value"; expected "0");
        }
        if options.dlpack_stream == 0 {
            return fail!(CAI_ERR_STREAM_ZERO, "options->dlpack_stream";
                found "0";
                expected "CAI_STREAM_UNKNOWN, as CAI_IMPORT_OPTIONS_INIT leaves it, or a stream");
        }
        if options.typestr[0] != 0 {
            dtype::from_field(&options.typestr, options.dtype_code)
                .map_err(|failure| failure.within(format_args!("options->")))?;
        }
        if options.opaque_8bit | options.opaque_16bit != 0 {
            let opaque: [(&[u8], u16, &str); 2] = [
                (b"|V1", options.opaque_8bit, "opaque_8bit"),
                (b"|V2", options.opaque_16bit, "opaque_16bit"),
            ];
            for (typestr, code, member) in opaque {
                dtype::parse(typestr)
                    .and_then(|dtype| dtype::with_code(dtype, code))
                    .map_err(|failure| failure.at(format_args!("options->{member}")))?;
            }
        }
        Ok(ImportOptions { raw })
    }

    /// The options for a mask in a dictionary of `protocol`: the same strictness, without
    /// requirements. The specifications allow masks of the dictionary's own protocol only.
    pub fn of_mask(&self, protocol: u8) -> ImportOptions {
        const KEPT: u32 = abi::CAI_IMPORT_STRICT
            | abi::CAI_IMPORT_ALLOW_STREAM_ZERO
            | abi::CAI_IMPORT_ALLOW_PACKED_MASK
            | abi::CAI_UNSTABLE_IMPORT_LANES
            | abi::CAI_UNSTABLE_IMPORT_VERSION_4
            | abi::CAI_IMPORT_ALLOW_MASK
            | abi::CAI_IMPORT_ALLOW_HOST
            | abi::CAI_IMPORT_ALLOW_GRAD
            | abi::CAI_IMPORT_OPENCL_BUFFER_CL_MEM
            | abi::CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS;
        let mut raw =
            cai_import_options { flags: self.raw.flags & KEPT, ..ImportOptions::NONE.raw };
        if self.strict() {
            raw.protocols[0] = protocol;
        }
        ImportOptions { raw }
    }

    pub fn has(&self, flag: u32) -> bool {
        self.raw.flags & flag != 0
    }

    /// Accepts only what the specification allows.
    pub fn strict(&self) -> bool {
        self.has(abi::CAI_IMPORT_STRICT)
    }

    pub fn host(&self) -> bool {
        self.has(abi::CAI_IMPORT_ALLOW_HOST)
    }

    pub fn protocols(&self) -> &[u8] {
        let list = &self.raw.protocols;
        if list[0] == 0 {
            return if self.host() { HOST_ORDER } else { DEVICE_ORDER };
        }
        let end = list.iter().position(|&via| via == 0).unwrap_or(list.len());
        &list[..end]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2_000, failure_persistence: None, ..ProptestConfig::default()
        })]

        /// The explaining check accepts whatever the predicate accepts, for members that are mostly
        /// right.
        #[test]
        fn common_options_are_right(
            (flags, more) in (0..2 * FLAGS, any::<u8>()),
            protocols in prop::collection::vec(
                prop_oneof![9 => Just(0), 9 => 0..=LAST, 1 => any::<u8>()], 16),
            dlpack_stream in prop_oneof![1 => Just(0), 9 => any::<u64>()],
            codes in prop::array::uniform3(
                prop_oneof![6 => Just(0), 2 => Just(abi::CAI_DTYPE_BFLOAT16), 1 => 0..0x40u16]),
            reserved in prop::array::uniform3(prop_oneof![19 => Just(0), 1 => any::<u16>()]),
            typestr in prop_oneof!["[<>|]V2", "[<>|][fiucbVMmO](1|2|4|8|16|3|0)(\\[(s|ns)\\])?", "[ -~]{0,16}",
                select(vec!["", "<f4"]).prop_map(String::from)],
        ) {
            let mut raw = ImportOptions::NONE.raw;
            // Half of the flags are those of a caller: few.
            raw.flags = if more < 128 { flags & u32::from(more) << (flags % 17) } else { flags };
            raw.protocols.copy_from_slice(&protocols);
            raw.dlpack_stream = dlpack_stream;
            [raw.dtype_code, raw.opaque_8bit, raw.opaque_16bit] = codes;
            raw.reserved = reserved;
            for (to, from) in raw.typestr.iter_mut().zip(typestr.bytes()) {
                *to = from as std::ffi::c_char;
            }
            if are_common(&raw) {
                let checked = ImportOptions::checked(raw);
                prop_assert!(checked.is_ok_and(|checked| checked.raw == raw));
            }
        }
    }

    #[test]
    fn usual_options_are_common() {
        let mut raw = ImportOptions::NONE.raw;
        assert!(are_common(&raw));
        raw.flags = abi::CAI_IMPORT_REQUIRE_WRITABLE | abi::CAI_IMPORT_REQUIRE_NATIVE;
        raw.protocols[0] = abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE;
        (raw.typestr[0], raw.typestr[1], raw.typestr[2]) = (b'<' as _, b'f' as _, b'4' as _);
        assert!(are_common(&raw));
    }
}
