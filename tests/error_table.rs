//! `docs/src/errors.md` holds the table of statuses, made from the code. When it is stale this test fails; with
//! `CAI_BLESS=1` in the environment (`make header`) it writes the page instead.

use std::ffi::CStr;
use std::path::Path;

use cai::ffi::library::{cai_status_message, cai_status_name};

/// All `#define CAI_OK` and `CAI_ERR_` of the header, with their numbers.
fn statuses(header: &str) -> Vec<(String, i32)> {
    header
        .lines()
        .filter_map(|line| {
            let (name, number) = line.strip_prefix("#define ")?.split_once(' ')?;
            let status = name == "CAI_OK" || name.starts_with("CAI_ERR_");
            if status { number.parse().ok().map(|number| (name.to_owned(), number)) } else { None }
        })
        .collect()
}

fn text(pointer: *const std::ffi::c_char) -> &'static str {
    // SAFETY: both functions answer constants with a NUL at the end.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

#[test]
fn the_error_table_is_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(root.join("include/cai/cai.h")).unwrap();
    let statuses = statuses(&header);
    assert!(statuses.len() > 40);
    let mut page = String::from(
        "# Errors\n\n\
         Every function that can fail returns one of these numbers, and fills the caller's `cai_error` with the\n\
         field, the value that was found and the value that was expected. The numbers are pinned: a retired one is\n\
         never given out again. Expect numbers that your header does not know; every number but 0 is a failure.\n\n\
         This page is generated from the library.\n",
    );
    let families = [
        (0, "Success"),
        (1, "Arguments"),
        (2, "The array"),
        (3, "The CUDA driver"),
        (4, "Stream capture"),
        (5, "Python"),
        (6, "Resources"),
        (7, "What a receiver cannot take"),
        (9, "The library itself"),
    ];
    for (family, title) in families {
        let rows: Vec<_> = statuses.iter().filter(|(_, number)| number / 100 == family).collect();
        if rows.is_empty() {
            continue;
        }
        page += &format!("\n## {title}\n\n| number | name | meaning |\n|---|---|---|\n");
        for (name, number) in rows {
            // The header's name for the number is the library's name for it.
            assert_eq!(text(cai_status_name(*number)), name);
            let message = text(cai_status_message(*number)).replace('|', "\\|");
            page += &format!("| {number} | `{name}` | {message} |\n");
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut statuses = statuses(&std::fs::read_to_string(root.join("include/cai/cai.h")).unwrap());
    let count = statuses.len();
    statuses.sort_by_key(|status| status.1);
    statuses.dedup_by_key(|status| status.1);
    assert_eq!(statuses.len(), count);
}
