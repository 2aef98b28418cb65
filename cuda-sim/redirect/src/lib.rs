//! The library that `cuda-sim run` preloads for modules that carry NVIDIA's runtime library inside:
//! programs and extension modules that are linked to `libcudart_static.a`. The driver that such a
//! copy needs is NVIDIA's own, because it asks for tables that no header describes. So when a
//! module is loaded, each `cuda*` function in its symbol table gets a jump to the function of the
//! same name in the replacement runtime library.
//!
//! The dynamic linker notifies debuggers of each change of the list of modules; this library uses
//! the same notification. It comes before relocations and initializers of the new modules, so none
//! of their code runs unpatched. Inside it, no function of the dynamic linker may be called:
//! the replacement library is loaded at the first call of one of its functions.
//!
//! Modules, in the order in which they may use each other.

#![cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]

/// Sections, segments and symbols of an ELF file.
mod elf;
/// Which runtime library a module carries.
mod survey;
/// Memory near a module, and jumps that are written into its code.
mod patch;
/// Functions of the replacement libraries, found when they are called.
mod slots;
/// The modules of this process, and the notification of changes.
mod modules;
/// Redirection of each module.
mod serve;

/// Initializes this library. The C library passes these arguments to all initializers; its
/// variable `environ` may not be set yet.
///
/// # Safety
///
/// `environment` is NULL or an array of NUL-terminated texts that ends with NULL.
unsafe extern "C" fn initialize(
    _count: libc::c_int,
    _arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
) {
    // SAFETY: the caller guarantees the array.
    unsafe { serve::start(environment) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALIZE: unsafe extern "C" fn(
    libc::c_int,
    *const *const libc::c_char,
    *const *const libc::c_char,
) = initialize;
