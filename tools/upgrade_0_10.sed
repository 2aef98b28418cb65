# Renames what moved between 0.9 and 0.10: sed -i -E -f upgrade_0_10.sed FILE...
# Then do what CHANGELOG.md leaves to you ("by hand"): headers, `options.dlpack_stream`, the version that you require.
s#\bcai/(arrow|copy|ipc|json)\.h\b#cai/unstable/\1.h#g
s#\bcai_(array_to_arrow|array_from_arrow|array_copy_to_host|array_copy_from_host|ipc_export|ipc_import|array_to_json|array_release_in_order|array_identify|python_view|stream_from_python|python_publish|exchange_api)\b#cai_unstable_\1#g
s#\bCAI_(IPC_SIZE|IPC_FIELDS|CAPTURE_EXTERNAL)\b#CAI_UNSTABLE_\1#g
s#\bCAI_PROTOCOL_BUFFER\b#CAI_PROTOCOL_OPENCL_BUFFER#g
s#\bCAI_IMPORT_BUFFER_OPENCL\b#CAI_IMPORT_OPENCL_BUFFER_CL_MEM#g
s#\bCAI_IMPORT_BUFFER_CUDA\b#CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS#g
# Pointer first, then its size. Only what is a number for certain is moved, so that a second run changes nothing.
s#\bcai_array_strides\(([^,()]+), *([0-9]+|CAI_MAX_NDIM|[A-Za-z0-9_.>-]*ndim), *([^,()]+),#cai_array_strides(\1, \3, \2,#g
s#\bcai_layout_strides\(([^,()]+), *([0-9]+|CAI_MAX_NDIM|[A-Za-z0-9_.>-]*ndim), *([^,()]+),#cai_layout_strides(\1, \3, \2,#g
# Flags, in calls on one line without other calls in them.
s#\bcai_(array_from_dlpack|array_from_dlpack_unversioned)\(([^,()]+), *([^,()]+), *([^,()]+), *([^,()]+)\)#cai_\1(\2, \3, 0, \4, \5)#g
