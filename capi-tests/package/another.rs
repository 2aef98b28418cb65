//! Another static library in Rust, with a standard library of its own, which catches a panic.

#[unsafe(no_mangle)]
pub extern "C" fn another(count: i32) -> i32 {
    let length = || {
        assert!(count >= 0);
        (0..count).map(|index| index.to_string()).collect::<String>().len() as i32
    };
    std::panic::catch_unwind(length).unwrap_or(-1)
}
