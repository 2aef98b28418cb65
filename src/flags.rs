//! Names of flags, for messages.

use std::fmt;

use crate::abi;

pub type Names = &'static [(u32, &'static str)];

macro_rules! names {
    ($($name:ident),* $(,)?) => { &[$((abi::$name, stringify!($name))),*] };
}

pub(crate) const ARRAY: Names = names![CAI_ARRAY_READONLY];

pub(crate) const CHECKS: Names = names![
    CAI_CHECK_LAYOUT,
    CAI_CHECK_ALIGNMENT,
    CAI_CHECK_DEVICE,
    CAI_CHECK_STREAM,
    CAI_CHECK_NATIVE
];

pub(crate) const EXPORT: Names = names![
    CAI_EXPORT_VERSION_2,
    CAI_EXPORT_STRIDES,
    CAI_EXPORT_HIDE_READONLY,
    CAI_UNSTABLE_EXPORT_VERSION_4
];

/// Flags of functions that order streams.
pub(crate) const SYNC: Names = names![
    CAI_ACCESS_READ,
    CAI_ACCESS_WRITE,
    CAI_SYNC_IGNORE,
    CAI_SYNC_EXPORT_NONE,
    CAI_SYNC_CONSERVATIVE,
    CAI_SYNC_THIS_CALL,
    CAI_CAPTURE_JOIN,
    CAI_UNSTABLE_CAPTURE_EXTERNAL,
];

/// A set of flags by name: `CAI_ACCESS_READ | 0x1000`. Flags without a name are a number.
pub struct Named(pub u32, pub Names);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut rest = self.0;
        let mut separator = "";
        for &(flag, name) in self.1 {
            if self.0 & flag != 0 {
                write!(f, "{separator}{name}")?;
                rest &= !flag;
                separator = " | ";
            }
        }
        if rest != 0 || self.0 == 0 {
            write!(f, "{separator}{rest:#x}")?;
        }
        Ok(())
    }
}
