"""`cudasim_mpi.c` reports the buffers of MPI calls to the race checker: a program that sends to itself."""

import pathlib
import subprocess
import sys

import pytest

from commands import CUDA, SIM

MPICC = pathlib.Path(sys.prefix) / "bin/mpicc"
PROGRAM = r"""
#include <cuda.h>
#include <cudasim.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define N 100
#define SELF MPI_COMM_SELF
#define WAITS cuStreamSynchronize(stream)
static CUstream stream;
static double *a, *b;

/* The device writes, or reads, the numbers from `first` on. */
static void writes(double *at, int first) { cuMemsetD32Async((CUdeviceptr)(at + first), 0, 2 * (N - first), stream); }
static void reads(double *at) { cuMemcpyDtoDAsync((CUdeviceptr)(at + N), (CUdeviceptr)at, 8 * N, stream); }

static void run(const char *what, MPI_Datatype column) {
    MPI_Request requests[2];
    int done;
#define IS(name) if (!strcmp(what, name))
    IS("waited") { writes(a, 0); WAITS; MPI_Sendrecv(a, N, MPI_DOUBLE, 0, 0, b, N, MPI_DOUBLE, 0, 0, SELF, MPI_STATUS_IGNORE); }
    IS("sent too early") { writes(a, 0); MPI_Sendrecv(a, N, MPI_DOUBLE, 0, 0, b, N, MPI_DOUBLE, 0, 0, SELF, MPI_STATUS_IGNORE); }
    IS("received too early") { reads(b); MPI_Sendrecv(a, N, MPI_DOUBLE, 0, 0, b, N, MPI_DOUBLE, 0, 0, SELF, MPI_STATUS_IGNORE); }
    IS("both read") { reads(a); MPI_Sendrecv(a, N, MPI_DOUBLE, 0, 0, b, N, MPI_DOUBLE, 0, 0, SELF, MPI_STATUS_IGNORE); }
    IS("part") { writes(a, 50); MPI_Allreduce(a, b, 50, MPI_DOUBLE, MPI_SUM, SELF); }
    IS("other part") { writes(a, 50); MPI_Allreduce(a, b, 51, MPI_DOUBLE, MPI_SUM, SELF); }
    IS("in place") { writes(b, 0); MPI_Allreduce(MPI_IN_PLACE, b, N, MPI_DOUBLE, MPI_SUM, SELF); }
    IS("broadcast") { writes(a, 0); MPI_Bcast(a, N, MPI_DOUBLE, 0, SELF); }
    IS("columns") { cuMemsetD32Async((CUdeviceptr)(a + 1), 0, 2 * (N - 2), stream); MPI_Bcast(a, 1, column, 0, SELF); }
    IS("last column") { writes(a, N - 1); MPI_Bcast(a, 1, column, 0, SELF); }
    WAITS;
    MPI_Irecv(b, N, MPI_DOUBLE, 0, 7, SELF, &requests[0]);
    MPI_Isend(a, N, MPI_DOUBLE, 0, 7, SELF, &requests[1]);
    IS("written before the end") writes(a, 0);
    IS("read before the end") reads(b);
    IS("tested") { writes(a, 0); for (done = 0; !done;) MPI_Test(&requests[1], &done, MPI_STATUS_IGNORE); }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    IS("written afterwards") writes(a, 0);
    WAITS;
    printf("%s: %zu\n", what, cudasim_take_report(NULL, 0));
}

int main(int argc, char **argv) {
    CUcontext context;
    MPI_Datatype column;
    MPI_Init(NULL, NULL);
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuMemAlloc((CUdeviceptr *)&a, 16 * N);
    cuMemAlloc((CUdeviceptr *)&b, 16 * N);
    cuCtxSynchronize();
    MPI_Type_vector(2, 1, N - 1, MPI_DOUBLE, &column); /* the numbers 0 and N - 1 */
    MPI_Type_commit(&column);
    for (int i = 1; i < argc; ++i)
        run(argv[i], column);
    MPI_Type_free(&column);
    MPI_Finalize();
    return 0;
}
"""
RACY = [
    "sent too early", "received too early", "other part", "in place", "broadcast", "last column", "written before the end",
    "read before the end", "tested",
]  # fmt: skip
CORRECT = ["waited", "both read", "part", "columns", "written afterwards"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "program.c").write_text(PROGRAM)
    flags = ["-g", "-Wall", "-Wextra", "-Werror", "-I", SIM / "include", "-isystem", CUDA]
    sources = [folder / "program.c", SIM / "include/cudasim_mpi.c"]
    libraries = ["-L", SIM / "lib/cuda-sim/driver", "-lcuda", "-ldl"]
    words = [MPICC, *flags, *sources, *libraries, "-o", folder / "program"]
    subprocess.run([str(word) for word in words], check=True)
    return folder / "program"


def test_buffers(program):
    # The allocator of UCX, in this MPI, takes a lock.
    words = [SIM / "bin/cuda-sim", "run", "--print=exit", "--host-threads=ordered", program, *RACY, *CORRECT]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = {**{name: True for name in RACY}, **{name: False for name in CORRECT}}
    found = (line.split(": ") for line in done.stdout.splitlines())
    assert {name: count != "0" for name, count in found} == expected
