//! Which runtime library a module carries.

use crate::elf::{Elf, Function, Result};
use std::collections::BTreeSet;

/// Functions that every copy of the runtime library has. A module that defines them all and exports
/// none of them carries one, or functions that load one and call it.
const MARKERS: [&str; 7] = [
    "cudaFree",
    "cudaGetDeviceCount",
    "cudaGetErrorString",
    "cudaGetLastError",
    "cudaMalloc",
    "cudaMemcpy",
    "cudaRuntimeGetVersion",
];
/// A text of NVIDIA's runtime library since version 11: the name of its shared memory.
const TEXT: &[u8] = b"/cudart.shm.";
/// A function of version 11 that version 12 removed.
const REMOVED: &str = "cudaBindTexture";

/// The runtime library of a module.
pub enum Runtime {
    None,
    Needs(String),
    /// Is a library of this name: NVIDIA's, or one of another origin.
    Is {
        name: String,
        nvidias: bool,
    },
    /// Carries one whose functions are in the symbol table.
    Inside {
        functions: Vec<Function>,
    },
    /// Has functions of the same names that load a library and call it.
    Loads,
    /// Carries one and has no symbol table.
    Stripped,
}

/// Returns whether a name may be one of the runtime's functions: not the parts that compilers split
/// off, as in `cudaMalloc.cold`.
pub fn is_cuda_name(name: &[u8]) -> bool {
    let rest = name.strip_prefix(b"__").unwrap_or(name);
    rest.strip_prefix(b"cuda").is_some_and(|rest| {
        rest.first().is_some_and(u8::is_ascii_uppercase)
            && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    })
}

fn has_markers(functions: &[Function]) -> bool {
    let names: BTreeSet<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    MARKERS.iter().all(|marker| names.contains(marker))
}

/// Finds the runtime library of a module. Without `thorough`, no text is searched in
/// a module that has none of the functions, because that takes long.
pub fn runtime(elf: &Elf, thorough: bool) -> Result<Runtime> {
    let exports = elf.exports(is_cuda_name)?;
    if has_markers(&exports) {
        let name = elf.libraries()?.0.unwrap_or_default();
        return Ok(Runtime::Is { name, nvidias: thorough && elf.contains(TEXT) });
    }
    if let Some(functions) = elf.symbols(is_cuda_name)? {
        if has_markers(&functions) {
            let inside = elf.contains(TEXT);
            return Ok(if inside { Runtime::Inside { functions } } else { Runtime::Loads });
        }
    }
    if !thorough {
        return Ok(Runtime::None);
    }
    let needed = elf.libraries()?.1;
    if let Some(name) = needed.into_iter().find(|name| name.starts_with("libcudart.so")) {
        return Ok(Runtime::Needs(name));
    }
    Ok(if elf.contains(TEXT) { Runtime::Stripped } else { Runtime::None })
}

/// Chooses the major version by the names that it alone has, from the versions that there are and
/// the names of each.
pub fn version(
    functions: &[Function],
    versions: &[(u32, &BTreeSet<String>)],
) -> std::result::Result<u32, &'static str> {
    if functions.iter().any(|function| function.name == REMOVED) {
        return Err("its version is older than 12");
    }
    let lacking = |names: &BTreeSet<String>| {
        functions.iter().filter(|function| !names.contains(&function.name)).count()
    };
    let mut counts: Vec<(usize, u32)> =
        versions.iter().map(|(version, names)| (lacking(names), *version)).collect();
    counts.sort_unstable();
    match counts[..] {
        [] => Err("there is no replacement library"),
        [first, second, ..] if first.0 == second.0 => Err("its version is unknown"),
        [(_, version), ..] => Ok(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(names: &[&str]) -> Vec<Function> {
        let function = |name: &&str| Function { name: (*name).to_owned(), address: 0, size: 64 };
        names.iter().map(function).collect()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_of_functions() {
        for name in ["cudaMalloc", "__cudaRegisterFatBinary", "cudaMemcpyAsync_ptsz"] {
            assert!(is_cuda_name(name.as_bytes()), "{name}");
        }
        for name in ["cudaMalloc.cold", "cuMemAlloc", "cuda", "cudart", "_cudaX", "__cuda_init"] {
            assert!(!is_cuda_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn versions_differ_in_names() {
        let twelve = set(&["cudaMalloc", "cudaMemAdvise_v2"]);
        let thirteen = set(&["cudaMalloc", "cudaMemGetMemPool"]);
        let versions = [(12, &twelve), (13, &thirteen)];
        assert_eq!(version(&functions(&["cudaMalloc", "cudaMemAdvise_v2"]), &versions), Ok(12));
        assert_eq!(version(&functions(&["cudaMalloc", "cudaMemGetMemPool"]), &versions), Ok(13));
        // A later release has names that neither knows.
        let later = functions(&["cudaMalloc", "cudaMemGetMemPool", "cudaOfTomorrow"]);
        assert_eq!(version(&later, &versions), Ok(13));
        let both = functions(&["cudaMalloc"]);
        assert_eq!(version(&both, &versions), Err("its version is unknown"));
        let old = functions(&["cudaMalloc", "cudaBindTexture"]);
        assert_eq!(version(&old, &versions), Err("its version is older than 12"));
        assert!(version(&both, &[]).is_err());
    }
}
