//! Writes the declarations of the library for other languages, which are not tracked, where users look for them:
//! `include/cai/cai.cdef`, `include/cai/cai.pxd`, `include/cai/unstable.pxd` and `python/libcai/_abi.py`.
//!
//! With the feature `headers`, also what is tracked: the C headers, the number of the C++ headers, `abi/layout.txt` and `abi/symbols.txt`. The
//! argument `release` makes the present interface that of a release. Run it in the root of the repository.

mod bindings;
mod c;
#[cfg(feature = "headers")]
mod headers;
mod items;
#[cfg(feature = "headers")]
mod layout;
#[cfg(feature = "headers")]
mod number;
#[cfg(feature = "headers")]
mod symbols;
#[path = "../../../src/abi/tables.rs"]
#[allow(dead_code)] // the rest is for the library
mod tables;
#[cfg(feature = "headers")]
mod type_table;

use std::fs;
use std::path::Path;

use items::Items;

/// Writes a file where it is not the same already. Other processes never see a part of it.
fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    if fs::read_to_string(&file).is_ok_and(|present| present == text) {
        return;
    }
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let part = root.join(format!("{path}.{}", std::process::id()));
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, &file))
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

fn main() {
    let root = Path::new(".");
    let items = Items::of_crate(root);
    write(root, "include/cai/cai.cdef", &bindings::cdef(&items));
    write(root, "include/cai/cai.pxd", &bindings::pxd(&items));
    write(root, "include/cai/unstable.pxd", &bindings::unstable_pxd(&items));
    write(root, "python/libcai/_abi.py", &bindings::ctypes(&items, &root.join("src/abi")));
    #[cfg(feature = "headers")]
    if let Err(vanished) =
        tracked(root, &items, std::env::args().nth(1).as_deref() == Some("release"))
    {
        eprintln!(
            "Programs that are compiled already need these lines of abi/layout.txt or abi/symbols.txt; docs/src/versions.md says what \
             may change:\n{}",
            vanished.join("\n")
        );
        std::process::exit(1);
    }
}

/// Writes the headers and the layout, or returns the lines of the last release that would vanish from it.
#[cfg(feature = "headers")]
fn tracked(root: &Path, items: &Items, is_release: bool) -> Result<(), Vec<String>> {
    let symbols = symbols(root, items)?;
    let headers = headers::all(root, items, &symbols);
    for (name, text) in &headers {
        write(root, &format!("include/cai/{name}.h"), text);
    }
    for (path, text) in number::all(root, &headers) {
        write(root, &path, &text);
    }
    let text = layout::text(root, items)?;
    write(root, "abi/symbols.txt", &symbols::text(&symbols));
    write(root, "abi/layout.txt", &if is_release { layout::dump(root, items) } else { text });
    Ok(())
}

/// The lives of the exported functions, or the names of core functions that are gone or have another header.
#[cfg(feature = "headers")]
fn symbols(root: &Path, items: &Items) -> Result<Vec<symbols::Symbol>, Vec<String>> {
    let file = fs::read_to_string(root.join("abi/symbols.txt")).unwrap();
    symbols::current(&file, items, headers::of_function)
}

/// A new folder for temporary files, which the caller removes.
#[cfg(feature = "headers")]
fn scratch() -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("cai-headers-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[cfg(all(test, feature = "headers"))]
mod tests;
