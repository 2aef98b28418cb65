//! `docs/src/errors.md` holds the table of statuses, made from the code. When it is stale this test fails; with
//! `CAI_BLESS=1` in the environment (`make header`) it writes the page instead.

use std::ffi::CStr;
use std::path::Path;

use cai::ffi::library::{cai_status_message, cai_status_name};

/// Name, number and advice of every status. The advice is what follows the first paragraph of its
/// comment.
fn statuses() -> Vec<(String, i32, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(root.join("src/abi/status.rs")).unwrap();
    let (mut statuses, mut comment) = (Vec::new(), Vec::new());
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
            continue;
        }
        if let Some((name, number)) =
            line.strip_prefix("pub const ").and_then(|line| line.split_once(": cai_status = "))
        {
            if name == "CAI_OK" || name.starts_with("CAI_ERR_") {
                let advice = comment.iter().skip_while(|text| !text.is_empty());
                let advice = advice.copied().collect::<Vec<_>>().join(" ");
                let number = number.trim_end_matches(';').parse().unwrap();
                statuses.push((name.to_owned(), number, advice.trim().to_owned()));
            }
        }
        comment.clear();
    }
    statuses
}

/// The page up to the first table.
const INTRODUCTION: &str = r#"# Errors

Every function that can fail returns one of these numbers. On failure it also fills the caller's
`cai_error`, whose `message` states the field, the value found and the value expected.

```c
#include <cai/cai.h>
#include <stdio.h>

int is_valid(const cai_array *array) {
    cai_error error;
    if (cai_array_validate(array, CAI_CHECK_LAYOUT, &error) == CAI_OK) return 1;
    fprintf(stderr, "%s: %s\n", cai_status_name(error.code), error.message);
    return 0;
}
```

All numbers except 0 are failures. Newer libraries add numbers, so accept those that your header does
not know. A retired number is never reused. Control characters in names of others are escaped in
messages, so a message is one line. This page is generated from the library.
"#;

fn text(pointer: *const std::ffi::c_char) -> &'static str {
    // SAFETY: both functions answer constants with a NUL at the end.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

#[test]
fn the_error_table_is_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let statuses = statuses();
    assert!(statuses.len() > 40);
    let mut page = String::from(INTRODUCTION);
    let families = [
        (0, "Success"),
        (1, "Arguments"),
        (2, "The array"),
        (3, "The CUDA driver"),
        (4, "Stream capture"),
        (5, "Python"),
        (6, "Resources"),
        (7, "Conversions and requirements"),
        (9, "The library itself"),
    ];
    for (family, title) in families {
        let rows: Vec<_> =
            statuses.iter().filter(|(_, number, _)| number / 100 == family).collect();
        if rows.is_empty() {
            continue;
        }
        page += &format!("\n## {title}\n\n| number | name | cause and cure |\n|---|---|---|\n");
        for (name, number, advice) in rows {
            // The header's name for the number is the library's name for it.
            assert_eq!(text(cai_status_name(*number)), name);
            let message = text(cai_status_message(*number)).replace('|', "\\|");
            let space = if advice.is_empty() { "" } else { " " };
            page += &format!("| {number} | `{name}` | {message}{space}{advice} |\n");
        }
    }
    let path = root.join("docs/src/errors.md");
    if std::env::var_os("CAI_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, page).unwrap();
    } else {
        let stale = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stale == page, "docs/src/errors.md is stale: run `make header`");
    }
}

#[test]
fn numbers_are_used_once() {
    let mut statuses = statuses();
    let count = statuses.len();
    statuses.sort_by_key(|status| status.1);
    statuses.dedup_by_key(|status| status.1);
    assert_eq!(statuses.len(), count);
}
