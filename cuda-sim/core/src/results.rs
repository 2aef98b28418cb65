//! The result codes of the driver: their numbers and names, as in cuda.h.
//!
//! May use: nothing. Unsafe: none.

/// A result that is not success.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Code(pub i32);

pub type Result<T = ()> = std::result::Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $number:literal $text:literal,)*) => {
        impl Code {
            $(#[allow(dead_code)] pub const $name: Code = Code($number);)*
        }

        /// Number, name and text of every result, with the terminating NUL of C.
        pub const TABLE: &[(i32, &str, &str)] = &[
            (0, "CUDA_SUCCESS\0", "no error\0"),
            $((
                $number,
                concat!("CUDA_ERROR_", stringify!($name), "\0"),
                concat!($text, "\0"),
            ),)*
        ];
    };
}

codes! {
    INVALID_VALUE = 1 "invalid value",
    OUT_OF_MEMORY = 2 "out of memory",
    NOT_INITIALIZED = 3 "not initialized",
    DEINITIALIZED = 4 "deinitialized",
    PROFILER_DISABLED = 5 "profiler disabled",
    PROFILER_NOT_INITIALIZED = 6 "profiler not initialized",
    PROFILER_ALREADY_STARTED = 7 "profiler already started",
    PROFILER_ALREADY_STOPPED = 8 "profiler already stopped",
    STUB_LIBRARY = 34 "stub library",
    CALL_REQUIRES_NEWER_DRIVER = 36 "call requires newer driver",
    DEVICE_UNAVAILABLE = 46 "device unavailable",
    MULTICAST_RESOURCE_FULL = 47 "multicast resource full",
    NO_DEVICE = 100 "no device",
    INVALID_DEVICE = 101 "invalid device",
    DEVICE_NOT_LICENSED = 102 "device not licensed",
    INVALID_IMAGE = 200 "invalid image",
    INVALID_CONTEXT = 201 "invalid context",
    CONTEXT_ALREADY_CURRENT = 202 "context already current",
    MAP_FAILED = 205 "map failed",
    UNMAP_FAILED = 206 "unmap failed",
    ARRAY_IS_MAPPED = 207 "array is mapped",
    ALREADY_MAPPED = 208 "already mapped",
    NO_BINARY_FOR_GPU = 209 "no binary for gpu",
    ALREADY_ACQUIRED = 210 "already acquired",
    NOT_MAPPED = 211 "not mapped",
    NOT_MAPPED_AS_ARRAY = 212 "not mapped as array",
    NOT_MAPPED_AS_POINTER = 213 "not mapped as pointer",
    ECC_UNCORRECTABLE = 214 "ecc uncorrectable",
    UNSUPPORTED_LIMIT = 215 "unsupported limit",
    CONTEXT_ALREADY_IN_USE = 216 "context already in use",
    PEER_ACCESS_UNSUPPORTED = 217 "peer access unsupported",
    INVALID_PTX = 218 "invalid ptx",
    INVALID_GRAPHICS_CONTEXT = 219 "invalid graphics context",
    NVLINK_UNCORRECTABLE = 220 "nvlink uncorrectable",
    JIT_COMPILER_NOT_FOUND = 221 "jit compiler not found",
    UNSUPPORTED_PTX_VERSION = 222 "unsupported ptx version",
    JIT_COMPILATION_DISABLED = 223 "jit compilation disabled",
    UNSUPPORTED_EXEC_AFFINITY = 224 "unsupported exec affinity",
    UNSUPPORTED_DEVSIDE_SYNC = 225 "unsupported devside sync",
    CONTAINED = 226 "contained",
    INSUFFICIENT_LOADER_VERSION = 227 "insufficient loader version",
    INVALID_SOURCE = 300 "invalid source",
    FILE_NOT_FOUND = 301 "file not found",
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302 "shared object symbol not found",
    SHARED_OBJECT_INIT_FAILED = 303 "shared object init failed",
    OPERATING_SYSTEM = 304 "operating system",
    INVALID_HANDLE = 400 "invalid handle",
    ILLEGAL_STATE = 401 "illegal state",
    LOSSY_QUERY = 402 "lossy query",
    NOT_FOUND = 500 "not found",
    NOT_READY = 600 "not ready",
    ILLEGAL_ADDRESS = 700 "illegal address",
    LAUNCH_OUT_OF_RESOURCES = 701 "launch out of resources",
    LAUNCH_TIMEOUT = 702 "launch timeout",
    LAUNCH_INCOMPATIBLE_TEXTURING = 703 "launch incompatible texturing",
    PEER_ACCESS_ALREADY_ENABLED = 704 "peer access already enabled",
    PEER_ACCESS_NOT_ENABLED = 705 "peer access not enabled",
    PRIMARY_CONTEXT_ACTIVE = 708 "primary context active",
    CONTEXT_IS_DESTROYED = 709 "context is destroyed",
    ASSERT = 710 "assert",
    TOO_MANY_PEERS = 711 "too many peers",
    HOST_MEMORY_ALREADY_REGISTERED = 712 "host memory already registered",
    HOST_MEMORY_NOT_REGISTERED = 713 "host memory not registered",
    HARDWARE_STACK_ERROR = 714 "hardware stack error",
    ILLEGAL_INSTRUCTION = 715 "illegal instruction",
    MISALIGNED_ADDRESS = 716 "misaligned address",
    INVALID_ADDRESS_SPACE = 717 "invalid address space",
    INVALID_PC = 718 "invalid pc",
    LAUNCH_FAILED = 719 "launch failed",
    COOPERATIVE_LAUNCH_TOO_LARGE = 720 "cooperative launch too large",
    TENSOR_MEMORY_LEAK = 721 "tensor memory leak",
    NOT_PERMITTED = 800 "not permitted",
    NOT_SUPPORTED = 801 "not supported",
    SYSTEM_NOT_READY = 802 "system not ready",
    SYSTEM_DRIVER_MISMATCH = 803 "system driver mismatch",
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804 "compat not supported on device",
    MPS_CONNECTION_FAILED = 805 "mps connection failed",
    MPS_RPC_FAILURE = 806 "mps rpc failure",
    MPS_SERVER_NOT_READY = 807 "mps server not ready",
    MPS_MAX_CLIENTS_REACHED = 808 "mps max clients reached",
    MPS_MAX_CONNECTIONS_REACHED = 809 "mps max connections reached",
    MPS_CLIENT_TERMINATED = 810 "mps client terminated",
    CDP_NOT_SUPPORTED = 811 "cdp not supported",
    CDP_VERSION_MISMATCH = 812 "cdp version mismatch",
    STREAM_CAPTURE_UNSUPPORTED = 900 "stream capture unsupported",
    STREAM_CAPTURE_INVALIDATED = 901 "stream capture invalidated",
    STREAM_CAPTURE_MERGE = 902 "stream capture merge",
    STREAM_CAPTURE_UNMATCHED = 903 "stream capture unmatched",
    STREAM_CAPTURE_UNJOINED = 904 "stream capture unjoined",
    STREAM_CAPTURE_ISOLATION = 905 "stream capture isolation",
    STREAM_CAPTURE_IMPLICIT = 906 "stream capture implicit",
    CAPTURED_EVENT = 907 "captured event",
    STREAM_CAPTURE_WRONG_THREAD = 908 "stream capture wrong thread",
    TIMEOUT = 909 "timeout",
    GRAPH_EXEC_UPDATE_FAILURE = 910 "graph exec update failure",
    EXTERNAL_DEVICE = 911 "external device",
    INVALID_CLUSTER_SIZE = 912 "invalid cluster size",
    FUNCTION_NOT_LOADED = 913 "function not loaded",
    INVALID_RESOURCE_TYPE = 914 "invalid resource type",
    INVALID_RESOURCE_CONFIGURATION = 915 "invalid resource configuration",
    KEY_ROTATION = 916 "key rotation",
    STREAM_DETACHED = 917 "stream detached",
    GRAPH_RECAPTURE_FAILURE = 918 "graph recapture failure",
    FABRIC_NOT_READY = 919 "fabric not ready",
    UNKNOWN = 999 "unknown",
}

/// Returns the row of a number.
pub fn find(number: i32) -> Option<&'static (i32, &'static str, &'static str)> {
    TABLE.iter().find(|row| row.0 == number)
}

/// Parses a code: its number, or its name with or without the common prefix.
pub fn parse(text: &str) -> Option<Code> {
    if let Ok(number) = text.parse() {
        return find(number).map(|row| Code(row.0));
    }
    let wanted = text.trim_start_matches("CUDA_ERROR_").to_uppercase();
    let row = TABLE
        .iter()
        .find(|row| row.1.trim_end_matches('\0').trim_start_matches("CUDA_ERROR_") == wanted)?;
    Some(Code(row.0))
}
