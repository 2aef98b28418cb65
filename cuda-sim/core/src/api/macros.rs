//! The macro that defines functions of the driver.

/// Defines functions of the driver: `fn name(arguments) |sim| { body }`. rustfmt leaves them as they
/// are: a signature is one line of up to 120 characters, and so is a function with a short body.
///
/// A function for which the stream 0 is the legacy default stream has a twin for which it is the
/// per-thread one: `fn name / twin(arguments) |sim, default| { body }`.
///
/// Beside a real driver, each calls the function of that and then runs the body for the checker. If
/// the first argument receives a handle or an address, the real one names what the body creates.
///
/// The functions are exported by the front ends, for which `entry_points.txt` states the module and
/// the arguments of each.
macro_rules! api {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($to:ident: *mut u64 $(, $arg:ident: $ty:ty)* $(,)?)
        |$sim:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::api::macros::api! {
            @one [$(#[$doc])*] $name, 1, $to, ($to: *mut u64 $(, $arg: $ty)*),
            |$sim, _unused| $body
        }
        crate::api::macros::api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$sim:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::api::macros::api! {
            @one [$(#[$doc])*] $name, 1, (std::ptr::null()), ($($arg: $ty),*),
            |$sim, _unused| $body
        }
        crate::api::macros::api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident / $twin:ident($to:ident: *mut u64 $(, $arg:ident: $ty:ty)* $(,)?)
        |$sim:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::api::macros::api! {
            @one [$(#[$doc])*] $name, 1, $to, ($to: *mut u64 $(, $arg: $ty)*),
            |$sim, $default| $body
        }
        crate::api::macros::api! {
            @one [$(#[$doc])*] $twin, 2, $to, ($to: *mut u64 $(, $arg: $ty)*),
            |$sim, $default| $body
        }
        crate::api::macros::api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident / $twin:ident($($arg:ident: $ty:ty),* $(,)?)
        |$sim:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::api::macros::api! {
            @one [$(#[$doc])*] $name, 1, (std::ptr::null()), ($($arg: $ty),*),
            |$sim, $default| $body
        }
        crate::api::macros::api! {
            @one [$(#[$doc])*] $twin, 2, (std::ptr::null()), ($($arg: $ty),*),
            |$sim, $default| $body
        }
        crate::api::macros::api! { $($rest)* }
    };
    (
        @one [$(#[$doc:meta])*] $name:ident, $number:literal, $made:tt, ($($arg:ident: $ty:ty),*),
        |$sim:ident, $default:ident| $body:block
    ) => {
        $(#[$doc])*
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            crate::follow::run(
                stringify!($name),
                $number,
                crate::functions::index::$name,
                |real| {
                    type Function = extern "C" fn($($ty),*) -> i32;
                    // SAFETY: the table of a real driver has its function of this name here, which
                    // has this type, or one that reads no argument.
                    let real: Function = unsafe { std::mem::transmute(real) };
                    real($($arg),*)
                },
                $made,
                |$sim, $default| $body,
            )
        }
    };
}
pub(crate) use api;
