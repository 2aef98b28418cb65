"""Builds the static library: meson_cargo.py CARGO SOURCES TARGET_FOLDER OUTPUT PROFILE"""

import filecmp
import os
import shutil
import subprocess
import sys

cargo, sources, target, output, profile = sys.argv[1:]
target, output = os.path.abspath(target), os.path.abspath(output)
# In the sources: the release archive has .cargo/config.toml there, which names the folder of the crates.
subprocess.run(
    [cargo, "rustc", "--quiet", "--locked", "--lib", "--crate-type", "staticlib", "--profile", profile, "--target-dir", target],
    cwd=sources,
    check=True,
)
built = os.path.join(target, "debug" if profile == "dev" else profile, "libcai.a")
# A library that came out the same is not copied, so that nothing is linked again.
if not os.path.exists(output) or not filecmp.cmp(built, output, shallow=False):
    shutil.copyfile(built, output)
