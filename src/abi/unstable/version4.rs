//! Flags for `cai/unstable/version4.h`.

/// For `cai_export_options.flags`: dictionaries of the proposed version 4, which state what else is
/// known: `device`, `context`, `stream_id`, `event` and `dtype`. The other keys are those of
/// version 3, for readers that know no more. If the stream is not known, the version is 2, as
/// without this flag. Contradicts `CAI_EXPORT_VERSION_2`.
pub const CAI_UNSTABLE_EXPORT_VERSION_4: u32 = 1_073_741_824;

/// For `cai_import_options.flags`: reads those keys in dictionaries of any version but 3.
/// Contradicts `CAI_IMPORT_STRICT`.
pub const CAI_UNSTABLE_IMPORT_VERSION_4: u32 = 536_870_912;
