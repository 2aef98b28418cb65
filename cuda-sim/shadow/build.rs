//! Sets the link arguments, and generates the exported functions that `src/` does not define: those
//! that the checker follows call the functions of `cudasim_core::api`, which notify it; all others
//! jump into the real driver.

#[path = "../entry_points.rs"]
#[allow(dead_code)]
mod table;

use table::Checker;

fn main() {
    table::link_as_driver();
    let functions = table::read().1;
    let mut text = String::new();
    for (at, (symbol, function)) in functions.iter().enumerate() {
        text += &match function.checker {
            Checker::Own => continue,
            Checker::Follows => function.exported(symbol),
            Checker::Passes => format!(
                "#[unsafe(naked)] #[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() {{\n    \
                 crate::real::jump!({at})\n}}\n"
            ),
        };
    }
    let names: Vec<&String> = functions
        .iter()
        .filter(|(_, function)| function.checker != Checker::Passes)
        .map(|(symbol, _)| symbol)
        .collect();
    text += &format!(
        "/// The functions that are followed, sorted.\npub const FOLLOWED: &[&str] = &{names:?};\n"
    );
    table::write("exports.rs", &text);
}
