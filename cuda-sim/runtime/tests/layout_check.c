/*
 * layout_check.c: compares types.h and the tables of this library with NVIDIA's headers.
 * Compiles where every size, offset and number is the same; there is nothing to run.
 */

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "types.h"

#include <stddef.h>

_Static_assert(CUDART_VERSION / 1000 == CUDART_MAJOR, "these headers are of another major version");

#define SAME(own, nvidia) _Static_assert((int)(own) == (int)(nvidia), #own " is not " #nvidia);
#define SIZE(own, nvidia) \
    _Static_assert(sizeof(own) == sizeof(nvidia), #own " has another size than " #nvidia);
#define FIELD(own, field, nvidia, nvidia_field)                                      \
    _Static_assert(offsetof(own, field) == offsetof(nvidia, nvidia_field),           \
                   #own "." #field " is elsewhere");                                 \
    _Static_assert(sizeof(((own *)0)->field) == sizeof(((nvidia *)0)->nvidia_field), \
                   #own "." #field " has another size");

/* Numbers. */
#define NUMBER(own, value, nvidia) SAME(own, nvidia)
#include "numbers.h"
#undef NUMBER

#if CUDART_MAJOR == 13 /* the table holds the newer list, a superset */
#define ERROR(name, number, description) SAME(number, name)
#include "errors.h"
#undef ERROR
#endif

#define PROPERTY(field, number, attribute) SAME(number, cudaDevAttr##attribute)
#include "device_properties.h"
#undef PROPERTY

SAME(DEVICE_MAP_HOST, cudaDeviceMapHost)
SAME(DEVICE_SCHEDULE_FLAGS,
     cudaDeviceScheduleMask | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops)
SAME(INIT_DEVICE_FLAGS_VALID, cudaInitDeviceFlagsAreValid)
_Static_assert(CUDART_VERSION <= RUNTIME_VERSION,
               "these headers are newer than the version that the library reports");

/* Numbers that pass through: the same in both of NVIDIA's headers. */
#define PASSES(runtime, driver) SAME(runtime, driver)
PASSES(cudaGraphNodeTypeKernel, CU_GRAPH_NODE_TYPE_KERNEL)
PASSES(cudaGraphNodeTypeMemcpy, CU_GRAPH_NODE_TYPE_MEMCPY)
PASSES(cudaGraphNodeTypeMemset, CU_GRAPH_NODE_TYPE_MEMSET)
PASSES(cudaGraphNodeTypeHost, CU_GRAPH_NODE_TYPE_HOST)
PASSES(cudaGraphNodeTypeGraph, CU_GRAPH_NODE_TYPE_GRAPH)
PASSES(cudaGraphNodeTypeEmpty, CU_GRAPH_NODE_TYPE_EMPTY)
PASSES(cudaGraphNodeTypeWaitEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT)
PASSES(cudaGraphNodeTypeEventRecord, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
PASSES(cudaGraphNodeTypeMemAlloc, CU_GRAPH_NODE_TYPE_MEM_ALLOC)
PASSES(cudaGraphNodeTypeMemFree, CU_GRAPH_NODE_TYPE_MEM_FREE)
PASSES(cudaGraphNodeTypeConditional, CU_GRAPH_NODE_TYPE_CONDITIONAL)
PASSES(cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING)
PASSES(cudaEventBlockingSync, CU_EVENT_BLOCKING_SYNC)
PASSES(cudaEventDisableTiming, CU_EVENT_DISABLE_TIMING)
PASSES(cudaEventInterprocess, CU_EVENT_INTERPROCESS)
PASSES(cudaEventRecordExternal, CU_EVENT_RECORD_EXTERNAL)
PASSES(cudaEventWaitExternal, CU_EVENT_WAIT_EXTERNAL)
PASSES(cudaStreamCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL)
PASSES(cudaStreamCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
PASSES(cudaStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED)
PASSES(cudaStreamCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE)
PASSES(cudaStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED)
PASSES(cudaStreamSetCaptureDependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES)
PASSES(cudaHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE)
PASSES(cudaHostAllocMapped, CU_MEMHOSTALLOC_DEVICEMAP)
PASSES(cudaHostAllocWriteCombined, CU_MEMHOSTALLOC_WRITECOMBINED)
PASSES(cudaHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE)
PASSES(cudaHostRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP)
PASSES(cudaHostRegisterIoMemory, CU_MEMHOSTREGISTER_IOMEMORY)
PASSES(cudaHostRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY)
PASSES(cudaMemAttachGlobal, CU_MEM_ATTACH_GLOBAL)
PASSES(cudaMemAttachHost, CU_MEM_ATTACH_HOST)
PASSES(cudaMemAttachSingle, CU_MEM_ATTACH_SINGLE)
PASSES(cudaCpuDeviceId, CU_DEVICE_CPU)
PASSES(cudaIpcMemLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
PASSES(cudaLimitStackSize, CU_LIMIT_STACK_SIZE)
PASSES(cudaLimitPersistingL2CacheSize, CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
PASSES(cudaDevP2PAttrPerformanceRank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
PASSES(cudaDevP2PAttrCudaArrayAccessSupported, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
PASSES(cudaMemPoolReuseFollowEventDependencies, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES)
PASSES(cudaMemPoolAttrReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
PASSES(cudaMemPoolAttrUsedMemHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH)
PASSES(cudaMemAccessFlagsProtReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
PASSES(cudaMemAllocationTypePinned, CU_MEM_ALLOCATION_TYPE_PINNED)
PASSES(cudaMemHandleTypePosixFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
PASSES(cudaMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE)
PASSES(cudaMemLocationTypeHost, CU_MEM_LOCATION_TYPE_HOST)
PASSES(cudaMemLocationTypeHostNuma, CU_MEM_LOCATION_TYPE_HOST_NUMA)
PASSES(cudaMemAdviseSetReadMostly, CU_MEM_ADVISE_SET_READ_MOSTLY)
PASSES(cudaMemAdviseUnsetAccessedBy, CU_MEM_ADVISE_UNSET_ACCESSED_BY)
PASSES(cudaMemRangeAttributeReadMostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)
PASSES(cudaMemRangeAttributeLastPrefetchLocation, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
PASSES(cudaGraphMemAttrUsedMemCurrent, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)
PASSES(cudaGraphMemAttrReservedMemHigh, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
PASSES(cudaGraphInstantiateFlagAutoFreeOnLaunch, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
PASSES(cudaGraphInstantiateFlagUseNodePriority, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
PASSES(cudaGraphInstantiateSuccess, CUDA_GRAPH_INSTANTIATE_SUCCESS)
PASSES(cudaGraphInstantiateError, CUDA_GRAPH_INSTANTIATE_ERROR)
PASSES(cudaGraphExecUpdateSuccess, CU_GRAPH_EXEC_UPDATE_SUCCESS)
PASSES(cudaGraphExecUpdateErrorAttributesChanged, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED)
PASSES(cudaUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
PASSES(cudaGraphUserObjectMove, CU_GRAPH_USER_OBJECT_MOVE)
PASSES(cudaFuncAttributeMaxDynamicSharedMemorySize, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
PASSES(cudaFuncAttributeClusterSchedulingPolicyPreference,
       CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
PASSES(cudaFuncCachePreferEqual, CU_FUNC_CACHE_PREFER_EQUAL)
PASSES(cudaOccupancyDisableCachingOverride, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
PASSES(cudaEnableLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM)
PASSES(cudaEnablePerThreadDefaultStream, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
PASSES(cudaDriverEntryPointSymbolNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
PASSES(cudaDriverEntryPointVersionNotSufficent, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
PASSES(cudaJitMaxRegisters, CU_JIT_MAX_REGISTERS)
PASSES(cudaJitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
PASSES(cudaJitCacheMode, CU_JIT_CACHE_MODE)
PASSES(cudaJitMinCtaPerSm, CU_JIT_MIN_CTA_PER_SM)
PASSES(cudaLibraryBinaryIsPreserved, CU_LIBRARY_BINARY_IS_PRESERVED)
PASSES(cudaLaunchAttributeCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
PASSES(cudaLaunchAttributeClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
PASSES(cudaLaunchAttributeMemSyncDomain, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)

/* Structures that pass through: own, runtime's and driver's are one. */
#define THREE_SIZES(own, runtime, driver) SIZE(own, runtime) SIZE(own, driver)
#define THREE_FIELDS(own, field, runtime, driver, name) \
    FIELD(own, field, runtime, name) FIELD(own, field, driver, name)
SIZE(struct grid_size, dim3)
THREE_SIZES(struct ipc_handle, cudaIpcMemHandle_t, CUipcMemHandle)
THREE_SIZES(struct ipc_handle, cudaIpcEventHandle_t, CUipcEventHandle)
THREE_SIZES(struct uuid, cudaUUID_t, CUuuid)
THREE_SIZES(struct memory_location, struct cudaMemLocation, CUmemLocation)
THREE_FIELDS(struct memory_location, id, struct cudaMemLocation, CUmemLocation, id)
THREE_SIZES(struct pool_properties, struct cudaMemPoolProps, CUmemPoolProps)
THREE_FIELDS(struct pool_properties, location, struct cudaMemPoolProps, CUmemPoolProps, location)
THREE_FIELDS(struct pool_properties, max_size, struct cudaMemPoolProps, CUmemPoolProps, maxSize)
THREE_FIELDS(struct pool_properties, usage, struct cudaMemPoolProps, CUmemPoolProps, usage)
SIZE(struct cudaMemAccessDesc, CUmemAccessDesc)
SIZE(struct cudaMemPoolPtrExportData, CUmemPoolPtrExportData)
SIZE(struct cudaMemcpyAttributes, CUmemcpyAttributes)
SIZE(struct cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS_v1)
SIZE(struct cudaMemAllocNodeParamsV2, CUDA_MEM_ALLOC_NODE_PARAMS_v2)
FIELD(struct cudaMemAllocNodeParamsV2, dptr, CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr)
SIZE(cudaLaunchAttribute, CUlaunchAttribute)
SIZE(cudaLaunchAttributeValue, CUlaunchAttributeValue)
THREE_SIZES(struct graph_edge, cudaGraphEdgeData, CUgraphEdgeData)
THREE_FIELDS(struct graph_edge, from_port, cudaGraphEdgeData, CUgraphEdgeData, from_port)
THREE_FIELDS(struct graph_edge, to_port, cudaGraphEdgeData, CUgraphEdgeData, to_port)
THREE_FIELDS(struct graph_edge, type, cudaGraphEdgeData, CUgraphEdgeData, type)
THREE_SIZES(struct instantiate_params, cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS)
FIELD(struct instantiate_params, upload_stream, cudaGraphInstantiateParams, uploadStream)
FIELD(struct instantiate_params, upload_stream, CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream)
FIELD(struct instantiate_params, error_node, cudaGraphInstantiateParams, errNode_out)
FIELD(struct instantiate_params, error_node, CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out)
THREE_FIELDS(struct instantiate_params, result, cudaGraphInstantiateParams,
             CUDA_GRAPH_INSTANTIATE_PARAMS, result_out)
THREE_SIZES(struct update_result, cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo)
THREE_FIELDS(struct update_result, error_node, cudaGraphExecUpdateResultInfo,
             CUgraphExecUpdateResultInfo, errorNode)
THREE_FIELDS(struct update_result, error_from_node, cudaGraphExecUpdateResultInfo,
             CUgraphExecUpdateResultInfo, errorFromNode)
THREE_SIZES(struct host_node, struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS_v1)
THREE_FIELDS(struct host_node, data, struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS_v1, userData)
THREE_SIZES(struct memset_node, struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS_v1)
THREE_FIELDS(struct memset_node, pitch, struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS_v1, pitch)
THREE_FIELDS(struct memset_node, value, struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS_v1, value)
THREE_FIELDS(struct memset_node, element_size, struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS_v1,
             elementSize)
THREE_FIELDS(struct memset_node, width, struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS_v1, width)
THREE_FIELDS(struct memset_node, height, struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS_v1,
             height)

/* The runtime's own. */
SIZE(struct pitched_pointer, struct cudaPitchedPtr)
FIELD(struct pitched_pointer, pitch, struct cudaPitchedPtr, pitch)
FIELD(struct pitched_pointer, xsize, struct cudaPitchedPtr, xsize)
FIELD(struct pitched_pointer, ysize, struct cudaPitchedPtr, ysize)
SIZE(struct extent, struct cudaExtent)
FIELD(struct extent, height, struct cudaExtent, height)
FIELD(struct extent, depth, struct cudaExtent, depth)
SIZE(struct position, struct cudaPos)
SIZE(struct memcpy3d, struct cudaMemcpy3DParms)
FIELD(struct memcpy3d, src_array, struct cudaMemcpy3DParms, srcArray)
FIELD(struct memcpy3d, src_position, struct cudaMemcpy3DParms, srcPos)
FIELD(struct memcpy3d, src, struct cudaMemcpy3DParms, srcPtr)
FIELD(struct memcpy3d, dst_array, struct cudaMemcpy3DParms, dstArray)
FIELD(struct memcpy3d, dst_position, struct cudaMemcpy3DParms, dstPos)
FIELD(struct memcpy3d, dst, struct cudaMemcpy3DParms, dstPtr)
FIELD(struct memcpy3d, extent, struct cudaMemcpy3DParms, extent)
FIELD(struct memcpy3d, kind, struct cudaMemcpy3DParms, kind)
SIZE(struct memcpy3d_peer, struct cudaMemcpy3DPeerParms)
FIELD(struct memcpy3d_peer, src, struct cudaMemcpy3DPeerParms, srcPtr)
FIELD(struct memcpy3d_peer, src_device, struct cudaMemcpy3DPeerParms, srcDevice)
FIELD(struct memcpy3d_peer, dst, struct cudaMemcpy3DPeerParms, dstPtr)
FIELD(struct memcpy3d_peer, dst_device, struct cudaMemcpy3DPeerParms, dstDevice)
FIELD(struct memcpy3d_peer, extent, struct cudaMemcpy3DPeerParms, extent)
SIZE(struct launch_config, cudaLaunchConfig_t)
FIELD(struct launch_config, block, cudaLaunchConfig_t, blockDim)
FIELD(struct launch_config, shared_bytes, cudaLaunchConfig_t, dynamicSmemBytes)
FIELD(struct launch_config, stream, cudaLaunchConfig_t, stream)
FIELD(struct launch_config, attributes, cudaLaunchConfig_t, attrs)
FIELD(struct launch_config, attribute_count, cudaLaunchConfig_t, numAttrs)
SIZE(struct kernel_node, struct cudaKernelNodeParams)
FIELD(struct kernel_node, grid, struct cudaKernelNodeParams, gridDim)
FIELD(struct kernel_node, block, struct cudaKernelNodeParams, blockDim)
FIELD(struct kernel_node, shared_bytes, struct cudaKernelNodeParams, sharedMemBytes)
FIELD(struct kernel_node, args, struct cudaKernelNodeParams, kernelParams)
FIELD(struct kernel_node, extra, struct cudaKernelNodeParams, extra)
SIZE(struct node_params, struct cudaGraphNodeParams)
FIELD(struct node_params, reserved1, struct cudaGraphNodeParams, reserved1)
FIELD(struct node_params, reserved2, struct cudaGraphNodeParams, reserved2)
FIELD(struct node_params, kernel.params.function, struct cudaGraphNodeParams, kernel.func)
FIELD(struct node_params, kernel.params.extra, struct cudaGraphNodeParams, kernel.extra)
FIELD(struct node_params, memcpy.flags, struct cudaGraphNodeParams, memcpy.flags)
FIELD(struct node_params, memcpy.copy, struct cudaGraphNodeParams, memcpy.copyParams)
FIELD(struct node_params, memset.params.address, struct cudaGraphNodeParams, memset.dst)
FIELD(struct node_params, memset.params.height, struct cudaGraphNodeParams, memset.height)
FIELD(struct node_params, host.params.run, struct cudaGraphNodeParams, host.fn)
FIELD(struct node_params, host.params.data, struct cudaGraphNodeParams, host.userData)
FIELD(struct node_params, conditional.handle, struct cudaGraphNodeParams, conditional.handle)
FIELD(struct node_params, conditional.type, struct cudaGraphNodeParams, conditional.type)
FIELD(struct node_params, conditional.size, struct cudaGraphNodeParams, conditional.size)
FIELD(struct node_params, conditional.graphs, struct cudaGraphNodeParams, conditional.phGraph_out)
#if CUDART_MAJOR >= 13
SAME(KERNEL_IS_FUNCTION, cudaKernelFunctionTypeFunction)
FIELD(struct node_params, kernel.context, struct cudaGraphNodeParams, kernel.ctx)
FIELD(struct node_params, kernel.function_type, struct cudaGraphNodeParams, kernel.functionType)
FIELD(struct node_params, memset.context, struct cudaGraphNodeParams, memset.ctx)
FIELD(struct node_params, host.sync_mode, struct cudaGraphNodeParams, host.syncMode)
FIELD(struct node_params, host.context, struct cudaGraphNodeParams, host.ctx)
FIELD(struct node_params, conditional.context, struct cudaGraphNodeParams, conditional.ctx)
#endif
/* Nodes whose bytes are copied from the runtime's parameters to the driver's. */
FIELD(struct cudaGraphNodeParams, host.userData, CUgraphNodeParams, host.userData)
FIELD(struct cudaGraphNodeParams, graph.graph, CUgraphNodeParams, graph.graph)
FIELD(struct cudaGraphNodeParams, eventWait.event, CUgraphNodeParams, eventWait.event)
FIELD(struct cudaGraphNodeParams, eventRecord.event, CUgraphNodeParams, eventRecord.event)
FIELD(struct cudaGraphNodeParams, alloc.dptr, CUgraphNodeParams, alloc.dptr)
FIELD(struct cudaGraphNodeParams, free.dptr, CUgraphNodeParams, free.dptr)
SIZE(struct function_attributes, struct cudaFuncAttributes)
#define ATTRIBUTE(field, number, nvidia_field, name) \
    SAME(number, CU_FUNC_ATTRIBUTE_##name)           \
    FIELD(struct function_attributes, field, struct cudaFuncAttributes, nvidia_field)
#include "function_attributes.h"
#undef ATTRIBUTE
SIZE(struct pointer_attributes, struct cudaPointerAttributes)
FIELD(struct pointer_attributes, type, struct cudaPointerAttributes, type)
FIELD(struct pointer_attributes, device, struct cudaPointerAttributes, device)
FIELD(struct pointer_attributes, device_pointer, struct cudaPointerAttributes, devicePointer)
FIELD(struct pointer_attributes, host_pointer, struct cudaPointerAttributes, hostPointer)
#if CUDART_MAJOR >= 13
FIELD(struct pointer_attributes, locality_domain, struct cudaPointerAttributes,
      localityDomainOrdinal)
FIELD(struct pointer_attributes, reserved, struct cudaPointerAttributes, reserved)
#endif

SIZE(struct device_properties, struct cudaDeviceProp)
#define SAME_FIELD(field) FIELD(struct device_properties, field, struct cudaDeviceProp, field)
#define PROPERTY(field, number, attribute) SAME_FIELD(field)
#include "device_properties.h"
#undef PROPERTY
SAME_FIELD(name)
SAME_FIELD(uuid)
SAME_FIELD(luid)
SAME_FIELD(luidDeviceNodeMask)
SAME_FIELD(totalGlobalMem)
SAME_FIELD(reserved)

/* The driver's. */
SIZE(struct driver_memcpy2d, CUDA_MEMCPY2D)
FIELD(struct driver_memcpy2d, src_type, CUDA_MEMCPY2D, srcMemoryType)
FIELD(struct driver_memcpy2d, src_host, CUDA_MEMCPY2D, srcHost)
FIELD(struct driver_memcpy2d, src_device, CUDA_MEMCPY2D, srcDevice)
FIELD(struct driver_memcpy2d, src_pitch, CUDA_MEMCPY2D, srcPitch)
FIELD(struct driver_memcpy2d, dst_type, CUDA_MEMCPY2D, dstMemoryType)
FIELD(struct driver_memcpy2d, dst_host, CUDA_MEMCPY2D, dstHost)
FIELD(struct driver_memcpy2d, dst_device, CUDA_MEMCPY2D, dstDevice)
FIELD(struct driver_memcpy2d, dst_pitch, CUDA_MEMCPY2D, dstPitch)
FIELD(struct driver_memcpy2d, width, CUDA_MEMCPY2D, WidthInBytes)
FIELD(struct driver_memcpy2d, height, CUDA_MEMCPY2D, Height)
#define COPY3D(nvidia)                                             \
    SIZE(struct driver_memcpy3d, nvidia)                           \
    FIELD(struct driver_memcpy3d, src_z, nvidia, srcZ)             \
    FIELD(struct driver_memcpy3d, src_type, nvidia, srcMemoryType) \
    FIELD(struct driver_memcpy3d, src_host, nvidia, srcHost)       \
    FIELD(struct driver_memcpy3d, src_device, nvidia, srcDevice)   \
    FIELD(struct driver_memcpy3d, src_array, nvidia, srcArray)     \
    FIELD(struct driver_memcpy3d, src_pitch, nvidia, srcPitch)     \
    FIELD(struct driver_memcpy3d, src_height, nvidia, srcHeight)   \
    FIELD(struct driver_memcpy3d, dst_z, nvidia, dstZ)             \
    FIELD(struct driver_memcpy3d, dst_type, nvidia, dstMemoryType) \
    FIELD(struct driver_memcpy3d, dst_host, nvidia, dstHost)       \
    FIELD(struct driver_memcpy3d, dst_device, nvidia, dstDevice)   \
    FIELD(struct driver_memcpy3d, dst_pitch, nvidia, dstPitch)     \
    FIELD(struct driver_memcpy3d, dst_height, nvidia, dstHeight)   \
    FIELD(struct driver_memcpy3d, width, nvidia, WidthInBytes)     \
    FIELD(struct driver_memcpy3d, height, nvidia, Height)          \
    FIELD(struct driver_memcpy3d, depth, nvidia, Depth)
COPY3D(CUDA_MEMCPY3D)
COPY3D(CUDA_MEMCPY3D_PEER)
FIELD(struct driver_memcpy3d, src_context, CUDA_MEMCPY3D_PEER, srcContext)
FIELD(struct driver_memcpy3d, dst_context, CUDA_MEMCPY3D_PEER, dstContext)
SIZE(struct driver_launch_config, CUlaunchConfig)
FIELD(struct driver_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes)
FIELD(struct driver_launch_config, stream, CUlaunchConfig, hStream)
FIELD(struct driver_launch_config, attributes, CUlaunchConfig, attrs)
FIELD(struct driver_launch_config, attribute_count, CUlaunchConfig, numAttrs)
#define KERNEL_NODE(nvidia)                                                \
    SIZE(struct driver_kernel_node, nvidia)                                \
    FIELD(struct driver_kernel_node, function, nvidia, func)               \
    FIELD(struct driver_kernel_node, shared_bytes, nvidia, sharedMemBytes) \
    FIELD(struct driver_kernel_node, args, nvidia, kernelParams)           \
    FIELD(struct driver_kernel_node, extra, nvidia, extra)                 \
    FIELD(struct driver_kernel_node, kernel, nvidia, kern)                 \
    FIELD(struct driver_kernel_node, context, nvidia, ctx)
KERNEL_NODE(CUDA_KERNEL_NODE_PARAMS_v2)
KERNEL_NODE(CUDA_KERNEL_NODE_PARAMS_v3)
SIZE(struct driver_node_params, CUgraphNodeParams)
FIELD(struct driver_node_params, reserved1, CUgraphNodeParams, reserved1)
FIELD(struct driver_node_params, reserved2, CUgraphNodeParams, reserved2)
FIELD(struct driver_node_params, kernel, CUgraphNodeParams, kernel)
FIELD(struct driver_node_params, memcpy.context, CUgraphNodeParams, memcpy.copyCtx)
FIELD(struct driver_node_params, memcpy.copy, CUgraphNodeParams, memcpy.copyParams)
FIELD(struct driver_node_params, memset.params.address, CUgraphNodeParams, memset.dst)
FIELD(struct driver_node_params, memset.context, CUgraphNodeParams, memset.ctx)
FIELD(struct driver_node_params, conditional.handle, CUgraphNodeParams, conditional.handle)
FIELD(struct driver_node_params, conditional.graphs, CUgraphNodeParams, conditional.phGraph_out)
FIELD(struct driver_node_params, conditional.context, CUgraphNodeParams, conditional.ctx)
