//! Names of Arrow's structures, for `cai/unstable/arrow.h`.

/// `ArrowDeviceArray` of the Arrow C device data interface.
pub enum ArrowDeviceArray {}

/// `ArrowSchema` of the Arrow C data interface.
pub enum ArrowSchema {}
