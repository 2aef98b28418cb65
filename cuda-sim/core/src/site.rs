//! Origin of an access and the bytes that it belongs to, for the checker and its reports.

use crate::actor::Identity;
use crate::clock::Clock;
use crate::shadow::Mark;
use crate::stack::StackId;
use std::borrow::Cow;
use std::sync::Arc;

/// Content that an operation writes.
#[derive(Clone, Copy, Debug, Default)]
pub enum Content {
    #[default]
    Any,
    /// One element of 1, 2 or 4 bytes again and again.
    Repeated { value: u32, element: u64 },
    /// Up to 8 bytes, by the address of the first one for the device.
    Number { at: u64, value: u64 },
}

impl Content {
    /// Returns the content of a copy of these bytes, if it is one of these.
    pub fn of(at: u64, bytes: &[u8]) -> Content {
        let mut number = [0; 8];
        match bytes {
            [] => Content::Any,
            _ if bytes.len() <= 8 => {
                number[..bytes.len()].copy_from_slice(bytes);
                Content::Number { at, value: u64::from_le_bytes(number) }
            }
            [first, ..] if bytes.len() <= 4096 && bytes.iter().all(|byte| byte == first) => {
                Content::Repeated { value: u32::from(*first), element: 1 }
            }
            _ => Content::Any,
        }
    }

    /// Returns the same at an address that differs by so much.
    pub fn moved(self, distance: u64) -> Content {
        match self {
            Content::Number { at, value } => {
                Content::Number { at: at.wrapping_add(distance), value }
            }
            other => other,
        }
    }

    /// Returns the 8 bytes at an address in it. Bytes behind the end are 0.
    pub fn number_at(self, address: u64) -> Option<u64> {
        let repeated = |value: u32| u64::from(value) << 32 | u64::from(value);
        match self {
            Content::Any => None,
            Content::Repeated { value, element: 1 } => Some(repeated(value & 0xff) * 0x0101_0101),
            Content::Repeated { value, element: 2 } => Some(repeated(value & 0xffff) * 0x1_0001),
            Content::Repeated { value, .. } => Some(repeated(value)),
            Content::Number { at, value } => {
                let bits = address.checked_sub(at)?.checked_mul(8)?;
                value.checked_shr(bits.try_into().ok()?)
            }
        }
    }
}

/// The origin of an access.
#[derive(Debug)]
pub struct Site {
    pub actor: Arc<Identity>,
    /// The actor that the rules consider: for a branch of a graph, the stream of the launch.
    pub stream: Arc<Identity>,
    /// A number that grows with every recorded access.
    pub time: u64,
    pub label: Cow<'static, str>,
    pub stack: StackId,
    pub thread: u64,
    pub content: Content,
}

impl Site {
    /// Returns whether an allocation begins here, which leaves no bytes that a program may read.
    pub fn begins_memory(&self) -> bool {
        let calls = ["Alloc", "Register", "Map", "Import", "Open", "a sub-allocation"];
        calls.iter().any(|call| self.label.contains(call))
    }
}

/// The moment and the origin of an operation, which its accesses share.
pub struct Moment {
    pub clock: Clock,
    pub mark: Mark<Site>,
}

/// An allocation, as reports describe it.
#[derive(Clone, Debug)]
pub struct AllocationInfo {
    pub base: u64,
    pub size: u64,
    pub device: i32,
    pub kind: &'static str,
}
