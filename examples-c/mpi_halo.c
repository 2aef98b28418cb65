/*
 * Halo exchange of a three-dimensional array with cai/mpi.h. Each rank has a block of the grid, and
 * around it one layer of its neighbours' cells. The layers are arrays with strides: cai/mpi.h
 * describes them to MPI, so this program packs nothing.
 *
 *     mpicc mpi_halo.c $(pkg-config --cflags --libs cai) -lcuda -o halo
 *     mpiexec -n 4 ./halo                          in host memory
 *     mpiexec -n 4 ./halo device                   in device memory
 *     mpiexec -n 4 cuda-sim run ./halo device      on a machine without a GPU
 *
 * If MPI is CUDA-aware, it gets the address of device memory; otherwise the data is copied through
 * the host. Both wait for the work that is pending on the array's stream.
 */
#include <cai/mpi.h>
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cells of a block, without the neighbours' layers; rows are padded, as with a pitch. */
enum { NX = 6, NY = 5, NZ = 7, PITCH = 12, CELLS = (NX + 2) * (NY + 2) * PITCH };
enum { STEPS = 2 };

#define CHECK(call)                                                              \
    do {                                                                         \
        cai_error why;                                                           \
        cai_error *error = &why;                                                 \
        if ((call) != CAI_OK) {                                                  \
            fprintf(stderr, "%s: %s\n", cai_status_name(why.code), why.message); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                        \
        }                                                                        \
    } while (0)

#define CU(call)                                              \
    do {                                                      \
        CUresult result_ = (call);                            \
        if (result_ != CUDA_SUCCESS) {                        \
            fprintf(stderr, "%s: %d\n", #call, (int)result_); \
            MPI_Abort(MPI_COMM_WORLD, 1);                     \
        }                                                     \
    } while (0)

static const int64_t extents[3] = {NX, NY, NZ};
static const int64_t strides[3] = {
    (NY + 2) * PITCH * (int64_t)sizeof(double),
    PITCH * (int64_t)sizeof(double),
    sizeof(double),
};

/* Returns the layer of cells at `index` of an axis. The layers at 0 and extent + 1 belong to the
 * neighbours. `shape` is the shape of every layer of this axis. */
static cai_array layer(const cai_array *block, int axis, int64_t index, const int64_t *shape) {
    cai_array array = *block; /* borrowed: `block` and `shape` outlive the messages */
    char *first = (char *)block->data;
    for (int i = 0; i < 3; ++i)
        first += (i == axis ? index : 1) * strides[i];
    array.owner = NULL;
    array.data = first;
    array.shape = shape;
    return array;
}

/* The messages of each axis, which are prepared once and sent in every step. */
typedef struct {
    int64_t shapes[3][3];
    cai_mpi_request requests[3][4];
} halo;

static void prepare(halo *it, const cai_array *block, MPI_Comm grid) {
    for (int axis = 0; axis < 3; ++axis) {
        cai_mpi_request *requests = it->requests[axis];
        int64_t *shape = it->shapes[axis];
        int before, after;
        for (int i = 0; i < 3; ++i)
            shape[i] = i == axis ? 1 : extents[i];
        MPI_Cart_shift(grid, axis, 1, &before, &after);
        cai_array array = layer(block, axis, 0, shape);
        CHECK(cai_mpi_recv_init(&array, before, 1, grid, 0, &requests[0], error));
        array = layer(block, axis, extents[axis] + 1, shape);
        CHECK(cai_mpi_recv_init(&array, after, 2, grid, 0, &requests[1], error));
        array = layer(block, axis, extents[axis], shape);
        CHECK(cai_mpi_send_init(&array, after, 1, grid, 0, &requests[2], error));
        array = layer(block, axis, 1, shape);
        CHECK(cai_mpi_send_init(&array, before, 2, grid, 0, &requests[3], error));
    }
}

static void exchange(halo *it) {
    for (int axis = 0; axis < 3; ++axis) {
        CHECK(cai_mpi_start_all(4, it->requests[axis], error));
        CHECK(cai_mpi_wait_all(4, it->requests[axis], error));
    }
}

static void finish(halo *it) {
    for (int axis = 0; axis < 3; ++axis)
        for (int i = 0; i < 4; ++i)
            CHECK(cai_mpi_request_free(&it->requests[axis][i], error));
}

/* --- the contents of the cells: a number that depends on the position in the whole grid */

static double value(const int *ranks, const int *place, int x, int y, int z) {
    const int nx = ranks[0] * NX, ny = ranks[1] * NY, nz = ranks[2] * NZ;
    const int gx = (place[0] * NX + x - 1 + nx) % nx;
    const int gy = (place[1] * NY + y - 1 + ny) % ny;
    const int gz = (place[2] * NZ + z - 1 + nz) % nz;
    return (gx * ny + gy) * nz + gz;
}

static int outside(int x, int y, int z) {
    return (x < 1 || x > NX) + (y < 1 || y > NY) + (z < 1 || z > NZ);
}

static void fill(double *cells, const int *ranks, const int *place) {
    for (int i = 0; i < CELLS; ++i)
        cells[i] = -1;
    for (int x = 1; x <= NX; ++x)
        for (int y = 1; y <= NY; ++y)
            for (int z = 1; z <= NZ; ++z)
                cells[(x * (NY + 2) + y) * PITCH + z] = value(ranks, place, x, y, z);
}

/* Edges and corners of the block are in no layer that is exchanged, and do not change. */
static int count_wrong(const double *cells, const int *ranks, const int *place) {
    int wrong = 0;
    for (int x = 0; x < NX + 2; ++x)
        for (int y = 0; y < NY + 2; ++y)
            for (int z = 0; z < PITCH; ++z) {
                const double expected =
                    z > NZ + 1 || outside(x, y, z) > 1 ? -1 : value(ranks, place, x, y, z);
                const double found = cells[(x * (NY + 2) + y) * PITCH + z];
                wrong += found < expected || found > expected;
            }
    return wrong;
}

int main(int count, char **words) {
    static double cells[CELLS];
    int ranks[3] = {0, 0, 0}, place[3], size, rank, wrong, on_device;
    const int periods[3] = {1, 1, 1};
    cai_array block = CAI_ARRAY_INIT;
    halo messages;
    CUdeviceptr memory = 0;
    CUstream stream = NULL;
    MPI_Comm grid;
    MPI_Init(&count, &words);
    on_device = count > 1 && strcmp(words[1], "device") == 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ranks[0] = 1; /* only axes whose layers have gaps are divided */
    MPI_Dims_create(size, 3, ranks);
    MPI_Cart_create(MPI_COMM_WORLD, 3, ranks, periods, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 3, place);
    fill(cells, ranks, place);

    block.shape = extents;
    block.strides = strides;
    block.ndim = 3;
    memcpy(block.typestr, "<f8", sizeof("<f8"));
    if (on_device) {
        CUcontext context;
        CUdevice device;
        CU(cuInit(0));
        CU(cuDeviceGet(&device, 0));
        CU(cuDevicePrimaryCtxRetain(&context, device));
        CU(cuCtxSetCurrent(context));
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CU(cuMemAlloc(&memory, sizeof cells));
        CU(cuMemcpyHtoDAsync(memory, cells, sizeof cells, stream)); /* in place of kernels */
        block.data = (void *)(uintptr_t)memory;
        block.device.type = CAI_DEVICE_CUDA;
        block.stream = (cai_stream)(uintptr_t)stream;
    } else {
        block.data = cells;
        block.device.type = CAI_DEVICE_CPU;
        block.stream = CAI_STREAM_NONE;
    }

    prepare(&messages, &block, grid);
    for (int step = 0; step < STEPS; ++step) /* a solver computes in between */
        exchange(&messages);
    finish(&messages);

    if (on_device) {
        CU(cuMemcpyDtoHAsync(cells, memory, sizeof cells, stream));
        CU(cuStreamSynchronize(stream));
        CU(cuMemFree(memory));
        CU(cuStreamDestroy(stream));
    }
    wrong = count_wrong(cells, ranks, place);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, grid);
    if (rank == 0)
        printf("%d x %d x %d blocks in %s memory, wrong cells: %d\n", ranks[0], ranks[1], ranks[2],
               on_device ? "device" : "host", wrong);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return wrong != 0;
}
