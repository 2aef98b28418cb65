//! The macro that defines functions of the driver.

/// Defines functions of the driver: `fn name(arguments) |sim| { body }`. rustfmt leaves them as they
/// are: lines have up to 120 characters, a signature is one line, or has lines of arguments, and a
/// function with a short body is one line.
///
/// Another symbol that is the same function follows its name: `fn name, other(arguments) ...`.
///
/// A function for which the stream 0 is the legacy default stream has a twin for which it is the
/// per-thread one: `fn name / twin(arguments) |sim, default| { body }`. In the body of
/// `|sim, default, stream|`, the argument `stream` is the stream that the handle means.
///
/// Beside a real driver, each calls the function of that and then runs the body for the checker. If
/// the first argument receives a handle or an address, the real one names what the body creates.
///
/// The functions are exported by the front ends, for which `entry_points.txt` states the module and
/// the arguments of each.
macro_rules! api {
    () => {};
    (fn $name:ident, $other:ident $arguments:tt |$sim:ident| $body:block $($rest:tt)*) => {
        crate::api::macros::api! { @made $other, 1, $arguments, |$sim, _unused| $body }
        crate::api::macros::api! { fn $name $arguments |$sim| $body $($rest)* }
    };
    (fn $name:ident $arguments:tt |$sim:ident| $body:block $($rest:tt)*) => {
        crate::api::macros::api! { @made $name, 1, $arguments, |$sim, _unused| $body }
        crate::api::macros::api! { $($rest)* }
    };
    (
        fn $name:ident / $twin:ident $arguments:tt
        |$sim:ident, $default:ident, $stream:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::api::macros::api! {
            fn $name / $twin $arguments |$sim, $default| {
                let $stream = $sim.stream($stream, $default)?;
                $body
            }
            $($rest)*
        }
    };
    (
        fn $name:ident / $twin:ident $arguments:tt |$sim:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::api::macros::api! { @made $name, 1, $arguments, |$sim, $default| $body }
        crate::api::macros::api! { @made $twin, 2, $arguments, |$sim, $default| $body }
        crate::api::macros::api! { $($rest)* }
    };
    (
        @made $name:ident, $number:literal,
        ($to:ident: *mut u64 $(, $arg:ident: $ty:ty)* $(,)?), $($body:tt)*
    ) => {
        crate::api::macros::api! {
            @one $name, $number, $to, ($to: *mut u64 $(, $arg: $ty)*), $($body)*
        }
    };
    (@made $name:ident, $number:literal, ($($arg:ident: $ty:ty),* $(,)?), $($body:tt)*) => {
        crate::api::macros::api! {
            @one $name, $number, (std::ptr::null()), ($($arg: $ty),*), $($body)*
        }
    };
    (
        @one $name:ident, $number:literal, $made:tt, ($($arg:ident: $ty:ty),*),
        |$sim:ident, $default:ident| $body:block
    ) => {
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
