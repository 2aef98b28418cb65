//! The macro that defines functions which report to the checker by themselves.

/// Defines functions that report to the checker by themselves. `|real|` is the driver's function.
macro_rules! passed_on {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$real:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passed_on::passed_on! { @one $name, ($($arg: $ty),*), |$real| $body }
        crate::passed_on::passed_on! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident / $twin:ident($($arg:ident: $ty:ty),* $(,)?)
        |$real:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passed_on::passed_on! {
            @one $name, ($($arg: $ty),*), |$real| { let $default = 1; $body }
        }
        crate::passed_on::passed_on! {
            @one $twin, ($($arg: $ty),*), |$real| { let $default = 2; $body }
        }
        crate::passed_on::passed_on! { $($rest)* }
    };
    (@one $name:ident, ($($arg:ident: $ty:ty),*), |$real:ident| $body:block) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            let $real = crate::real::function!($name($($ty),*));
            if cudasim_core::follow::is_outside() {
                return $real($($arg),*);
            }
            $body
        }
    };
}
pub(crate) use passed_on;
