"""What the binaries are made of, as CycloneDX 1.5: sbom.py [FOLDER], by default dist.

Writes libcai-VERSION.cdx.json and cuda-sim-VERSION.cdx.json: the crates that are linked on any of the platforms, with
their versions, licences and checksums, and Rust's standard library. `sbom.py --notices libcai` prints name, version and
licence of each, and the notices that a binary must carry: the text of every licence but Apache's, which no notice
accompanies. Needs cargo and nothing else; the bytes depend on the sources and the compiler alone.
"""

import argparse
import functools
import json
import os
import pathlib
import re
import subprocess
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLATFORMS = {
    "libcai": ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-musl",
               "x86_64-pc-windows-gnu"],
    "cuda-sim": ["x86_64-unknown-linux-gnu"],
}  # fmt: skip
PACKAGES = {
    "libcai": ["libcai-c"],
    "cuda-sim": ["cuda-sim", "cudasim-driver", "cudasim-redirect", "cudasim-shadow", "cudasim-threads"],
}
WORKSPACES = {"libcai": ROOT, "cuda-sim": ROOT / "cuda-sim"}
DESCRIPTIONS = {
    "libcai": "The C side of the CUDA Array Interface",
    "cuda-sim": "A CUDA driver without a GPU, and a checker for data races",
}


def output(*command, cwd=ROOT):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


@functools.cache
def metadata(product, platform):
    options = ["--locked", "--format-version", "1", "--filter-platform", platform]
    return json.loads(output("cargo", "metadata", *options, cwd=WORKSPACES[product]))


def linked(product):
    """The packages in the binaries by identifier, and what each links."""
    packages, graph = {}, {}
    for platform in PLATFORMS[product]:
        data = metadata(product, platform)
        by_id = {package["id"]: package for package in data["packages"]}
        nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
        waiting = [identifier for identifier, package in by_id.items() if package["name"] in PACKAGES[product]]
        seen = set()
        while waiting:
            identifier = waiting.pop()
            if identifier in seen:
                continue
            seen.add(identifier)
            packages[identifier] = by_id[identifier]
            for dependency in nodes[identifier]["deps"]:
                other = by_id[dependency["pkg"]]
                normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                # A macro runs in the compiler.
                if normal and not any("proc-macro" in target["kind"] for target in other["targets"]):
                    graph.setdefault(identifier, set()).add(other["id"])
                    waiting.append(other["id"])
    return packages, graph


def checksums(product):
    """From Cargo.lock, by name and version: the SHA-256 of the package as the registry gave it out."""
    blocks = (WORKSPACES[product] / "Cargo.lock").read_text().split("[[package]]")[1:]
    fields = [dict(re.findall(r'^(name|version|checksum) = "(.*)"$', block, re.M)) for block in blocks]
    return {(field["name"], field["version"]): field.get("checksum") for field in fields}


def compiler(product):
    """The version of Rust: that which `make dist` left in the library, or else that of this machine's compiler."""
    built = ROOT / "build/dist/x86_64-linux-gnu/root/lib/libcai.so"
    if product == "libcai" and built.exists():
        return re.search(rb"rustc version ([0-9.]+)", built.read_bytes())[1].decode()
    return re.search(r"^release: (\S+)", output(os.environ.get("RUSTC", "rustc"), "-vV"), re.M)[1]


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def expression(package):
    # An old way to write OR.
    return (package["license"] or "NOASSERTION").replace("/", " OR ")


def component(package, checksum):
    made = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
    if package["description"]:
        made["description"] = " ".join(package["description"].split())
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    made["licenses"] = [{"expression": expression(package)}]
    made["purl"] = reference(package)
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def bom(product, rust):
    packages, graph = linked(product)
    sums = checksums(product)
    version = next(package["version"] for package in packages.values() if package["name"] == PACKAGES[product][0])
    standard = {"type": "library", "bom-ref": f"pkg:generic/rust-std@{rust}", "name": "rust-std", "version": rust,
                "description": "The standard library of Rust", "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "purl": f"pkg:generic/rust-std@{rust}"}  # fmt: skip
    product_reference = f"pkg:generic/{product}@{version}"
    dependencies = {reference(package): sorted({reference(packages[other]) for other in graph.get(identifier, ())})
                    for identifier, package in packages.items()}  # fmt: skip
    roots = [reference(package) for package in packages.values() if package["name"] in PACKAGES[product]]
    dependencies[product_reference] = sorted([*roots, standard["bom-ref"]])
    dependencies[standard["bom-ref"]] = []
    components = [component(package, sums.get((package["name"], package["version"]))) for package in packages.values()]
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(commit_time()))),
            "component": {"type": "library" if product == "libcai" else "application", "bom-ref": product_reference,
                          "name": product, "version": version, "description": DESCRIPTIONS[product],
                          "licenses": [{"expression": "MIT OR Apache-2.0"}], "purl": product_reference},
        },
        "components": sorted([*components, standard], key=lambda one: one["bom-ref"]),
        "dependencies": [{"ref": ref, "dependsOn": others} for ref, others in sorted(dependencies.items())],
    }  # fmt: skip
    name = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{name}", **made}


def commit_time():
    return os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct").strip()


def notices(product, rust):
    """What is linked beside the product's own packages."""
    packages, _ = linked(product)
    foreign = sorted((package for package in packages.values() if package["source"]), key=reference)
    lines = [f"rust-std {rust}: MIT OR Apache-2.0"]
    lines += [f"{package['name']} {package['version']}: {expression(package)}" for package in foreign]
    for package in foreign:
        if "Apache-2.0" in expression(package).split(" OR "):
            continue
        folder = pathlib.Path(package["manifest_path"]).parent
        texts = sorted(path for path in folder.iterdir() if re.match(r"(?i)(licen[cs]e|copying|unlicense)", path.name))
        assert texts, f"{package['name']} has no text of its licence, {expression(package)}"
        for path in texts:
            lines += ["", f"---- {package['name']} {package['version']}, {path.name} ----", "", path.read_text().strip()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default="dist", type=pathlib.Path)
    parser.add_argument("--notices", choices=PACKAGES, help="print what is linked, and write nothing")
    options = parser.parse_args()
    if options.notices:
        print(notices(options.notices, compiler(options.notices)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for product in PACKAGES:
        made = bom(product, compiler(product))
        name = f"{product}-{made['metadata']['component']['version']}.cdx.json"
        (options.folder / name).write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
