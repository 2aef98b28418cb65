//! The functions that are not simulated: made by `build.rs` from `entry_points.txt`.

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
