//! Exchanges arrays with plug-ins in C: those of `make demo`, which know nothing of Rust.
//!
//! ```text
//! make demo
//! cargo run -p libcai --example c_plugin -- build/demo/libdemo_producer.so build/demo/libdemo_consumer.so
//! ```
//!
//! The consumer takes two arrays of Rust's memory, keeps them, and prints what it finds in them. The
//! producer receives a matrix to export in several forms, some of which are wrong on purpose; those
//! that are valid come back as views.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use libcai::{Array, IxDyn, sys};
use libloading::{Library, Symbol};

type Take = unsafe extern "C" fn(name: *const c_char, array: *const sys::cai_array) -> c_int;
type Export = unsafe extern "C" fn(
    index: c_int,
    out: *mut sys::cai_array,
    error: *mut sys::cai_error,
) -> c_int;

/// As `demo_source` in `examples-c/demo/plugin.h`.
#[repr(C)]
struct Source {
    data: *mut c_void,
    ndim: i32,
    readonly: i32,
    shape: *const i64,
    strides: *const i64,
    typestr: *const c_char,
    descr: *const c_char,
    context: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
}

fn consume(library: &Library) -> Result<(), Box<dyn Error>> {
    // SAFETY: the functions have these types in `examples-c/demo/plugin.h`.
    let (take, print, close) = unsafe {
        let take: Symbol<Take> = library.get(b"consumer_take\0")?;
        let print: Symbol<unsafe extern "C" fn()> = library.get(b"consumer_print\0")?;
        let close: Symbol<unsafe extern "C" fn()> = library.get(b"consumer_close\0")?;
        (take, print, close)
    };
    let squares = Array::from_vec((0..12).map(|n| f64::from(n * n)).collect(), &[3, 4])?;
    let shared: Arc<[i32]> = Arc::from([3, 1, 4, 1, 5]);
    let digits = Array::from_owner(shared.clone(), &[5])?;
    // SAFETY: the names live as long as the program; the plug-in adds references of its own.
    unsafe {
        take(c"squares, a Vec".as_ptr(), squares.as_ptr());
        take(c"digits, an Arc".as_ptr(), digits.as_ptr());
    }
    drop((squares, digits));
    println!("references to the digits while the plug-in has them: {}", Arc::strong_count(&shared));
    // SAFETY: both have no requirements.
    unsafe {
        print();
        close();
    }
    println!("and after it has closed: {}", Arc::strong_count(&shared));
    Ok(())
}

static SHAPE: [i64; 2] = [2, 3];

/// The values of this program need no release.
unsafe extern "C" fn keep(_: *mut c_void) {}

fn produce(library: &Library) -> Result<(), Box<dyn Error>> {
    let values = [[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let source = Source {
        data: values.as_ptr().cast_mut().cast(),
        ndim: 2,
        readonly: 1,
        shape: SHAPE.as_ptr(),
        strides: std::ptr::null(),
        typestr: c"<f8".as_ptr(),
        descr: std::ptr::null(),
        context: std::ptr::null_mut(),
        release: Some(keep),
    };
    // SAFETY: the functions have these types in `examples-c/demo/plugin.h`; the source outlives
    // what is made of it here.
    unsafe {
        let open: Symbol<unsafe extern "C" fn(*const Source, *mut sys::cai_error) -> c_int> =
            library.get(b"producer_open\0")?;
        let count: Symbol<unsafe extern "C" fn() -> c_int> = library.get(b"producer_count\0")?;
        let name: Symbol<unsafe extern "C" fn(c_int) -> *const c_char> =
            library.get(b"producer_name\0")?;
        let export: Symbol<Export> = library.get(b"producer_export\0")?;
        let close: Symbol<unsafe extern "C" fn()> = library.get(b"producer_close\0")?;
        open(&source, std::ptr::null_mut());
        for index in 0..count() {
            let name = CStr::from_ptr(name(index)).to_string_lossy();
            let array = Array::receive(|out, error| export(index, out, error));
            match array.as_ref().map(|array| array.view::<f64, IxDyn>()) {
                Ok(Ok(view)) => {
                    println!("{name}: {:?}, sum {}", view, view.iter().sum::<f64>());
                }
                Ok(Err(error)) => println!("{name}: not a view of f64: {error}"),
                Err(error) => println!("{name}: {}: {error}", error.name()),
            }
        }
        close();
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [producer, consumer] = &arguments[..] else {
        return Err("usage: c_plugin PRODUCER.so CONSUMER.so".into());
    };
    // SAFETY: the plug-ins of the demo do nothing when they are loaded.
    let (producer, consumer) = unsafe { (Library::new(producer)?, Library::new(consumer)?) };
    consume(&consumer)?;
    produce(&producer)
}
