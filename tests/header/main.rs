//! `include/cai/` is what cbindgen makes of the sources, in the places that the templates of
//! `src/abi/headers` name. When a file is stale its test fails; with `CAI_BLESS=1` in the
//! environment (`make header`) it is written instead.

mod c;
mod items;
mod layout;

use std::fs;
use std::path::Path;

use c::{HEADERS, Headers};
use items::Items;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Writes a generated file, or compares it with the one that is checked in.
fn fresh(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("CAI_BLESS").is_some() {
        fs::write(file, text).unwrap();
    } else {
        let stale = fs::read_to_string(file).unwrap_or_default();
        assert!(stale == text, "{path} is stale: run `make header`");
    }
}

/// The text of every header.
fn rendered() -> Vec<(&'static str, String)> {
    let items = Items::of_crate(root());
    let headers = Headers::new(root(), &items);
    let texts = HEADERS.map(|header| (header, headers.render(header)));
    headers.check();
    texts.into()
}

#[test]
fn the_headers_are_fresh() {
    for (header, text) in rendered() {
        fresh(&format!("include/cai/{header}"), &text);
    }
}

#[test]
fn the_layout_is_fresh() {
    fresh("abi/layout.txt", &layout::dump(root(), &Items::of_crate(root())));
}

/// The headers take no names but their own.
#[test]
fn macros_have_the_prefix() {
    let mut count = 0;
    for (header, text) in rendered() {
        for line in text.lines() {
            let directive = line.trim_start().strip_prefix('#').unwrap_or_default().trim_start();
            if let Some(name) = directive.strip_prefix("define ") {
                // Arrow's own, under its guards.
                let is_arrow = header == "arrow.h" && name.starts_with("ARROW_");
                assert!(name.starts_with("CAI_") || is_arrow, "{header}: {name}");
                count += 1;
            }
        }
        assert!(!text.contains("uintptr_t"), "{header}: sizes are size_t");
    }
    assert!(count > 200);
}
