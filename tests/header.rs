//! `include/cai/cai.h` is what cbindgen makes of the sources. When it is stale this test fails; with
//! `CAI_BLESS=1` in the environment (`make header`) it writes the header instead.

use std::path::Path;

#[test]
fn the_header_is_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_crate(root)
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let path = root.join("include/cai/cai.h");
    if std::env::var_os("CAI_BLESS").is_some() {
        std::fs::write(path, text).unwrap();
    } else {
        let stale = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stale == text, "include/cai/cai.h is stale: run `make header`");
    }
}
