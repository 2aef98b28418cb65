//! Messages of the simulator to the user, on stderr.
//!
//! May use: nothing. Unsafe: none.

/// Writes to stderr, which may be closed: that is no reason to fail.
pub fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}
