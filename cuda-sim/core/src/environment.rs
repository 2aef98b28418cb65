//! Environment variables.

/// Returns the value of a variable, if it is text. In a program that runs with more rights than its
/// user, such as a set-user-id program, none is set: variables name files to write, and libraries
/// to load.
pub fn variable(name: &str) -> Option<String> {
    // SAFETY: reads a number that the kernel passed to the program.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    std::env::var(name).ok()
}
