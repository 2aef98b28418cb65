import os
import shutil

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir

required_conan_version = ">=2.0"


class LibcaiConan(ConanFile):
    name = "libcai"
    description = "The C side of the CUDA Array Interface: describe, validate, order, keep alive and convert GPU arrays"
    license = "MIT OR Apache-2.0"
    topics = ("cuda", "gpu", "array", "dlpack", "interoperability")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}

    def configure(self):
        # The interface is C, whatever compiles it.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def layout(self):
        cmake_layout(self, src_folder="src")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"{self.ref}: the CMake rules are for ELF systems")

    def validate_build(self):
        # Conan has no recipe of Rust.
        if not shutil.which("cargo"):
            raise ConanInvalidConfiguration(f"{self.ref} is written in Rust: install Rust 1.85 or newer")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["CAI_BUILD_SHARED"] = bool(self.options.shared)
        toolchain.cache_variables["CAI_BUILD_STATIC"] = not self.options.shared
        toolchain.cache_variables["CAI_BUILD_EXAMPLES"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE-*", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan writes these for its consumers.
        for folder in (("lib", "cmake"), ("lib", "pkgconfig"), ("share",)):
            rmdir(self, os.path.join(self.package_folder, *folder))

    def package_info(self):
        self.cpp_info.libs = ["cai"]
        self.cpp_info.set_property("cmake_file_name", "cai")
        self.cpp_info.set_property("cmake_target_name", "cai::cai")
        self.cpp_info.set_property("pkg_config_name", "cai")
        # A plug-in must stay mapped after dlclose(): its `destroy` functions may still be called.
        flags = ["-Wl,-z,nodelete"]
        if not self.options.shared:
            self.cpp_info.defines = ["CAI_STATIC"]
            self.cpp_info.set_property("cmake_target_aliases", ["cai::cai_static"])
            self.cpp_info.system_libs = ["gcc_s", "util", "rt", "pthread", "m", "dl"]
            # It would export all of the library and of Rust's standard library, used or not.
            flags += ["-Wl,--exclude-libs,libcai.a", "-Wl,--gc-sections"]
        self.cpp_info.sharedlinkflags = flags
        self.cpp_info.exelinkflags = flags
