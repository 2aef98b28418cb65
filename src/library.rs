//! Shared libraries of the process: opened, and their symbols found. On Unix without allocation by
//! this library, so that a lack of memory is the loader's failure and not an abort.

use std::ffi::{CStr, c_void};

use crate::error::Text;

/// A library, which is never closed: what comes from it is used for the rest of the process.
pub struct Library(system::Handle);

/// A function of any type.
pub type Address = unsafe extern "system-unwind" fn();

pub struct OpenError {
    pub message: Text<96>,
    pub is_no_memory: bool,
}

impl Library {
    /// The library, if the process has loaded it already.
    pub fn loaded(file: &CStr) -> Option<Self> {
        system::loaded(file).map(Library)
    }

    /// Returns true if a library is certainly not loaded: without memory, the loader finds none.
    pub fn is_absent(file: &CStr) -> bool {
        system::is_absent(file)
    }

    /// Symbols that the whole process can see: the program and the libraries that it was linked with.
    pub fn program() -> Self {
        Library(system::program())
    }

    /// Finds a function.
    pub fn function(&self, name: &CStr) -> Option<Address> {
        // SAFETY: a pointer to a function, which is not called.
        unsafe { self.get(name) }
    }

    /// # Safety
    /// `T` is the type of a pointer to what has this name.
    pub unsafe fn get<T: Copy>(&self, name: &CStr) -> Option<T> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        let address = system::find(&self.0, name);
        if address.is_null() {
            return None;
        }
        // SAFETY: not NULL, and of the same size; the caller vouches for the type.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// Returns how often the process has loaded a library, if the system counts it.
#[cfg(target_os = "linux")]
pub fn changes() -> Option<u64> {
    /// Reads the count from the first entry, and ends the iteration.
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        out: *mut c_void,
    ) -> std::ffi::c_int {
        // SAFETY: the loader passes a readable entry, and the address of the local below.
        unsafe { out.cast::<u64>().write((*info).dlpi_adds) };
        1
    }
    let mut count = 0;
    // SAFETY: the function has the required type, and writes one number, to the local.
    let visited = unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    (visited == 1).then_some(count)
}

/// Returns how often the process has loaded a library, if the system counts it.
#[cfg(not(target_os = "linux"))]
pub fn changes() -> Option<u64> {
    None
}

#[cfg(unix)]
mod system {
    use std::ffi::{CStr, c_void};

    use crate::error::Text;
    use crate::library::{Library, OpenError};

    pub type Handle = *mut c_void;

    impl Library {
        /// Opens a library by name or path.
        ///
        /// # Safety
        /// The code that it runs when it is loaded must be sound.
        pub unsafe fn open(file: &CStr) -> Result<Self, OpenError> {
            // SAFETY: the name is terminated; the caller vouches for what is loaded.
            let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
            if handle.is_null() {
                Err(last_error().unwrap_or(OpenError::UNKNOWN))
            } else {
                Ok(Library(handle))
            }
        }
    }

    pub fn loaded(file: &CStr) -> Option<Handle> {
        // SAFETY: the name is terminated, and no code runs.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(handle)
    }

    pub fn is_absent(file: &CStr) -> bool {
        // Forgets an earlier failure of this thread.
        last_error();
        // A library that is merely not loaded may be no failure.
        loaded(file).is_none() && last_error().is_none_or(|error| !error.is_no_memory)
    }

    pub fn program() -> Handle {
        libc::RTLD_DEFAULT
    }

    pub fn find(library: &Handle, name: &CStr) -> *mut c_void {
        // SAFETY: a handle that `open` or `loaded` returned, and which is never closed.
        unsafe { libc::dlsym(*library, name.as_ptr()) }
    }

    /// Returns this thread's last failure of the loader, which forgets it.
    fn last_error() -> Option<OpenError> {
        // SAFETY: NULL, or a terminated text, which is the thread's own until its next call of the
        // loader.
        let message = unsafe {
            let message = libc::dlerror();
            (!message.is_null()).then(|| CStr::from_ptr(message))?
        };
        Some(OpenError {
            is_no_memory: is_no_memory(message),
            message: Text::new(format_args!("{}", message.to_bytes().escape_ascii())),
        })
    }

    impl OpenError {
        /// There was no memory for a message.
        const UNKNOWN: Self = OpenError { message: Text::EMPTY, is_no_memory: true };
    }

    /// Returns true if the loader's message is about memory, or there was none for the message.
    fn is_no_memory(message: &CStr) -> bool {
        let has = |part: &[u8]| message.to_bytes().windows(part.len()).any(|bytes| bytes == part);
        message.is_empty()
            || has(b"allocate")
            || has(b"out of memory")
            || has(b"cannot create")
            || message == c"cannot open shared object file"
    }
}

#[cfg(windows)]
mod system {
    use std::ffi::{CStr, c_void};
    use std::ptr::null_mut;

    use libloading::os::windows::{LOAD_LIBRARY_SEARCH_SYSTEM32, Library as Module};

    use crate::error::Text;
    use crate::library::{Library, OpenError};

    pub type Handle = std::mem::ManuallyDrop<Module>;

    fn text(name: &CStr) -> &str {
        name.to_str().unwrap_or_default()
    }

    impl Library {
        /// Opens a library by name or path. A name without a folder is looked up in the system
        /// folder alone, where drivers are installed: the default search would prefer a file that
        /// someone put beside the program or into the current folder. [Dynamic-Link Library
        /// Security]
        ///
        /// # Safety
        /// The code that it runs when it is loaded must be sound.
        pub unsafe fn open(file: &CStr) -> Result<Self, OpenError> {
            let has_folder = file.to_bytes().iter().any(|byte| matches!(byte, b'/' | b'\\' | b':'));
            let flags = if has_folder { 0 } else { LOAD_LIBRARY_SEARCH_SYSTEM32 };
            // SAFETY: the caller vouches for what is loaded.
            match unsafe { Module::load_with_flags(text(file), flags) } {
                Ok(library) => Ok(Library(Handle::new(library))),
                Err(error) => {
                    let message = Text::new(format_args!("{error}"));
                    Err(OpenError { message, is_no_memory: false })
                }
            }
        }
    }

    pub fn loaded(file: &CStr) -> Option<Handle> {
        Module::open_already_loaded(text(file)).ok().map(Handle::new)
    }

    pub fn is_absent(file: &CStr) -> bool {
        loaded(file).is_none()
    }

    pub fn program() -> Handle {
        match Module::this() {
            Ok(library) => Handle::new(library),
            // The program itself is always there.
            Err(_) => std::process::abort(),
        }
    }

    pub fn find(library: &Handle, name: &CStr) -> *mut c_void {
        // SAFETY: only the address is taken; the caller gives it its type.
        match unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) } {
            Ok(symbol) => *symbol,
            Err(_) => null_mut(),
        }
    }
}
