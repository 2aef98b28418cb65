//! Messages of the simulator to the user, on stderr.

/// Writes to stderr. Ignores errors: it may be closed.
pub fn print(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}
