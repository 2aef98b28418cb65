"""Graphs as text in the language DOT."""

import re
import shutil

import pytest

from commands import compile_text, run, sim

WRITES = r"""
static void nothing(const cudasim_grid *grid, void **args) { (void)grid; (void)args; }
static void host(void *data) { (void)data; }
int main(int argc, char **argv) {
    static const cudasim_kernel kernels[] = {{"odd \"name\" \\ of {a} kernel", nothing, NULL, 0, NULL}};
    CUcontext context; CUmodule module; CUfunction f; CUgraph graph, child, empty; CUdeviceptr p; CUevent e; unsigned id;
    (void)argc;
    cudasim_register(kernels, 1);
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, "any image")); OK(cuModuleGetFunction(&f, module, kernels[0].name));
    OK(cuMemAlloc(&p, 64)); OK(cuEventCreate(&e, 2));
    OK(cuGraphCreate(&graph, 0)); OK(cuGraphCreate(&child, 0)); OK(cuGraphCreate(&empty, 0));
    CUgraphNode a, b, c, d;
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = p, .value = 7, .elementSize = 1, .width = 64, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p + 32, .WidthInBytes = 32, .Height = 1, .Depth = 1};
    CUDA_KERNEL_NODE_PARAMS launch = {.func = f, .gridDimX = 3, .gridDimY = 1, .gridDimZ = 1,
                                      .blockDimX = 5, .blockDimY = 1, .blockDimZ = 1};
    CUDA_HOST_NODE_PARAMS call = {.fn = host};
    OK(cuGraphAddMemsetNode(&a, child, NULL, 0, &fill, context));
    OK(cuGraphAddEmptyNode(&b, child, &a, 1));
    OK(cuGraphAddMemsetNode(&a, graph, NULL, 0, &fill, context));
    OK(cuGraphAddMemcpyNode(&b, graph, &a, 1, &copy, context));
    OK(cuGraphAddKernelNode(&c, graph, &b, 1, &launch));
    OK(cuGraphAddChildGraphNode(&d, graph, &c, 1, child));
    OK(cuGraphAddChildGraphNode(&c, graph, NULL, 0, empty));
    OK(cuGraphAddHostNode(&c, graph, &d, 1, &call));
    OK(cuGraphAddEventRecordNode(&c, graph, (CUgraphNode[]){a, d}, 2, e));
    CUgraphConditionalHandle handle;
    OK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = handle; params.conditional.size = 2; params.conditional.ctx = context;
    OK(cuGraphAddNode(&d, graph, NULL, NULL, 0, &params));
    OK(cuGraphAddMemsetNode(&a, params.conditional.phGraph_out[1], NULL, 0, &fill, context));
    OK(cuGraphDebugDotPrint(graph, argv[1], 0));
    OK(cuGraphDebugDotPrint(graph, argv[2], CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    OK(cuGraphDebugDotPrint(graph, argv[3], CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS));
    OK(cuGraphGetId(graph, &id));
    printf("%u\n", id);
    return 0;
}
"""

NODE = r'"(?P<node>\w+)" \[shape="rectangle", label="(?P<label>(?:[^"\\]|\\.)*)"\];'
LINE = re.compile(rf'subgraph (?P<cluster>\w+) {{|label="(?P<title>[\w ]*)";|{NODE}|"(?P<a>\w+)" -> "(?P<b>\w+)";|(?P<end>}})')


def parse(text):
    """Returns the labels of the nodes by name, the edges, and the labels of clusters, each with the names of its own
    nodes."""
    lines = text.splitlines()
    assert lines[0] == "digraph dot {"
    nodes, edges, clusters, inside = {}, [], [], [{}]
    for line in lines[1:]:
        found = LINE.fullmatch(line)
        assert found and inside, line
        if found["cluster"]:
            clusters.append({"name": found["cluster"], "nodes": []})
            inside.append(clusters[-1])
        elif found["node"]:
            nodes[found["node"]] = re.sub(r'\\(["\\])', r"\1", found["label"])
            inside[-1]["nodes"].append(found["node"])
        elif found["a"]:
            edges.append((found["a"], found["b"]))
        elif found["end"]:
            inside.pop()
        else:
            inside[-1]["label"] = found["title"]
    assert not inside
    return nodes, edges, clusters


@pytest.fixture
def written(driver, tmp_path):  # noqa: F811
    program = compile_text(driver, tmp_path / "dot", WRITES)
    paths = [tmp_path / f"{name}.dot" for name in ("plain", "verbose", "fills")]
    done = sim("--", program, *paths, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout), paths


def test_nodes_and_edges(written):
    number, (plain, *_) = written
    nodes, edges, clusters = parse(plain.read_text())
    name = f"graph_{number}_node_"
    own = {key.removeprefix(name): label for key, label in nodes.items() if key.startswith(name)}
    assert own == {
        "0": r"0\nMEMSET",
        "1": r"1\nMEMCPY\nDtoD",
        "2": '2\\nKERNEL\\nodd "name" \\ of {a} kernel',
        "3": r"3\nGRAPH",
        "4": r"4\nGRAPH",
        "5": r"5\nHOST",
        "6": r"6\nEVENT_RECORD",
        "7": r"7\nCONDITIONAL",
    }
    assert {(a.removeprefix(name), b.removeprefix(name)) for a, b in edges if a.startswith(name)} == {
        ("0", "1"), ("1", "2"), ("2", "3"), ("3", "5"), ("0", "6"), ("3", "6")
    }  # fmt: skip
    # Every end of an edge is a node, and each graph has a cluster of its own.
    assert {end for edge in edges for end in edge} <= nodes.keys() and len(edges) == 7
    assert [(cluster["label"], len(cluster["nodes"])) for cluster in clusters] == [
        (f"graph_{number}", 8), ("graph of node 3", 2), ("graph of node 4", 0), ("body 0 of node 7", 0), ("body 1 of node 7", 1)
    ]  # fmt: skip
    assert len({cluster["name"] for cluster in clusters}) == 5


def test_details(written):
    number, (plain, verbose, fills) = written
    (short, edges, _), (long, same, _), (some, _, _) = (parse(path.read_text()) for path in (plain, verbose, fills))
    assert short.keys() == long.keys() == some.keys() and edges == same
    name = f"graph_{number}_node_"
    assert "grid (3, 1, 1), block (5, 1, 1)" in long[name + "2"] and "32 bytes" in long[name + "1"]
    assert "IF of" in long[name + "7"] and all("node 0x" in label for label in long.values())
    assert "64 elements of 1 byte with 0x7" in some[name + "0"]
    assert {key for key in some if some[key] != short[key]} == {key for key in some if "MEMSET" in some[key]}


@pytest.mark.skipif(not shutil.which("dot"), reason="needs Graphviz")
def test_graphviz_reads_it(written):
    for path in written[1]:
        assert "digraph" in run("dot", "-Tcanon", path).stdout
