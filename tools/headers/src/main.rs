//! Writes the declarations of the library for other languages, which are not tracked, where users look for them:
//! `include/cai/cai.cdef`, `include/cai/cai.pxd` and `python/libcai/_abi.py`.
//!
//! Run it in the root of the repository.

mod bindings;
mod c;
mod items;

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
    write(root, "python/libcai/_abi.py", &bindings::ctypes(&items));
}
