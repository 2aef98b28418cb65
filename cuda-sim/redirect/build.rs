//! Marks the library so that the dynamic linker initializes it before all others: their
//! initializers may call the runtime library that they carry.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
}
