# The archive has all crates, so cargo downloads nothing. vcpkg has no port of Rust.
find_program(CARGO cargo HINTS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin")
if(NOT CARGO)
    message(FATAL_ERROR "libcai is written in Rust: install Rust 1.85 or newer.")
endif()

vcpkg_download_distfile(archive
    URLS "@URL@/libcai-${VERSION}.tar.xz"
    FILENAME "libcai-${VERSION}.tar.xz"
    SHA512 @SHA512@
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")

# vcpkg states the system, so CMake takes every build for a cross build, which needs cargo's name of the platform.
if(VCPKG_TARGET_ARCHITECTURE STREQUAL "x64")
    set(platform x86_64-unknown-linux-gnu)
elseif(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
    set(platform aarch64-unknown-linux-gnu)
else()
    message(FATAL_ERROR "libcai has not been built for ${VCPKG_TARGET_ARCHITECTURE}")
endif()
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" shared)
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "static" static)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        "-DCAI_CARGO=${CARGO}"
        -DCAI_CARGO_TARGET=${platform}
        -DCAI_BUILD_SHARED=${shared}
        -DCAI_BUILD_STATIC=${static}
        -DCAI_BUILD_EXAMPLES=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME cai CONFIG_PATH lib/cmake/cai)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE
    "${CURRENT_PACKAGES_DIR}/debug/include"
    "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/licenses"
)
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE-MIT" "${SOURCE_PATH}/LICENSE-APACHE"
    "${SOURCE_PATH}/LICENSE-THIRD-PARTY")
