//! Environment variables, read without allocation. In a program that runs with more rights than its
//! user, such as a set-user-id program, none is set: it could name a library to load.

use std::ffi::CStr;

/// The value of a variable. Longer ones are cut: no path and no list of words is as long.
pub struct Variable {
    bytes: [u8; Variable::SIZE],
}

impl Variable {
    const SIZE: usize = 4096;

    #[cfg(unix)]
    pub fn read(name: &CStr) -> Option<Self> {
        if has_more_rights() {
            return None;
        }
        // SAFETY: the name is terminated. As with every use of the environment in C, no other
        // thread may change it meanwhile.
        let value = unsafe { libc::getenv(name.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: not NULL; the C library's own text, which is terminated.
        Some(Self::copy(unsafe { CStr::from_ptr(value) }.to_bytes()))
    }

    #[cfg(not(unix))]
    pub fn read(name: &CStr) -> Option<Self> {
        let value = std::env::var_os(name.to_str().ok()?)?;
        Some(Self::copy(value.to_string_lossy().as_bytes()))
    }

    /// A value that stands for the variable's.
    pub fn new(value: &CStr) -> Self {
        Self::copy(value.to_bytes())
    }

    fn copy(value: &[u8]) -> Self {
        let mut bytes = [0; Self::SIZE];
        for (to, from) in bytes[..Self::SIZE - 1].iter_mut().zip(value) {
            *to = *from;
        }
        Variable { bytes }
    }

    pub fn as_c_str(&self) -> &CStr {
        // The last byte is always 0.
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// Returns true if the program has more rights than the user who set its environment.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_more_rights() -> bool {
    // The kernel's own answer, which `secure_getenv` uses too; not every C library has that.
    // SAFETY: reads a number that the kernel passed to the program.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns true if the program has more rights than the user who set its environment.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn has_more_rights() -> bool {
    unsafe extern "C" {
        /// The `libc` crate does not declare it for every system that has it.
        safe fn issetugid() -> std::ffi::c_int;
    }
    issetugid() != 0
}
