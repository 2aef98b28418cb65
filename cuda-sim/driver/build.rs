//! Sets the link arguments of `libcuda.so.1`, and generates its functions: those of
//! `cudasim_core::api`, and for all others a stub, which lets programs link and counts the call.

#[path = "../entry_points.rs"]
#[allow(dead_code)]
mod table;

fn main() {
    table::link_as_driver();
    let mut text = String::new();
    for (symbol, function) in table::read().1 {
        text += &match &function.module {
            Some(_) => function.exported(&symbol),
            None => format!(
                "#[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() -> i32 {{\n    \
                 cudasim_core::ffi::missing(\"{symbol}\")\n}}\n"
            ),
        };
    }
    table::write("exports.rs", &text);
}
