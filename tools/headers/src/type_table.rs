//! `cai/type_table.h`: what the other headers need of the tables of element types and devices.

use std::fmt::Write;
use std::path::Path;

use crate::headers;
use crate::tables::{self, Device, Dtype, Kind};

const PROSE: &str = "
cai/type_table.h: the element types that other libraries have, and sets of device types, for the other headers. C99 and
C++. It declares nothing public.

CAI_PRIVATE_..._TYPES(X) is X(kind, bytes, dtype_code, type of the other library) for each type.
";

pub fn text(root: &Path) -> String {
    let folder = root.join("src/abi");
    let (types, devices) = (tables::dtypes(&folder).1, tables::devices(&folder));
    let mut text = headers::comment(PROSE);
    text += "#ifndef CAI_TYPE_TABLE_H\n#define CAI_TYPE_TABLE_H\n";
    let mut list = |comment: &str, name: &str, cell: &dyn Fn(&Dtype) -> Option<String>| {
        write!(text, "\n/* {comment} */\n#define CAI_PRIVATE_{name}_TYPES(X)").unwrap();
        for one in &types {
            if let Some(cell) = cell(one) {
                let Dtype { kind, size, code, .. } = one;
                write!(text, " \\\n    X('{kind}', {size}, {code}, {cell})").unwrap();
            }
        }
        text += "\n";
    };
    let prefixed = |prefix: &str, cell: &str| (!cell.is_empty()).then(|| format!("{prefix}{cell}"));
    list("The types with a code, and their names.", "CODED", &|one| {
        (one.code != 0).then(|| format!("{:?}", one.name))
    });
    list(
        "DLPack's types of whole bytes and one lane: the code times 256, and the bits.",
        "DLPACK",
        &|one| {
            let (code, bits, lanes) = one.dlpack?;
            (bits % 8 == 0 && lanes == 1)
                .then(|| format!("{:#06x}", u16::from(code) << 8 | u16::from(bits)))
        },
    );
    list("MPI's.", "MPI", &|one| prefixed("MPI_", &one.mpi));
    list("NCCL's, as cai/nccl.h has them.", "NCCL", &|one| prefixed("CAI_NCCL_", &one.nccl));
    list("PyTorch's, as its stable C interface returns them.", "TORCH", &|one| {
        prefixed("", &one.torch).map(|prefix| format!("{prefix}_dtype_{}()", one.name))
    });
    list(
        "XLA's, without those below 8 bits: whether it packs them depends on the platform.",
        "XLA",
        &|one| prefixed("XLA_FFI_DataType_", &one.xla),
    );
    list("CUDA's types of C++ that the language does not have.", "CUDA", &|one| {
        prefixed("", &one.cuda)
    });

    text += "\n/* Sets of device types: bit 2 is set if CAI_DEVICE_CUDA is one. */\n";
    let mut set = |name: &str, is_in: &dyn Fn(&Device) -> bool| {
        let set =
            devices.iter().filter(|one| is_in(one)).fold(0u32, |set, one| set | 1 << one.number);
        writeln!(text, "#define CAI_PRIVATE_{name} {set:#x}u").unwrap();
    };
    set("HANDLES", &|one| one.data == "handle");
    set("HOST_READABLE", &|one| one.is_host);
    text += "#define CAI_PRIVATE_IS_IN(set, device_type) \\\n    \
             ((device_type) >= 0 && (device_type) < 32 && ((set) >> (device_type) & 1u) != 0)\n";
    text + "\n#endif /* CAI_TYPE_TABLE_H */\n"
}

/// The kinds of typestrs as lines of a comment.
pub fn kinds(root: &Path) -> String {
    let (kinds, _) = tables::dtypes(&root.join("src/abi"));
    let line = |kind: &Kind| {
        let sizes = kind.sizes.replace(',', ", ");
        let meaning = kind.meaning.replace('`', "");
        format!(" *   {}  {sizes:<20} {meaning}", kind.letter)
    };
    kinds.iter().map(line).collect::<Vec<_>>().join("\n")
}
