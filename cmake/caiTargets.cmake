# The imported targets of libcai, for every way of using it. Expects CAI_INCLUDE_DIR, CAI_LIB_DIR,
# CAI_SHARED_NAME, CAI_ABI_MAJOR, CAI_NATIVE_LIBS, CAI_HAS_SHARED and CAI_HAS_STATIC.

if(CAI_HAS_STATIC AND NOT TARGET cai::cai_static)
  add_library(cai::cai_static STATIC IMPORTED)
  # An extension that bundles the library
  # - would, without --exclude-libs, export all of it and of Rust's standard library;
  # - need not carry what it does not use (--gc-sections);
  # - must stay mapped, as the shared library does: owners outlive dlclose().
  # Build systems that read this package, such as Meson, know no LINKER: prefix.
  set_target_properties(cai::cai_static PROPERTIES
    IMPORTED_LOCATION "${CAI_LIB_DIR}/libcai.a"
    INTERFACE_INCLUDE_DIRECTORIES "${CAI_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS CAI_STATIC
    INTERFACE_LINK_LIBRARIES "${CAI_NATIVE_LIBS}"
    INTERFACE_LINK_OPTIONS "-Wl,--exclude-libs,libcai.a;-Wl,--gc-sections;-Wl,-z,nodelete")
endif()

if(NOT TARGET cai::cai)
  if(CAI_HAS_SHARED)
    add_library(cai::cai SHARED IMPORTED)
    # Plug-ins with owners of their own must stay mapped too: `destroy` may be called after dlclose().
    set_target_properties(cai::cai PROPERTIES
      IMPORTED_LOCATION "${CAI_LIB_DIR}/${CAI_SHARED_NAME}"
      IMPORTED_SONAME "libcai.so.${CAI_ABI_MAJOR}"
      INTERFACE_INCLUDE_DIRECTORIES "${CAI_INCLUDE_DIR}"
      INTERFACE_LINK_OPTIONS "-Wl,-z,nodelete")
  else()
    add_library(cai::cai INTERFACE IMPORTED)
    set_target_properties(cai::cai PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${CAI_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES cai::cai_static)
  endif()
endif()
