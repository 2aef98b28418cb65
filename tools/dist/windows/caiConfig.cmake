# find_package(cai CONFIG) for MinGW: gives cai::cai and cai::cai_static, wherever the package lies.
get_filename_component(CAI_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET cai::cai)
  add_library(cai::cai SHARED IMPORTED)
  set_target_properties(cai::cai PROPERTIES
    IMPORTED_LOCATION "${CAI_PREFIX}/bin/cai.dll"
    IMPORTED_IMPLIB "${CAI_PREFIX}/lib/libcai.dll.a"
    INTERFACE_INCLUDE_DIRECTORIES "${CAI_PREFIX}/include")
endif()
if(NOT TARGET cai::cai_static)
  add_library(cai::cai_static STATIC IMPORTED)
  # What Rust's standard library needs of Windows.
  set_target_properties(cai::cai_static PROPERTIES
    IMPORTED_LOCATION "${CAI_PREFIX}/lib/libcai.a"
    INTERFACE_INCLUDE_DIRECTORIES "${CAI_PREFIX}/include"
    INTERFACE_COMPILE_DEFINITIONS CAI_STATIC
    INTERFACE_LINK_LIBRARIES "ws2_32;userenv;ntdll;bcrypt;kernel32")
endif()
