//! Generates the table of the driver's functions, which there are and which are simulated, and that
//! of its result codes.

#[path = "../entry_points.rs"]
#[allow(dead_code)]
mod table;

fn main() {
    write_functions();
    write_codes();
}

fn write_functions() {
    let (rows, functions) = table::read();
    let mut text = String::from("pub const ENTRIES: &[Entry] = &[\n");
    for (name, version, symbol) in &rows {
        let simulated = functions[symbol].module.is_some();
        text += &format!("    ({name:?}, {version}, {symbol:?}, {simulated}),\n");
    }
    text += "];\n/// All symbols, sorted.\npub const NAMES: &[&CStr] = &[\n";
    for symbol in functions.keys() {
        text += &format!("    c\"{symbol}\",\n");
    }
    text += "];\n/// The index of each symbol in `NAMES`.\n#[allow(non_upper_case_globals)]\n";
    text += "pub mod index {\n";
    for (at, symbol) in functions.keys().enumerate() {
        text += &format!("    pub const {symbol}: usize = {at};\n");
    }
    text += "}\n";
    table::write("functions.rs", &text);
}

/// A row of `errors.txt` has the number, the name in the driver, the name in the runtime library, and
/// the text. A `-` stands for a name that one of them lacks.
fn write_codes() {
    const PATH: &str = "../errors.txt";
    println!("cargo:rerun-if-changed={PATH}");
    let text = std::fs::read_to_string(PATH).unwrap();
    let rows = text.lines().map(|line| {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().expect("number, two names, text");
        let (number, name, _, text) = (word(), word(), word(), word());
        (number, name, text)
    });
    let (mut codes, mut table) = (String::new(), String::new());
    for (number, name, text) in rows.filter(|row| row.1 != "-") {
        if let Some(name) = name.strip_prefix("CUDA_ERROR_") {
            codes += &format!("    pub const {name}: Code = Code({number});\n");
        }
        table += &format!("    ({number}, \"{name}\\0\", \"{text}\\0\"),\n");
    }
    let text = format!(
        "#[allow(dead_code)]\nimpl Code {{\n{codes}}}\n\n\
         /// Number, name and text of every result, with the terminating NUL of C.\n\
         pub const TABLE: &[(i32, &str, &str)] = &[\n{table}];\n"
    );
    table::write("codes.rs", &text);
}
