//! Import options of a caller.

use std::mem::offset_of;
use std::ptr;

use crate::abi::{self, cai_import_options};
use crate::dtype;
use crate::error::{Result, fail};

/// The default order. The last two are for host memory.
const DEFAULT_ORDER: [u8; 8] = [
    abi::CAI_PROTOCOL_EXCHANGE,
    abi::CAI_PROTOCOL_DLPACK_EXCHANGE,
    abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE,
    abi::CAI_PROTOCOL_DLPACK,
    abi::CAI_PROTOCOL_SYCL_USM,
    abi::CAI_PROTOCOL_BUFFER,
    abi::CAI_PROTOCOL_ARRAY_STRUCT,
    abi::CAI_PROTOCOL_ARRAY_INTERFACE,
];

const HOST_PROTOCOLS: usize = 2;

/// The options of a caller, checked.
pub struct ImportOptions {
    pub raw: cai_import_options,
}

impl ImportOptions {
    /// Nothing in particular.
    pub const NONE: ImportOptions = ImportOptions {
        raw: cai_import_options {
            struct_size: size_of::<cai_import_options>() as u32,
            flags: 0,
            protocols: [0; 8],
            stream: 0,
            ndim: 0,
            dtype_code: 0,
            opaque_8bit: 0,
            opaque_16bit: 0,
            reserved: [0; 3],
            typestr: [0; abi::CAI_TYPESTR_SIZE],
        },
    };

    /// A caller's options.
    ///
    /// # Safety
    /// `options` points to a structure of the size that it says.
    pub unsafe fn new(options: *const cai_import_options) -> Result<Self> {
        const LEAST: usize = offset_of!(cai_import_options, stream);
        // SAFETY: the first field is there by contract; no reference to the whole is made.
        let size = unsafe { (&raw const (*options).struct_size).read() } as usize;
        if !(LEAST..=4096).contains(&size) || size % 8 != 0 {
            return fail!(
                CAI_ERR_STRUCT_SIZE,
                "options->struct_size",
                found = "{size}",
                expected = (
                    "sizeof(cai_import_options), which is {} here",
                    size_of::<cai_import_options>()
                )
            );
        }
        let mut parsed = Self::NONE;
        let known = size.min(size_of::<cai_import_options>());
        // SAFETY: as many bytes are there on both sides.
        unsafe {
            ptr::copy_nonoverlapping(
                options.cast::<u8>(),
                (&raw mut parsed.raw).cast::<u8>(),
                known,
            );
        }
        let options = &parsed.raw;
        const FLAGS: u32 = 2 * abi::CAI_IMPORT_NO_EXCEPTION - 1;
        if options.flags & !FLAGS != 0 {
            return fail!(
                CAI_ERR_ARGUMENT,
                "options->flags",
                found = ("{:#x}", options.flags),
                expected = "bits of {FLAGS:#x} only"
            );
        }
        if parsed.strict() && parsed.lenient() {
            return fail!(
                CAI_ERR_ARGUMENT,
                "options->flags",
                found = "CAI_IMPORT_STRICT and CAI_IMPORT_ALLOW_STREAM_ZERO",
                expected = "one of them"
            );
        }
        if let Some(index) =
            options.protocols.iter().position(|&via| via > abi::CAI_PROTOCOL_ARRAY_INTERFACE)
        {
            return fail!(
                CAI_ERR_ARGUMENT,
                "options->protocols[{index}]",
                found = ("{}", options.protocols[index]),
                expected =
                    ("0 or a CAI_PROTOCOL_ number, 1 to {}", abi::CAI_PROTOCOL_ARRAY_INTERFACE)
            );
        }
        if options.reserved != [0; 3] {
            return fail!(CAI_ERR_ARGUMENT, "options->reserved", found = "a value", expected = "0");
        }
        if options.typestr[0] != 0 {
            dtype::from_field(&options.typestr, options.dtype_code)
                .map_err(|failure| failure.within("options->"))?;
        }
        Ok(parsed)
    }

    /// The options for a mask: the same strictness, without requirements.
    pub fn of_mask(&self) -> ImportOptions {
        const KEPT: u32 =
            abi::CAI_IMPORT_STRICT | abi::CAI_IMPORT_ALLOW_STREAM_ZERO | abi::CAI_IMPORT_ALLOW_HOST;
        ImportOptions {
            raw: cai_import_options { flags: self.raw.flags & KEPT, ..ImportOptions::NONE.raw },
        }
    }

    pub fn has(&self, flag: u32) -> bool {
        self.raw.flags & flag != 0
    }

    /// Only what the specification says.
    pub fn strict(&self) -> bool {
        self.has(abi::CAI_IMPORT_STRICT)
    }

    /// Also what it forbids.
    pub fn lenient(&self) -> bool {
        self.has(abi::CAI_IMPORT_ALLOW_STREAM_ZERO)
    }

    /// No exceptions of this library's.
    pub fn quiet(&self) -> bool {
        self.has(abi::CAI_IMPORT_NO_EXCEPTION)
    }

    /// Arrays in host memory are welcome.
    pub fn host(&self) -> bool {
        self.has(abi::CAI_IMPORT_ALLOW_HOST)
    }

    /// Is there nothing to look at after an import?
    pub fn are_none(&self) -> bool {
        const LOOKS: u32 = abi::CAI_IMPORT_REQUIRE_WRITABLE
            | abi::CAI_IMPORT_REQUIRE_C_CONTIGUOUS
            | abi::CAI_IMPORT_REQUIRE_F_CONTIGUOUS
            | abi::CAI_IMPORT_REQUIRE_NATIVE
            | abi::CAI_IMPORT_REQUIRE_NDIM
            | abi::CAI_IMPORT_NO_MASK
            | abi::CAI_IMPORT_QUERY_DEVICE;
        let options = &self.raw;
        options.flags & LOOKS == 0
            && options.typestr[0] == 0
            && options.dtype_code | options.opaque_8bit | options.opaque_16bit == 0
    }

    pub fn protocols(&self) -> &[u8] {
        let list = &self.raw.protocols;
        if list[0] == 0 {
            return if self.host() {
                &DEFAULT_ORDER
            } else {
                &DEFAULT_ORDER[..DEFAULT_ORDER.len() - HOST_PROTOCOLS]
            };
        }
        let end = list.iter().position(|&via| via == 0).unwrap_or(list.len());
        &list[..end]
    }
}
