//! The macro that defines functions of the driver, for both builds.
//!
//! May use: `ffi`, `passthrough::follow`. Unsafe: `no_mangle` on functions that cuda.h declares.

/// Defines functions of the driver: `fn name(arguments) |sim| { body }`.
///
/// A function for which the stream 0 is the legacy default stream has a twin for which it is the
/// per-thread one: `fn name / twin(arguments) |sim, default| { body }`.
#[cfg(not(passthrough))]
macro_rules! api {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$sim:ident| $body:block
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            crate::ffi::enter(stringify!($name), 1, |$sim, _| $body)
        }
        crate::api::macros::api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident / $twin:ident($($arg:ident: $ty:ty),* $(,)?)
        |$sim:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            crate::ffi::enter(stringify!($name), 1, |$sim, $default| $body)
        }
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $twin($($arg: $ty),*) -> i32 {
            crate::ffi::enter(stringify!($twin), 2, |$sim, $default| $body)
        }
        crate::api::macros::api! { $($rest)* }
    };
}
#[cfg(passthrough)]
pub(crate) use crate::passthrough::follow::api;
#[cfg(not(passthrough))]
pub(crate) use api;
