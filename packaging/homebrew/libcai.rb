# The archive has all crates, so cargo downloads nothing.
class Libcai < Formula
  desc "C side of the CUDA Array Interface"
  homepage "@URL@"
  url "@URL@/libcai-@VERSION@.tar.xz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "cmake" => :build
  depends_on "rust" => :build

  def install
    if OS.linux?
      system "cmake", "-S", ".", "-B", "build", "-DCAI_BUILD_EXAMPLES=OFF", *std_cmake_args
      system "cmake", "--build", "build"
      system "cmake", "--install", "build"
    else
      # The CMake rules are for ELF systems: cargo links the library. NOT RUN YET on macOS.
      system "cargo", "rustc", "--release", "--locked", "--lib", "--crate-type", "cdylib"
      lib.install "target/release/libcai.dylib" => "libcai.1.dylib"
      lib.install_symlink "libcai.1.dylib" => "libcai.dylib"
      include.install "include/cai"
    end
  end

  test do
    (testpath/"test.c").write <<~C
      #include <cai/cai.h>
      int main(void) {
        return cai_abi_version() >> 16 != CAI_ABI_MAJOR;
      }
    C
    system ENV.cc, "test.c", "-I#{include}", "-L#{lib}", "-lcai", "-Wl,-rpath,#{lib}", "-o", "test"
    system "./test"
  end
end
