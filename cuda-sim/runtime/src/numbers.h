/*
 * numbers.h: NUMBER(own name, value, NVIDIA's name), for types.h and tests/layout_check.c. Those of
 * the runtime's enumerations that equal the driver's pass through and need no name.
 */

/* cudaMemcpyKind */
NUMBER(MEMCPY_HOST_TO_HOST, 0, cudaMemcpyHostToHost)
NUMBER(MEMCPY_HOST_TO_DEVICE, 1, cudaMemcpyHostToDevice)
NUMBER(MEMCPY_DEVICE_TO_HOST, 2, cudaMemcpyDeviceToHost)
NUMBER(MEMCPY_DEVICE_TO_DEVICE, 3, cudaMemcpyDeviceToDevice)
NUMBER(MEMCPY_DEFAULT, 4, cudaMemcpyDefault)

/* cudaMemoryType */
NUMBER(TYPE_UNREGISTERED, 0, cudaMemoryTypeUnregistered)
NUMBER(TYPE_HOST, 1, cudaMemoryTypeHost)
NUMBER(TYPE_DEVICE, 2, cudaMemoryTypeDevice)
NUMBER(TYPE_MANAGED, 3, cudaMemoryTypeManaged)

/* CUmemorytype */
NUMBER(DRIVER_TYPE_HOST, 1, CU_MEMORYTYPE_HOST)
NUMBER(DRIVER_TYPE_DEVICE, 2, CU_MEMORYTYPE_DEVICE)
NUMBER(DRIVER_TYPE_UNIFIED, 4, CU_MEMORYTYPE_UNIFIED)

/* CUpointer_attribute */
NUMBER(POINTER_MEMORY_TYPE, 2, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
NUMBER(POINTER_DEVICE_POINTER, 3, CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
NUMBER(POINTER_HOST_POINTER, 4, CU_POINTER_ATTRIBUTE_HOST_POINTER)
NUMBER(POINTER_IS_MANAGED, 8, CU_POINTER_ATTRIBUTE_IS_MANAGED)
NUMBER(POINTER_DEVICE_ORDINAL, 9, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)

/* cudaGraphNodeType and CUgraphNodeType */
NUMBER(NODE_KERNEL, 0, cudaGraphNodeTypeKernel)
NUMBER(NODE_MEMCPY, 1, cudaGraphNodeTypeMemcpy)
NUMBER(NODE_MEMSET, 2, cudaGraphNodeTypeMemset)
NUMBER(NODE_HOST, 3, cudaGraphNodeTypeHost)
NUMBER(NODE_GRAPH, 4, cudaGraphNodeTypeGraph)
NUMBER(NODE_EMPTY, 5, cudaGraphNodeTypeEmpty)
NUMBER(NODE_WAIT_EVENT, 6, cudaGraphNodeTypeWaitEvent)
NUMBER(NODE_EVENT_RECORD, 7, cudaGraphNodeTypeEventRecord)
NUMBER(NODE_MEM_ALLOC, 10, cudaGraphNodeTypeMemAlloc)
NUMBER(NODE_MEM_FREE, 11, cudaGraphNodeTypeMemFree)
NUMBER(NODE_CONDITIONAL, 13, cudaGraphNodeTypeConditional)
