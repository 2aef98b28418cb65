# The package: what find_package and pkg-config read, and the install rules. Included by ../CMakeLists.txt.
include(CMakePackageConfigHelpers)

# Once for the build tree and once for installation; they differ in two folders.
macro(cai_package folder install_folder include lib)
  set(CAI_PACKAGE_INCLUDE "${include}")
  set(CAI_PACKAGE_LIB "${lib}")
  configure_package_config_file(cmake/caiConfig.cmake.in "${folder}/caiConfig.cmake"
    INSTALL_DESTINATION "${install_folder}" PATH_VARS CAI_PACKAGE_INCLUDE CAI_PACKAGE_LIB ${ARGN})
  configure_file(cmake/caiTargets.cmake "${folder}/caiTargets.cmake" COPYONLY)
  configure_file(cmake/caiConfigVersion.cmake.in "${folder}/caiConfigVersion.cmake" @ONLY)
endmacro()
cai_package("${CMAKE_CURRENT_BINARY_DIR}" "${CMAKE_CURRENT_BINARY_DIR}" "${CAI_INCLUDE_DIR}" "${CAI_LIB_DIR}"
  INSTALL_PREFIX "${CMAKE_CURRENT_BINARY_DIR}")

if(NOT CAI_INSTALL)
  return()
endif()
# `cmake --install --component` takes one of these two; without it, all is installed.
set(runtime COMPONENT cai_runtime)
set(development COMPONENT cai_development)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/cai")
if(CAI_WHEEL)
  set(CAI_SHARED_NAME "libcai.so.${CAI_ABI_MAJOR}")
endif()
cai_package("${CMAKE_CURRENT_BINARY_DIR}/package" "${package}" "${CMAKE_INSTALL_INCLUDEDIR}" "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/package/" DESTINATION "${package}" ${development}
  FILES_MATCHING PATTERN "*.cmake")

# The way from the .pc file's folder back to the prefix, so that a moved package still works.
file(RELATIVE_PATH CAI_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" CAI_PC_TO_PREFIX "${CAI_PC_TO_PREFIX}")
list(TRANSFORM CAI_NATIVE_LIBS PREPEND "-l" OUTPUT_VARIABLE CAI_PC_NATIVE_LIBS)
list(JOIN CAI_PC_NATIVE_LIBS " " CAI_PC_NATIVE_LIBS)
configure_file(cmake/cai.pc.in "${CMAKE_CURRENT_BINARY_DIR}/cai.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cai.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${development})

install(DIRECTORY include/cai contrib/include/cai DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" ${development})
if(CAI_WHEEL)
  # A wheel holds no links. The one file bears the name that programs load; what the linker looks for is a linker
  # script that names it, as /usr/lib/libc.so is. (A copy would be a second library in the process; without any
  # libcai.so, -lcai would take the static one.) The licences go where wheels have them.
  if(CAI_BUILD_SHARED)
    install(PROGRAMS "${CAI_SHARED_FILE}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" RENAME "${CAI_SHARED_NAME}" ${runtime})
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/package/libcai.so" "INPUT(${CAI_SHARED_NAME})\n")
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/libcai.so" DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${development})
  endif()
else()
  install(FILES LICENSE-MIT LICENSE-APACHE LICENSE-THIRD-PARTY DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/cai" ${runtime})
  if(CAI_BUILD_SHARED)
    list(GET CAI_SHARED_LINKS 0 loaded)
    list(GET CAI_SHARED_LINKS 1 linked)
    install(PROGRAMS "${CAI_SHARED_FILE}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${runtime})
    install(FILES "${loaded}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${runtime})
    install(FILES "${linked}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${development})
  endif()
endif()
if(CAI_BUILD_STATIC)
  install(FILES "${CAI_STATIC_FILE}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${development})
endif()
