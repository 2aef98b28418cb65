/*
 * types.h: the handles, structures and numbers of the CUDA runtime and driver that cross this
 * library's boundary, declared here so that it builds where no CUDA toolkit is installed.
 * tests/layout_check.c compares every one of them with NVIDIA's headers where those are present.
 *
 * CUDART_MAJOR (12 or 13) selects the layouts that differ between the two.
 */
#ifndef CUDART_TYPES_H
#define CUDART_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if CUDART_MAJOR != 12 && CUDART_MAJOR != 13
#error "CUDART_MAJOR must be 12 or 13"
#endif

/* The version of the library: the newest minor version whose functions it has. */
#if CUDART_MAJOR == 12
#define RUNTIME_VERSION 12090
#else
#define RUNTIME_VERSION 13050
#endif

/* Handles. The runtime's are the driver's under other names: cudaStream_t is CUstream. */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUuserObject_st *CUuserObject;
typedef void (*host_function)(void *data);
typedef void (*driver_callback)(CUstream stream, int result, void *data);

/* The two default streams, by the handles that mean the same in every driver function. */
#define LEGACY_STREAM ((CUstream)0x1)
#define PER_THREAD_STREAM ((CUstream)0x2)

enum {
#define NUMBER(name, value, nvidia) name = value,
#include "numbers.h"
#undef NUMBER
};

#define KERNEL_IS_FUNCTION 3 /* cudaKernelFunctionType: `function` is a CUfunction already */

#define DEVICE_SCHEDULE_FLAGS 0x97u /* the device flags of the runtime that the driver takes */
#define DEVICE_MAP_HOST 0x08u       /* always on, and always reported */
#define INIT_DEVICE_FLAGS_VALID 0x1u

/* Structures of both APIs, which are the same bytes. */
struct grid_size { /* dim3 */
    unsigned x, y, z;
};
struct ipc_handle { /* cudaIpcMemHandle_t, cudaIpcEventHandle_t */
    char reserved[64];
};
struct uuid { /* cudaUUID_t */
    char bytes[16];
};
struct memory_location { /* cudaMemLocation */
    int type;
    int id;
};
struct pool_properties { /* cudaMemPoolProps */
    int allocation_type;
    int handle_types;
    struct memory_location location;
    void *security_attributes;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
};
struct graph_edge { /* cudaGraphEdgeData */
    unsigned char from_port, to_port, type, reserved[5];
};
struct instantiate_params { /* cudaGraphInstantiateParams */
    unsigned long long flags;
    CUstream upload_stream;
    CUgraphNode error_node;
    int result;
};
struct update_result { /* cudaGraphExecUpdateResultInfo */
    int result;
    CUgraphNode error_node, error_from_node;
};
struct host_node { /* cudaHostNodeParams */
    host_function run;
    void *data;
};
struct memset_node { /* cudaMemsetParams */
    void *address;
    size_t pitch;
    unsigned value, element_size;
    size_t width, height;
};

/* Structures of the runtime. */
struct pitched_pointer { /* cudaPitchedPtr */
    void *address;
    size_t pitch, xsize, ysize;
};
struct extent { /* cudaExtent */
    size_t width, height, depth;
};
struct position { /* cudaPos */
    size_t x, y, z;
};
struct memcpy3d { /* cudaMemcpy3DParms */
    void *src_array;
    struct position src_position;
    struct pitched_pointer src;
    void *dst_array;
    struct position dst_position;
    struct pitched_pointer dst;
    struct extent extent;
    int kind;
};
struct memcpy3d_peer { /* cudaMemcpy3DPeerParms */
    void *src_array;
    struct position src_position;
    struct pitched_pointer src;
    int src_device;
    void *dst_array;
    struct position dst_position;
    struct pitched_pointer dst;
    int dst_device;
    struct extent extent;
};
struct launch_config { /* cudaLaunchConfig_t */
    struct grid_size grid, block;
    size_t shared_bytes;
    CUstream stream;
    void *attributes; /* cudaLaunchAttribute is CUlaunchAttribute */
    unsigned attribute_count;
};
struct kernel_node { /* cudaKernelNodeParams */
    void *function;
    struct grid_size grid, block;
    unsigned shared_bytes;
    void **args, **extra;
};
struct node_params { /* cudaGraphNodeParams: a tag, then the parameters of that kind of node */
    int type, reserved0[3];
    union {
        long long reserved1[29];
        struct {
            struct kernel_node params; /* cudaKernelNodeParamsV2 begins with cudaKernelNodeParams */
            CUcontext context;         /* 13 only, as what follows */
            int function_type;
        } kernel;
        struct {
            int flags, reserved[3]; /* since 13 the last two are a context */
            struct memcpy3d copy;
        } memcpy;
        struct {
            struct memset_node params; /* cudaMemsetParamsV2 begins with cudaMemsetParams */
            CUcontext context;         /* 13 only */
        } memset;
        struct {
            struct host_node params;
            unsigned sync_mode; /* 13 only, as what follows */
            CUcontext context;
        } host;
        struct {
            unsigned long long handle;
            int type;
            unsigned size;
            CUgraph *graphs;
            CUcontext context; /* 13 only */
        } conditional;
    };
    long long reserved2;
};
struct function_attributes { /* cudaFuncAttributes; 13 gives names to some of what 12 reserves */
    size_t shared_bytes, const_bytes, local_bytes;
    int max_threads_per_block, registers, ptx_version, binary_version, cache_mode_ca,
        max_dynamic_shared_bytes, shared_carveout, cluster_must_be_set, cluster_width,
        cluster_height, cluster_depth, cluster_scheduling_policy, non_portable_cluster_allowed;
    int reserved[16];
};
struct pointer_attributes { /* cudaPointerAttributes */
    int type, device;
    void *device_pointer, *host_pointer;
#if CUDART_MAJOR >= 13
    int locality_domain;
    long reserved[7];
#endif
};

/* cudaDeviceProp, with NVIDIA's names of its fields: device_properties.h lists their sources. */
struct device_properties {
    char name[256];
    struct uuid uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
#if CUDART_MAJOR == 12
    int clockRate;
#endif
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
#if CUDART_MAJOR == 12
    int deviceOverlap;
#endif
    int multiProcessorCount;
#if CUDART_MAJOR == 12
    int kernelExecTimeoutEnabled;
#endif
    int integrated, canMapHostMemory;
#if CUDART_MAJOR == 12
    int computeMode;
#endif
    int maxTexture1D, maxTexture1DMipmap;
#if CUDART_MAJOR == 12
    int maxTexture1DLinear;
#endif
    int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2],
        maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2],
        maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2],
        maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver,
        asyncEngineCount, unifiedAddressing;
#if CUDART_MAJOR == 12
    int memoryClockRate;
#endif
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor,
        streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID,
        hostNativeAtomicSupported;
#if CUDART_MAJOR == 12
    int singleToDoublePrecisionPerfRatio;
#endif
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported,
        canUseHostPointerForRegisteredMem, cooperativeLaunch;
#if CUDART_MAJOR == 12
    int cooperativeMultiDeviceLaunch;
#endif
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost,
        maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported,
        timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch,
        unifiedFunctionPointers;
#if CUDART_MAJOR == 12
    int reserved[63];
#else
    int deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;
    unsigned gpuPciDeviceID, gpuPciSubsystemID;
    int hostNumaMultinodeIpcSupported;
    int reserved[56];
#endif
};

/* Structures of the driver. Device addresses are declared as pointers: the same 64 bits as
 * CUdeviceptr. */
struct driver_memcpy2d { /* CUDA_MEMCPY2D_v2 */
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    void *src_device, *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    int dst_type;
    void *dst_host, *dst_device, *dst_array;
    size_t dst_pitch;
    size_t width, height;
};
struct driver_memcpy3d { /* CUDA_MEMCPY3D_v2; CUDA_MEMCPY3D_PEER_v1 has contexts in the reserved
                            fields */
    size_t src_x, src_y, src_z, src_lod;
    int src_type;
    const void *src_host;
    void *src_device, *src_array;
    CUcontext src_context;
    size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host, *dst_device, *dst_array;
    CUcontext dst_context;
    size_t dst_pitch, dst_height;
    size_t width, height, depth;
};
struct driver_launch_config { /* CUlaunchConfig */
    struct grid_size grid, block;
    unsigned shared_bytes;
    CUstream stream;
    void *attributes;
    unsigned attribute_count;
};
struct driver_kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2 and _v3 */
    CUfunction function;
    struct grid_size grid, block;
    unsigned shared_bytes;
    void **args, **extra;
    CUkernel kernel;
    CUcontext context;
};
struct driver_node_params { /* CUgraphNodeParams */
    int type, reserved0[3];
    union {
        long long reserved1[29];
        struct driver_kernel_node kernel;
        struct {
            int flags, reserved;
            CUcontext context;
            struct driver_memcpy3d copy;
        } memcpy;
        struct {
            struct memset_node params;
            CUcontext context;
        } memset;
        struct {
            unsigned long long handle;
            int type;
            unsigned size;
            CUgraph *graphs;
            CUcontext context;
        } conditional;
    };
    long long reserved2;
};

#endif
