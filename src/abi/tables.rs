//! Reader of `dtypes.txt` and `devices.txt`, and of the order of the array's rules, for the build
//! script and the generator of the headers.
//! No module of the library.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Kind of a typestr.
pub struct Kind {
    pub letter: char,
    /// Class of the elements: `plain`, `number`, `complex`, `text`, `object` or `opaque`.
    pub class: String,
    /// Bytes separated by commas, or `any`, `characters` or `bits`.
    pub sizes: String,
    pub meaning: String,
}

/// Type that others have a name for. A name that they do not have is empty.
pub struct Dtype {
    pub name: String,
    /// `CAI_DTYPE_`, or 0.
    pub code: u16,
    pub kind: char,
    /// Bytes; bits of the kind `t`.
    pub size: u8,
    pub alignment: u8,
    /// DLPack's code, bits and lanes.
    pub dlpack: Option<(u8, u8, u16)>,
    pub arrow: String,
    pub mpi: String,
    pub nccl: String,
    pub torch: String,
    pub xla: String,
    pub cuda: String,
    pub comment: String,
}

/// Device type.
pub struct Device {
    pub number: u8,
    pub name: String,
    /// `cuda`, `hip`, or empty.
    pub streams: String,
    /// `address`, `handle`, or empty.
    pub data: String,
    pub is_host: bool,
    pub comment: String,
}

/// The table of element types in a folder: its kinds and its types.
pub fn dtypes(folder: &Path) -> (Vec<Kind>, Vec<Dtype>) {
    let (mut kinds, mut types): (Vec<Kind>, Vec<Dtype>) = Default::default();
    for (line, at) in lines(folder, "dtypes.txt") {
        let [what, rest] = cells(&line, &at);
        if what == "kind" {
            let [letter, class, sizes, meaning] = cells(rest, &at);
            let classes = ["plain", "number", "complex", "text", "object", "opaque"];
            assert!(classes.contains(&class), "{at}: no class \"{class}\"");
            let letter = letter.chars().next().unwrap();
            let [class, sizes, meaning] = [class, sizes, meaning].map(str::to_owned);
            kinds.push(Kind { letter, class, sizes, meaning });
            continue;
        }
        assert_eq!(what, "type", "{at}: a line begins with \"kind\" or \"type\"");
        let [name, code, typestr, dlpack, arrow, mpi, nccl, torch, xla, cuda, comment] =
            cells(rest, &at).map(|cell| if cell == "-" { "" } else { cell });
        let (typestr, alignment) = typestr.split_once(':').unwrap_or((typestr, "0"));
        let (kind, size) = typestr.split_at(1);
        let found = kinds.iter().find(|known| kind.starts_with(known.letter));
        let sizes =
            found.unwrap_or_else(|| panic!("{at}: no kind \"{kind}\" above")).sizes.as_str();
        let is_known = matches!(sizes, "any" | "bits") || sizes.split(',').any(|one| one == size);
        assert!(is_known, "{at}: the kind \"{kind}\" has no size \"{size}\"");
        let code: u16 = number(if code.is_empty() { "0" } else { code }, &at);
        assert!(code == 0 || types.iter().all(|one| one.code != code), "{at}: twice {code}");
        let dlpack = (!dlpack.is_empty()).then(|| {
            let mut parts = dlpack.split(':').chain(["1"]);
            let mut part = || number(parts.next().unwrap_or("no bits"), &at);
            (part() as u8, part() as u8, part())
        });
        let [name, arrow, mpi, nccl, torch, xla, cuda, comment] =
            [name, arrow, mpi, nccl, torch, xla, cuda, comment].map(str::to_owned);
        types.push(Dtype {
            name,
            code,
            kind: kind.chars().next().unwrap(),
            size: number(size, &at) as u8,
            alignment: number(alignment, &at) as u8,
            dlpack,
            arrow,
            mpi,
            nccl,
            torch,
            xla,
            cuda,
            comment,
        });
    }
    (kinds, types)
}

/// The table of device types.
pub fn devices(folder: &Path) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for (line, at) in lines(folder, "devices.txt") {
        let [number_, name, streams, data, host, comment] =
            cells(&line, &at).map(|cell| if cell == "-" { "" } else { cell });
        assert!(matches!(streams, "" | "cuda" | "hip"), "{at}: no streams \"{streams}\"");
        assert!(matches!(data, "" | "address" | "handle"), "{at}: no data \"{data}\"");
        assert!(matches!(host, "" | "host"), "{at}: no host \"{host}\"");
        let number = number(number_, &at) as u8;
        // Sets of device types are 32 bits.
        assert!(number < 32 && devices.iter().all(|one| one.number < number), "{at}: {number}");
        let [name, streams, data, comment] = [name, streams, data, comment].map(str::to_owned);
        devices.push(Device { number, name, streams, data, is_host: host == "host", comment });
    }
    devices
}

/// The constants of Rust, with their comments, that `src/abi/core.rs` includes as `file`.
pub fn constants(folder: &Path, file: &str) -> String {
    let mut text = String::new();
    let mut add = |comment: &str, name: String, kind: &str, number: u16| {
        assert!(comment.ends_with('.'), "{name} has no comment");
        writeln!(text, "/// {comment}\npub const {name}: {kind} = {number};").unwrap();
    };
    if file == "devices.rs" {
        for one in devices(folder) {
            let name = format!("CAI_DEVICE_{}", one.name.to_uppercase());
            add(&one.comment, name, "i32", one.number.into());
        }
    } else {
        for one in dtypes(folder).1.iter().filter(|one| one.code != 0) {
            let name = format!("CAI_DTYPE_{}", one.name.to_uppercase());
            add(&one.comment, name, "u16", one.code);
        }
    }
    text
}

/// The lines of a table that are no comments, and where each is.
fn lines(folder: &Path, file: &str) -> Vec<(String, String)> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let numbered =
        text.lines().zip(1..).filter(|(line, _)| !matches!(line.as_bytes(), [] | [b'#', ..]));
    numbered.map(|(line, at)| (line.to_owned(), format!("{}:{at}", path.display()))).collect()
}

/// The cells of a line, the last of which is the rest of the line and may be missing.
fn cells<'a, const N: usize>(line: &'a str, at: &str) -> [&'a str; N] {
    let mut rest = line.trim();
    std::array::from_fn(|index| {
        let cell = if index + 1 == N { rest } else { rest.split(' ').next().unwrap() };
        assert!(!cell.is_empty() || index + 1 == N, "{at}: {N} cells expected");
        rest = rest[cell.len()..].trim_start();
        cell
    })
}

fn number(text: &str, at: &str) -> u16 {
    text.parse().unwrap_or_else(|_| panic!("{at}: \"{text}\" is no number"))
}

/// `ORDER` in `src/validate`.
pub fn order(root: &Path) -> Vec<String> {
    let source = fs::read_to_string(root.join("src/validate/mod.rs")).unwrap();
    let (_, list) = source.split_once("const ORDER: &[&str] = &[").expect("the order of the rules");
    let (list, _) = list.split_once("];").unwrap();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
