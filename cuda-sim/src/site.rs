//! Where an access came from and which bytes it belongs to, for the checker and its reports.
//!
//! May use: `clock`, `shadow`, `stack`. Unsafe: none.

use crate::clock::{Actor, Clock};
use crate::shadow::Mark;
use crate::stack::StackId;
use std::borrow::Cow;

/// Where an access came from.
#[derive(Debug)]
pub struct Site {
    pub actor: Actor,
    /// Whose it is to the rules: of a branch of a graph, the stream that the graph was launched on.
    pub stream: Actor,
    /// What was seen before has smaller ones.
    pub time: u64,
    pub label: Cow<'static, str>,
    pub stack: StackId,
    pub thread: u64,
}

/// What an access belongs to: the operation's moment and origin.
pub struct Moment {
    pub clock: Clock,
    pub mark: Mark<Site>,
}

/// The bytes of an allocation, for reports.
#[derive(Clone, Debug)]
pub struct Place {
    pub base: u64,
    pub size: u64,
    pub device: i32,
    pub kind: &'static str,
}
