//! A temporary folder that no other user can enter.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A folder for files of one run. Removed with its contents when it is dropped.
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Creates a folder of a new name, with access for its owner alone, below the folder for
    /// temporary files: nothing in it can be a link that someone else prepared.
    pub fn new() -> Result<Self, String> {
        let template = std::env::temp_dir().join("cuda-sim-XXXXXX");
        let fail = |error| format!("{}: {error}", template.display());
        let name = CString::new(template.as_os_str().as_bytes())
            .map_err(|_| fail(std::io::ErrorKind::InvalidInput.into()))?;
        let name = name.into_raw();
        // SAFETY: `name` is NUL-terminated text that ends with XXXXXX, which mkdtemp overwrites in
        // place without changing the length. `from_raw` takes back what `into_raw` gave.
        let (made, name) = unsafe {
            let made = !libc::mkdtemp(name).is_null();
            (made, CString::from_raw(name))
        };
        if !made {
            return Err(fail(std::io::Error::last_os_error()));
        }
        Ok(PrivateFolder(PathBuf::from(OsString::from_vec(name.into_bytes()))))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
