//! Import options of a caller.

use crate::abi::{self, cai_import_options};
use crate::argument::{Given, In};
use crate::dtype;
use crate::error::{Result, fail};

/// All protocols in the default order. The last three are for host memory.
const DEFAULT_ORDER: &[u8] = &[
    abi::CAI_PROTOCOL_EXCHANGE,
    abi::CAI_PROTOCOL_DLPACK_EXCHANGE,
    abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE,
    abi::CAI_PROTOCOL_DLPACK,
    abi::CAI_PROTOCOL_SYCL_USM,
    abi::CAI_PROTOCOL_OPENCL_BUFFER,
    abi::CAI_PROTOCOL_ARRAY_STRUCT,
    abi::CAI_PROTOCOL_ARRAY_INTERFACE,
    abi::CAI_PROTOCOL_PEP3118,
];

const HOST_PROTOCOLS: usize = 3;

/// Returns true for no options, and for those of `CAI_IMPORT_OPTIONS_INIT`.
#[inline]
pub fn are_default(options: In<cai_import_options>) -> bool {
    options.optional().is_none_or(|options| {
        options.of_this_size().is_some_and(|options| *options == ImportOptions::NONE.raw)
    })
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
        let parsed = ImportOptions { raw: options.options()? };
        let options = &parsed.raw;
        const FLAGS: u32 =
            (2 * abi::CAI_IMPORT_ALLOW_PACKED_MASK - 1) | abi::CAI_UNSTABLE_IMPORT_LANES;
        if options.flags & !FLAGS != 0 {
            return fail!(CAI_ERR_NEWER_CALLER, "options->flags";
                found "{:#x}, which has no name in this version", options.flags & !FLAGS;
                expected "flags that this version of cai/python.h names CAI_IMPORT_");
        }
        macro_rules! contradictions {
            ($($one:ident $other:ident),*) => {
                [$((abi::$one | abi::$other, stringify!($one and $other))),*]
            };
        }
        let contradictions = contradictions![
            CAI_IMPORT_STRICT CAI_IMPORT_ALLOW_STREAM_ZERO,
            CAI_IMPORT_STRICT CAI_IMPORT_ALLOW_PACKED_MASK,
            CAI_IMPORT_OPENCL_BUFFER_CL_MEM CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS
        ];
        for (both, found) in contradictions {
            if options.flags & both == both {
                return fail!(CAI_ERR_ARGUMENT, "options->flags";
                    found "{found}"; expected "at most one of them");
            }
        }
        const LAST: u8 = DEFAULT_ORDER.len() as u8;
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
        Ok(parsed)
    }

    /// The options for a mask in a dictionary of `protocol`: the same strictness, without
    /// requirements. The specifications allow masks of the dictionary's own protocol only.
    pub fn of_mask(&self, protocol: u8) -> ImportOptions {
        const KEPT: u32 = abi::CAI_IMPORT_STRICT
            | abi::CAI_IMPORT_ALLOW_STREAM_ZERO
            | abi::CAI_IMPORT_ALLOW_PACKED_MASK
            | abi::CAI_UNSTABLE_IMPORT_LANES
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

    /// Returns true if nothing has to be checked after an import of an array without a mask.
    pub fn are_none(&self) -> bool {
        const LOOKS: u32 = abi::CAI_IMPORT_REQUIRE_WRITABLE
            | abi::CAI_IMPORT_REQUIRE_C_CONTIGUOUS
            | abi::CAI_IMPORT_REQUIRE_F_CONTIGUOUS
            | abi::CAI_IMPORT_REQUIRE_NATIVE
            | abi::CAI_IMPORT_REQUIRE_NDIM
            | abi::CAI_IMPORT_REQUIRE_STREAM
            | abi::CAI_IMPORT_QUERY_DEVICE
            | abi::CAI_IMPORT_REFUSE_OBJECTS
            | abi::CAI_IMPORT_IDENTIFY_STREAM;
        let options = &self.raw;
        options.flags & LOOKS == 0
            && options.typestr[0] == 0
            && options.dtype_code | options.opaque_8bit | options.opaque_16bit == 0
    }

    pub fn protocols(&self) -> &[u8] {
        let list = &self.raw.protocols;
        if list[0] == 0 {
            return if self.host() {
                DEFAULT_ORDER
            } else {
                &DEFAULT_ORDER[..DEFAULT_ORDER.len() - HOST_PROTOCOLS]
            };
        }
        let end = list.iter().position(|&via| via == 0).unwrap_or(list.len());
        &list[..end]
    }
}
