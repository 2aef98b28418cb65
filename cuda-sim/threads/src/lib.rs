//! The library that `cuda-sim run` preloads: functions that order threads, each of which does
//! its work and notifies the race checker. A release notifies "before", an acquire "after",
//! with the address of the lock, or a key of the channel. Without an initialized driver, the
//! cost is a NULL check.
//!
//! Each function has the safety contract of the one that it replaces, and passes on its
//! arguments unchanged. Those that exceptions, cancellation or `pthread_exit` may pass through
//! have the ABI `C-unwind`, and nothing to drop.
//!
//! Order by atomics is not observed; programs report it with `cudasim_hb_before` and
//! `cudasim_hb_after`.

#![allow(clippy::missing_safety_doc)]

mod checker;
mod modules;
mod next;

mod channels;
mod futex;
mod guards;
mod locks;
mod openmp;
mod queues;
mod signals;
mod tasks;
