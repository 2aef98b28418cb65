/*
 * function_attributes.h: the fields of cudaFuncAttributes that are attributes of the driver:
 * ATTRIBUTE(field, number of the attribute, NVIDIA's field, name after CU_FUNC_ATTRIBUTE_).
 */
ATTRIBUTE(shared_bytes, 1, sharedSizeBytes, SHARED_SIZE_BYTES)
ATTRIBUTE(const_bytes, 2, constSizeBytes, CONST_SIZE_BYTES)
ATTRIBUTE(local_bytes, 3, localSizeBytes, LOCAL_SIZE_BYTES)
ATTRIBUTE(max_threads_per_block, 0, maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)
ATTRIBUTE(registers, 4, numRegs, NUM_REGS)
ATTRIBUTE(ptx_version, 5, ptxVersion, PTX_VERSION)
ATTRIBUTE(binary_version, 6, binaryVersion, BINARY_VERSION)
ATTRIBUTE(cache_mode_ca, 7, cacheModeCA, CACHE_MODE_CA)
ATTRIBUTE(max_dynamic_shared_bytes, 8, maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES)
ATTRIBUTE(shared_carveout, 9, preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT)
ATTRIBUTE(cluster_must_be_set, 10, clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET)
ATTRIBUTE(cluster_width, 11, requiredClusterWidth, REQUIRED_CLUSTER_WIDTH)
ATTRIBUTE(cluster_height, 12, requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT)
ATTRIBUTE(cluster_depth, 13, requiredClusterDepth, REQUIRED_CLUSTER_DEPTH)
ATTRIBUTE(cluster_scheduling_policy, 15, clusterSchedulingPolicyPreference,
          CLUSTER_SCHEDULING_POLICY_PREFERENCE)
ATTRIBUTE(non_portable_cluster_allowed, 14, nonPortableClusterSizeAllowed,
          NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
