//! Texts of the program in messages and reports.

use std::fmt::{Display, Write};

/// Returns a number of things: "1 race", "2 races".
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

/// Returns a name of the program's with everything escaped that a terminal, a log or a browser acts
/// on or does not show: control characters, marks of direction, and bytes that are no UTF-8.
pub fn shown(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\'' | '"' | '\\' => out.push(letter),
                _ => out.extend(letter.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}
