/*
 * driver_functions.h: the functions of libcuda.so.1 that the runtime calls: DRIVER_FUNCTION(name,
 * parameters). Names are those of the library's symbols, so with the suffix of the version that has
 * these parameters. Functions without a _ptsz suffix are always given an explicit stream handle.
 */
DRIVER_FUNCTION(cuInit, (unsigned flags))
DRIVER_FUNCTION(cuDriverGetVersion, (int *version))
DRIVER_FUNCTION(cuGetProcAddress_v2, (const char *symbol, void **function, int version,
                                      unsigned long long flags, int *status))

DRIVER_FUNCTION(cuDeviceGet, (CUdevice * device, int ordinal))
DRIVER_FUNCTION(cuDeviceGetCount, (int *count))
DRIVER_FUNCTION(cuDeviceGetName, (char *name, int length, CUdevice device))
DRIVER_FUNCTION(cuDeviceGetUuid_v2, (struct uuid * uuid, CUdevice device))
DRIVER_FUNCTION(cuDeviceGetLuid, (char *luid, unsigned *node_mask, CUdevice device))
DRIVER_FUNCTION(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))
DRIVER_FUNCTION(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))
DRIVER_FUNCTION(cuDeviceGetByPCIBusId, (CUdevice * device, const char *id))
DRIVER_FUNCTION(cuDeviceGetPCIBusId, (char *id, int length, CUdevice device))
DRIVER_FUNCTION(cuDeviceGetP2PAttribute, (int *value, int attribute, CUdevice src, CUdevice dst))
DRIVER_FUNCTION(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))
DRIVER_FUNCTION(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device))
DRIVER_FUNCTION(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device))
DRIVER_FUNCTION(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool))
DRIVER_FUNCTION(cuDeviceGraphMemTrim, (CUdevice device))
DRIVER_FUNCTION(cuDeviceGetGraphMemAttribute, (CUdevice device, int attribute, void *value))
DRIVER_FUNCTION(cuDeviceSetGraphMemAttribute, (CUdevice device, int attribute, void *value))
DRIVER_FUNCTION(cuFlushGPUDirectRDMAWrites, (int target, int scope))
DRIVER_FUNCTION(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))
DRIVER_FUNCTION(cuDevicePrimaryCtxRelease_v2, (CUdevice device))
DRIVER_FUNCTION(cuDevicePrimaryCtxReset_v2, (CUdevice device))
DRIVER_FUNCTION(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags))
DRIVER_FUNCTION(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))

DRIVER_FUNCTION(cuCtxGetCurrent, (CUcontext * context))
DRIVER_FUNCTION(cuCtxSetCurrent, (CUcontext context))
DRIVER_FUNCTION(cuCtxPushCurrent_v2, (CUcontext context))
DRIVER_FUNCTION(cuCtxPopCurrent_v2, (CUcontext * context))
DRIVER_FUNCTION(cuCtxGetDevice, (CUdevice * device))
DRIVER_FUNCTION(cuCtxSynchronize, (void))
DRIVER_FUNCTION(cuCtxGetLimit, (size_t *value, int limit))
DRIVER_FUNCTION(cuCtxSetLimit, (int limit, size_t value))
DRIVER_FUNCTION(cuCtxGetCacheConfig, (int *config))
DRIVER_FUNCTION(cuCtxSetCacheConfig, (int config))
DRIVER_FUNCTION(cuCtxGetStreamPriorityRange, (int *least, int *greatest))
DRIVER_FUNCTION(cuCtxResetPersistingL2Cache, (void))
DRIVER_FUNCTION(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))
DRIVER_FUNCTION(cuCtxDisablePeerAccess, (CUcontext peer))

DRIVER_FUNCTION(cuMemAlloc_v2, (void **address, size_t size))
DRIVER_FUNCTION(cuMemAllocPitch_v2,
                (void **address, size_t *pitch, size_t width, size_t height, unsigned element_size))
DRIVER_FUNCTION(cuMemAllocManaged, (void **address, size_t size, unsigned flags))
DRIVER_FUNCTION(cuMemFree_v2, (void *address))
DRIVER_FUNCTION(cuMemHostAlloc, (void **address, size_t size, unsigned flags))
DRIVER_FUNCTION(cuMemAllocHost_v2, (void **address, size_t size))
DRIVER_FUNCTION(cuMemFreeHost, (void *address))
DRIVER_FUNCTION(cuMemHostRegister_v2, (void *address, size_t size, unsigned flags))
DRIVER_FUNCTION(cuMemHostUnregister, (void *address))
DRIVER_FUNCTION(cuMemHostGetDevicePointer_v2, (void **device, void *host, unsigned flags))
DRIVER_FUNCTION(cuMemHostGetFlags, (unsigned *flags, void *address))
DRIVER_FUNCTION(cuMemGetInfo_v2, (size_t *free, size_t *total))
DRIVER_FUNCTION(cuPointerGetAttributes,
                (unsigned count, const int *attributes, void **values, const void *address))
DRIVER_FUNCTION(cuMemAdvise, (const void *address, size_t size, int advice, CUdevice device))
DRIVER_FUNCTION(cuMemAdvise_v2,
                (const void *address, size_t size, int advice, struct memory_location location))
DRIVER_FUNCTION(cuMemPrefetchAsync,
                (const void *address, size_t size, CUdevice device, CUstream stream))
DRIVER_FUNCTION(cuMemPrefetchAsync_v2,
                (const void *address, size_t size, struct memory_location location, unsigned flags,
                 CUstream stream))
DRIVER_FUNCTION(cuMemPrefetchBatchAsync,
                (void **addresses, size_t *sizes, size_t count, struct memory_location *locations,
                 size_t *location_indices, size_t location_count, unsigned long long flags,
                 CUstream stream))
DRIVER_FUNCTION(cuMemDiscardBatchAsync, (void **addresses, size_t *sizes, size_t count,
                                         unsigned long long flags, CUstream stream))
DRIVER_FUNCTION(cuMemDiscardAndPrefetchBatchAsync,
                (void **addresses, size_t *sizes, size_t count, struct memory_location *locations,
                 size_t *location_indices, size_t location_count, unsigned long long flags,
                 CUstream stream))
DRIVER_FUNCTION(cuMemRangeGetAttribute,
                (void *data, size_t data_size, int attribute, const void *address, size_t size))
DRIVER_FUNCTION(cuMemRangeGetAttributes, (void **data, size_t *data_sizes, int *attributes,
                                          size_t attribute_count, const void *address, size_t size))

DRIVER_FUNCTION(cuMemAllocAsync, (void **address, size_t size, CUstream stream))
DRIVER_FUNCTION(cuMemFreeAsync, (void *address, CUstream stream))
DRIVER_FUNCTION(cuMemAllocFromPoolAsync,
                (void **address, size_t size, CUmemoryPool pool, CUstream stream))
DRIVER_FUNCTION(cuMemPoolCreate, (CUmemoryPool * pool, const struct pool_properties *properties))
DRIVER_FUNCTION(cuMemPoolDestroy, (CUmemoryPool pool))
DRIVER_FUNCTION(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep))
DRIVER_FUNCTION(cuMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void *value))
DRIVER_FUNCTION(cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value))
DRIVER_FUNCTION(cuMemPoolGetAccess,
                (int *flags, CUmemoryPool pool, struct memory_location *location))
DRIVER_FUNCTION(cuMemPoolSetAccess, (CUmemoryPool pool, const void *descriptions, size_t count))
DRIVER_FUNCTION(cuMemPoolExportToShareableHandle,
                (void *handle, CUmemoryPool pool, int type, unsigned long long flags))
DRIVER_FUNCTION(cuMemPoolImportFromShareableHandle,
                (CUmemoryPool * pool, void *handle, int type, unsigned long long flags))
DRIVER_FUNCTION(cuMemPoolExportPointer, (void *data, void *address))
DRIVER_FUNCTION(cuMemPoolImportPointer, (void **address, CUmemoryPool pool, void *data))
DRIVER_FUNCTION(cuMemGetDefaultMemPool,
                (CUmemoryPool * pool, struct memory_location *location, int type))
DRIVER_FUNCTION(cuMemGetMemPool, (CUmemoryPool * pool, struct memory_location *location, int type))
DRIVER_FUNCTION(cuMemSetMemPool, (struct memory_location * location, int type, CUmemoryPool pool))

DRIVER_FUNCTION(cuMemcpy, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpy_ptds, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpyHtoD_v2, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpyHtoD_v2_ptds, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpyDtoH_v2, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpyDtoH_v2_ptds, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpyDtoD_v2, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpyDtoD_v2_ptds, (void *dst, const void *src, size_t size))
DRIVER_FUNCTION(cuMemcpyAsync, (void *dst, const void *src, size_t size, CUstream stream))
DRIVER_FUNCTION(cuMemcpyHtoDAsync_v2, (void *dst, const void *src, size_t size, CUstream stream))
DRIVER_FUNCTION(cuMemcpyDtoHAsync_v2, (void *dst, const void *src, size_t size, CUstream stream))
DRIVER_FUNCTION(cuMemcpyDtoDAsync_v2, (void *dst, const void *src, size_t size, CUstream stream))
DRIVER_FUNCTION(cuMemcpyPeer, (void *dst, CUcontext dst_context, const void *src,
                               CUcontext src_context, size_t size))
DRIVER_FUNCTION(cuMemcpyPeerAsync, (void *dst, CUcontext dst_context, const void *src,
                                    CUcontext src_context, size_t size, CUstream stream))
DRIVER_FUNCTION(cuMemcpy2D_v2, (const struct driver_memcpy2d *copy))
DRIVER_FUNCTION(cuMemcpy2D_v2_ptds, (const struct driver_memcpy2d *copy))
DRIVER_FUNCTION(cuMemcpy2DAsync_v2, (const struct driver_memcpy2d *copy, CUstream stream))
DRIVER_FUNCTION(cuMemcpy3D_v2, (const struct driver_memcpy3d *copy))
DRIVER_FUNCTION(cuMemcpy3D_v2_ptds, (const struct driver_memcpy3d *copy))
DRIVER_FUNCTION(cuMemcpy3DAsync_v2, (const struct driver_memcpy3d *copy, CUstream stream))
DRIVER_FUNCTION(cuMemcpy3DPeer, (const struct driver_memcpy3d *copy))
DRIVER_FUNCTION(cuMemcpy3DPeer_ptds, (const struct driver_memcpy3d *copy))
DRIVER_FUNCTION(cuMemcpy3DPeerAsync, (const struct driver_memcpy3d *copy, CUstream stream))
DRIVER_FUNCTION(cuMemcpyBatchAsync, (void **dsts, void **srcs, size_t *sizes, size_t count,
                                     void *attributes, size_t *attribute_indices,
                                     size_t attribute_count, size_t *failed_index, CUstream stream))
DRIVER_FUNCTION(cuMemcpyBatchAsync_v2,
                (void **dsts, void **srcs, size_t *sizes, size_t count, void *attributes,
                 size_t *attribute_indices, size_t attribute_count, CUstream stream))
DRIVER_FUNCTION(cuMemsetD8_v2, (void *address, unsigned char value, size_t size))
DRIVER_FUNCTION(cuMemsetD8_v2_ptds, (void *address, unsigned char value, size_t size))
DRIVER_FUNCTION(cuMemsetD8Async, (void *address, unsigned char value, size_t size, CUstream stream))
DRIVER_FUNCTION(cuMemsetD2D8_v2,
                (void *address, size_t pitch, unsigned char value, size_t width, size_t height))
DRIVER_FUNCTION(cuMemsetD2D8_v2_ptds,
                (void *address, size_t pitch, unsigned char value, size_t width, size_t height))
DRIVER_FUNCTION(cuMemsetD2D8Async, (void *address, size_t pitch, unsigned char value, size_t width,
                                    size_t height, CUstream stream))

DRIVER_FUNCTION(cuIpcGetMemHandle, (struct ipc_handle * handle, void *address))
DRIVER_FUNCTION(cuIpcOpenMemHandle_v2, (void **address, struct ipc_handle handle, unsigned flags))
DRIVER_FUNCTION(cuIpcCloseMemHandle, (void *address))
DRIVER_FUNCTION(cuIpcGetEventHandle, (struct ipc_handle * handle, CUevent event))
DRIVER_FUNCTION(cuIpcOpenEventHandle, (CUevent * event, struct ipc_handle handle))

DRIVER_FUNCTION(cuStreamCreate, (CUstream * stream, unsigned flags))
DRIVER_FUNCTION(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))
DRIVER_FUNCTION(cuStreamDestroy_v2, (CUstream stream))
DRIVER_FUNCTION(cuStreamGetPriority, (CUstream stream, int *priority))
DRIVER_FUNCTION(cuStreamGetFlags, (CUstream stream, unsigned *flags))
DRIVER_FUNCTION(cuStreamGetId, (CUstream stream, unsigned long long *id))
DRIVER_FUNCTION(cuStreamGetDevice, (CUstream stream, CUdevice *device))
DRIVER_FUNCTION(cuStreamGetCtx, (CUstream stream, CUcontext *context))
DRIVER_FUNCTION(cuStreamGetAttribute, (CUstream stream, int attribute, void *value))
DRIVER_FUNCTION(cuStreamSetAttribute, (CUstream stream, int attribute, const void *value))
DRIVER_FUNCTION(cuStreamCopyAttributes, (CUstream dst, CUstream src))
DRIVER_FUNCTION(cuStreamQuery, (CUstream stream))
DRIVER_FUNCTION(cuStreamSynchronize, (CUstream stream))
DRIVER_FUNCTION(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))
DRIVER_FUNCTION(cuStreamAddCallback,
                (CUstream stream, driver_callback callback, void *data, unsigned flags))
DRIVER_FUNCTION(cuLaunchHostFunc, (CUstream stream, host_function run, void *data))
DRIVER_FUNCTION(cuLaunchHostFunc_v2,
                (CUstream stream, host_function run, void *data, unsigned sync_mode))
DRIVER_FUNCTION(cuStreamAttachMemAsync,
                (CUstream stream, void *address, size_t size, unsigned flags))

DRIVER_FUNCTION(cuStreamBeginCapture_v2, (CUstream stream, int mode))
DRIVER_FUNCTION(cuStreamBeginCaptureToGraph,
                (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                 const struct graph_edge *edges, size_t dependency_count, int mode))
DRIVER_FUNCTION(cuThreadExchangeStreamCaptureMode, (int *mode))
DRIVER_FUNCTION(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
DRIVER_FUNCTION(cuStreamIsCapturing, (CUstream stream, int *status))
DRIVER_FUNCTION(cuStreamGetCaptureInfo_v2,
                (CUstream stream, int *status, unsigned long long *id, CUgraph *graph,
                 const CUgraphNode **dependencies, size_t *dependency_count))
DRIVER_FUNCTION(cuStreamGetCaptureInfo_v3,
                (CUstream stream, int *status, unsigned long long *id, CUgraph *graph,
                 const CUgraphNode **dependencies, const struct graph_edge **edges,
                 size_t *dependency_count))
DRIVER_FUNCTION(cuStreamUpdateCaptureDependencies, (CUstream stream, CUgraphNode *dependencies,
                                                    size_t dependency_count, unsigned flags))
DRIVER_FUNCTION(cuStreamUpdateCaptureDependencies_v2,
                (CUstream stream, CUgraphNode *dependencies, const struct graph_edge *edges,
                 size_t dependency_count, unsigned flags))

DRIVER_FUNCTION(cuEventCreate, (CUevent * event, unsigned flags))
DRIVER_FUNCTION(cuEventDestroy_v2, (CUevent event))
DRIVER_FUNCTION(cuEventQuery, (CUevent event))
DRIVER_FUNCTION(cuEventSynchronize, (CUevent event))
DRIVER_FUNCTION(cuEventRecord, (CUevent event, CUstream stream))
DRIVER_FUNCTION(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags))
DRIVER_FUNCTION(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))
DRIVER_FUNCTION(cuEventElapsedTime_v2, (float *milliseconds, CUevent start, CUevent end))

DRIVER_FUNCTION(cuGraphCreate, (CUgraph * graph, unsigned flags))
DRIVER_FUNCTION(cuGraphDestroy, (CUgraph graph))
DRIVER_FUNCTION(cuGraphClone, (CUgraph * clone, CUgraph original))
DRIVER_FUNCTION(cuGraphDebugDotPrint, (CUgraph graph, const char *path, unsigned flags))
DRIVER_FUNCTION(cuGraphGetId, (CUgraph graph, unsigned *id))
DRIVER_FUNCTION(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count))
DRIVER_FUNCTION(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count))
DRIVER_FUNCTION(cuGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count))
DRIVER_FUNCTION(cuGraphGetEdges_v2, (CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                     struct graph_edge *edges, size_t *count))
DRIVER_FUNCTION(cuGraphAddDependencies,
                (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count))
DRIVER_FUNCTION(cuGraphAddDependencies_v2,
                (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                 const struct graph_edge *edges, size_t count))
DRIVER_FUNCTION(cuGraphRemoveDependencies,
                (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count))
DRIVER_FUNCTION(cuGraphRemoveDependencies_v2,
                (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                 const struct graph_edge *edges, size_t count))
DRIVER_FUNCTION(cuGraphNodeGetDependencies,
                (CUgraphNode node, CUgraphNode *dependencies, size_t *count))
DRIVER_FUNCTION(cuGraphNodeGetDependencies_v2, (CUgraphNode node, CUgraphNode *dependencies,
                                                struct graph_edge *edges, size_t *count))
DRIVER_FUNCTION(cuGraphNodeGetDependentNodes,
                (CUgraphNode node, CUgraphNode *dependents, size_t *count))
DRIVER_FUNCTION(cuGraphNodeGetDependentNodes_v2, (CUgraphNode node, CUgraphNode *dependents,
                                                  struct graph_edge *edges, size_t *count))
DRIVER_FUNCTION(cuGraphNodeGetType, (CUgraphNode node, int *type))
DRIVER_FUNCTION(cuGraphNodeFindInClone, (CUgraphNode * node, CUgraphNode original, CUgraph clone))
DRIVER_FUNCTION(cuGraphNodeGetContainingGraph, (CUgraphNode node, CUgraph *graph))
DRIVER_FUNCTION(cuGraphNodeGetLocalId, (CUgraphNode node, unsigned *id))
DRIVER_FUNCTION(cuGraphNodeGetToolsId, (CUgraphNode node, unsigned long long *id))
DRIVER_FUNCTION(cuGraphDestroyNode, (CUgraphNode node))
DRIVER_FUNCTION(cuGraphAddNode_v2, (CUgraphNode * node, CUgraph graph,
                                    const CUgraphNode *dependencies, const struct graph_edge *edges,
                                    size_t dependency_count, struct driver_node_params *params))
DRIVER_FUNCTION(cuGraphNodeSetParams, (CUgraphNode node, struct driver_node_params *params))
DRIVER_FUNCTION(cuGraphExecNodeSetParams,
                (CUgraphExec exec, CUgraphNode node, struct driver_node_params *params))
DRIVER_FUNCTION(cuGraphAddEmptyNode, (CUgraphNode * node, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t dependency_count))
DRIVER_FUNCTION(cuGraphAddChildGraphNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, CUgraph child))
DRIVER_FUNCTION(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *graph))
DRIVER_FUNCTION(cuGraphAddEventRecordNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, CUevent event))
DRIVER_FUNCTION(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *event))
DRIVER_FUNCTION(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event))
DRIVER_FUNCTION(cuGraphAddEventWaitNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, CUevent event))
DRIVER_FUNCTION(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *event))
DRIVER_FUNCTION(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event))
DRIVER_FUNCTION(cuGraphAddHostNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, const struct host_node *params))
DRIVER_FUNCTION(cuGraphHostNodeGetParams, (CUgraphNode node, struct host_node *params))
DRIVER_FUNCTION(cuGraphHostNodeSetParams, (CUgraphNode node, const struct host_node *params))
DRIVER_FUNCTION(cuGraphAddKernelNode_v2,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, const struct driver_kernel_node *params))
DRIVER_FUNCTION(cuGraphKernelNodeGetParams_v2,
                (CUgraphNode node, struct driver_kernel_node *params))
DRIVER_FUNCTION(cuGraphKernelNodeSetParams_v2,
                (CUgraphNode node, const struct driver_kernel_node *params))
DRIVER_FUNCTION(cuGraphKernelNodeGetAttribute, (CUgraphNode node, int attribute, void *value))
DRIVER_FUNCTION(cuGraphKernelNodeSetAttribute, (CUgraphNode node, int attribute, const void *value))
DRIVER_FUNCTION(cuGraphKernelNodeCopyAttributes, (CUgraphNode dst, CUgraphNode src))
DRIVER_FUNCTION(cuGraphAddMemcpyNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, const struct driver_memcpy3d *params, CUcontext context))
DRIVER_FUNCTION(cuGraphMemcpyNodeSetParams,
                (CUgraphNode node, const struct driver_memcpy3d *params))
DRIVER_FUNCTION(cuGraphAddMemsetNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, const struct memset_node *params, CUcontext context))
DRIVER_FUNCTION(cuGraphMemsetNodeGetParams, (CUgraphNode node, struct memset_node *params))
DRIVER_FUNCTION(cuGraphMemsetNodeSetParams, (CUgraphNode node, const struct memset_node *params))
DRIVER_FUNCTION(cuGraphAddMemAllocNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, void *params))
DRIVER_FUNCTION(cuGraphMemAllocNodeGetParams, (CUgraphNode node, void *params))
DRIVER_FUNCTION(cuGraphAddMemFreeNode,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                 size_t dependency_count, void *address))
DRIVER_FUNCTION(cuGraphMemFreeNodeGetParams, (CUgraphNode node, void *address))
DRIVER_FUNCTION(cuGraphConditionalHandleCreate,
                (unsigned long long *handle, CUgraph graph, CUcontext context,
                 unsigned default_value, unsigned flags))
DRIVER_FUNCTION(cuGraphInstantiateWithFlags,
                (CUgraphExec * exec, CUgraph graph, unsigned long long flags))
DRIVER_FUNCTION(cuGraphInstantiateWithParams,
                (CUgraphExec * exec, CUgraph graph, struct instantiate_params *params))
DRIVER_FUNCTION(cuGraphUpload, (CUgraphExec exec, CUstream stream))
DRIVER_FUNCTION(cuGraphLaunch, (CUgraphExec exec, CUstream stream))
DRIVER_FUNCTION(cuGraphExecDestroy, (CUgraphExec exec))
DRIVER_FUNCTION(cuGraphExecGetFlags, (CUgraphExec exec, unsigned long long *flags))
DRIVER_FUNCTION(cuGraphExecGetId, (CUgraphExec exec, unsigned *id))
DRIVER_FUNCTION(cuGraphExecUpdate_v2,
                (CUgraphExec exec, CUgraph graph, struct update_result *result))
DRIVER_FUNCTION(cuGraphExecKernelNodeSetParams_v2,
                (CUgraphExec exec, CUgraphNode node, const struct driver_kernel_node *params))
DRIVER_FUNCTION(cuGraphExecMemcpyNodeSetParams,
                (CUgraphExec exec, CUgraphNode node, const struct driver_memcpy3d *params,
                 CUcontext context))
DRIVER_FUNCTION(cuGraphExecMemsetNodeSetParams,
                (CUgraphExec exec, CUgraphNode node, const struct memset_node *params,
                 CUcontext context))
DRIVER_FUNCTION(cuGraphExecHostNodeSetParams,
                (CUgraphExec exec, CUgraphNode node, const struct host_node *params))
DRIVER_FUNCTION(cuGraphExecChildGraphNodeSetParams,
                (CUgraphExec exec, CUgraphNode node, CUgraph child))
DRIVER_FUNCTION(cuGraphExecEventRecordNodeSetEvent,
                (CUgraphExec exec, CUgraphNode node, CUevent event))
DRIVER_FUNCTION(cuGraphExecEventWaitNodeSetEvent,
                (CUgraphExec exec, CUgraphNode node, CUevent event))
DRIVER_FUNCTION(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned enabled))
DRIVER_FUNCTION(cuGraphNodeGetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned *enabled))
DRIVER_FUNCTION(cuUserObjectCreate, (CUuserObject * object, void *data, host_function destroy,
                                     unsigned references, unsigned flags))
DRIVER_FUNCTION(cuUserObjectRetain, (CUuserObject object, unsigned count))
DRIVER_FUNCTION(cuUserObjectRelease, (CUuserObject object, unsigned count))
DRIVER_FUNCTION(cuGraphRetainUserObject,
                (CUgraph graph, CUuserObject object, unsigned count, unsigned flags))
DRIVER_FUNCTION(cuGraphReleaseUserObject, (CUgraph graph, CUuserObject object, unsigned count))

DRIVER_FUNCTION(cuModuleLoadData, (CUmodule * module, const void *image))
DRIVER_FUNCTION(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))
DRIVER_FUNCTION(cuModuleGetGlobal_v2,
                (void **address, size_t *size, CUmodule module, const char *name))
DRIVER_FUNCTION(cuLibraryLoadData, (CUlibrary * library, const void *image, int *jit_options,
                                    void **jit_values, unsigned jit_count, int *library_options,
                                    void **library_values, unsigned library_count))
DRIVER_FUNCTION(cuLibraryLoadFromFile, (CUlibrary * library, const char *path, int *jit_options,
                                        void **jit_values, unsigned jit_count, int *library_options,
                                        void **library_values, unsigned library_count))
DRIVER_FUNCTION(cuLibraryUnload, (CUlibrary library))
DRIVER_FUNCTION(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name))
DRIVER_FUNCTION(cuLibraryGetKernelCount, (unsigned *count, CUlibrary library))
DRIVER_FUNCTION(cuLibraryEnumerateKernels, (CUkernel * kernels, unsigned count, CUlibrary library))
DRIVER_FUNCTION(cuLibraryGetGlobal,
                (void **address, size_t *size, CUlibrary library, const char *name))
DRIVER_FUNCTION(cuLibraryGetManaged,
                (void **address, size_t *size, CUlibrary library, const char *name))
DRIVER_FUNCTION(cuLibraryGetUnifiedFunction, (void **function, CUlibrary library, const char *name))
DRIVER_FUNCTION(cuKernelGetFunction, (CUfunction * function, CUkernel kernel))
DRIVER_FUNCTION(cuKernelSetAttribute, (int attribute, int value, CUkernel kernel, CUdevice device))
DRIVER_FUNCTION(cuFuncGetAttribute, (int *value, int attribute, CUfunction function))
DRIVER_FUNCTION(cuFuncSetAttribute, (CUfunction function, int attribute, int value))
DRIVER_FUNCTION(cuFuncSetCacheConfig, (CUfunction function, int config))
DRIVER_FUNCTION(cuFuncGetParamInfo,
                (CUfunction function, size_t index, size_t *offset, size_t *size))
DRIVER_FUNCTION(cuFuncGetParamCount, (CUfunction function, size_t *count))
DRIVER_FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                (int *blocks, CUfunction function, int block_size, size_t shared_bytes,
                 unsigned flags))
DRIVER_FUNCTION(cuOccupancyAvailableDynamicSMemPerBlock,
                (size_t *size, CUfunction function, int blocks, int block_size))
DRIVER_FUNCTION(cuOccupancyMaxPotentialClusterSize,
                (int *size, CUfunction function, const struct driver_launch_config *config))
DRIVER_FUNCTION(cuOccupancyMaxActiveClusters,
                (int *count, CUfunction function, const struct driver_launch_config *config))
DRIVER_FUNCTION(cuLaunchKernel,
                (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                 CUstream stream, void **args, void **extra))
DRIVER_FUNCTION(cuLaunchCooperativeKernel,
                (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                 CUstream stream, void **args))
DRIVER_FUNCTION(cuLaunchKernelEx, (const struct driver_launch_config *config, CUfunction function,
                                   void **args, void **extra))
