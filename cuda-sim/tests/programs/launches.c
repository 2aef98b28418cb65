// Kernels by name, with arguments that determine their accesses, and kernels of several accesses.
//
// What a row can say about this is in tests/litmus/launches.txt.
#include "race_test.h"

// add(to, from, n): to[i] += from[i], bytes.
static void run_add(const cudasim_grid *grid, void **args) {
    volatile unsigned char *to = cudasim_host_address(*(void **)args[0]);
    const volatile unsigned char *from = cudasim_host_address(*(void **)args[1]);
    (void)grid;
    for (int i = 0; i < *(int *)args[2]; ++i)
        to[i] = (unsigned char)(to[i] + from[i]);
}

static size_t accesses_of_add(const cudasim_grid *grid, void **args, cudasim_access *out,
                              size_t capacity) {
    const size_t n = (size_t)*(int *)args[2];
    (void)grid;
    if (capacity >= 2) {
        out[0] = range(*(CUdeviceptr *)args[0], n, CUDASIM_READ | CUDASIM_WRITE);
        out[1] = range(*(CUdeviceptr *)args[1], n, CUDASIM_READ);
    }
    return 2;
}

// fill_blocks(to): each block of the grid writes as many bytes as it has threads.
static void run_fill_blocks(const cudasim_grid *grid, void **args) {
    volatile unsigned char *to = cudasim_host_address(*(void **)args[0]);
    for (unsigned i = 0; i < grid->grid[0] * grid->block[0]; ++i)
        to[i] = 1;
}

static size_t accesses_of_fill_blocks(const cudasim_grid *grid, void **args, cudasim_access *out,
                                      size_t capacity) {
    if (capacity >= 1) {
        out[0] =
            range(*(CUdeviceptr *)args[0], (size_t)grid->grid[0] * grid->block[0], CUDASIM_WRITE);
    }
    return 1;
}

static CUfunction kernel(const char *name) {
    static const size_t add_sizes[] = {sizeof(CUdeviceptr), sizeof(CUdeviceptr), sizeof(int)};
    static const size_t fill_sizes[] = {sizeof(CUdeviceptr)};
    static const cudasim_kernel kernels[] = {
        {"add", run_add, accesses_of_add, 3, add_sizes},
        {"fill_blocks", run_fill_blocks, accesses_of_fill_blocks, 1, fill_sizes},
    };
    static CUmodule module;
    CUfunction function;
    if (module == NULL) {
        cudasim_register(kernels, 2);
        CHECK(cuModuleLoadData(&module, "kernels of the host"));
    }
    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

static void add(CUstream stream, CUdeviceptr to, CUdeviceptr from) {
    int n = N;
    void *arguments[] = {&to, &from, &n};
    CHECK(cuLaunchKernel(kernel("add"), 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
}

static void fill_blocks(CUstream stream, CUdeviceptr to, unsigned blocks, unsigned threads) {
    void *arguments[] = {&to};
    CHECK(cuLaunchKernel(kernel("fill_blocks"), blocks, 1, 1, threads, 1, 1, 0, stream, arguments,
                         NULL));
}

// Two kernels read the same bytes and write different ones.
static void same_source(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    add(make_nonblocking(), q, p);
    add(make_nonblocking(), r, p);
}

// Two kernels add to the same bytes.
static void same_destination(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    add(make_nonblocking(), p, q);
    add(make_nonblocking(), p, r);
}

// One reads what the other writes.
static void destination_as_source(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    add(make_nonblocking(), q, p);
    add(make_nonblocking(), r, q);
}

// In one stream.
static void destination_as_source_in_one_stream(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    CUstream a = make_nonblocking();
    add(a, q, p);
    add(a, r, q);
}

// With an event.
static void destination_as_source_after_an_event(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), r = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    add(a, q, p);
    order(a, b);
    add(b, r, q);
}

// The arguments are copied at the launch: changing the variables afterwards changes nothing.
static void arguments_changed_after_the_launch(void) {
    CUdeviceptr p = alloc(N), q = alloc(N), to = p, from = q;
    CUstream a = make_nonblocking(), b = make_nonblocking();
    int n = N / 2;
    void *arguments[] = {&to, &from, &n};
    CHECK(cuLaunchKernel(kernel("add"), 1, 1, 1, 1, 1, 1, 0, a, arguments, NULL));
    to = p + N / 2;
    from = q + N / 2;
    CHECK(cuLaunchKernel(kernel("add"), 1, 1, 1, 1, 1, 1, 0, b, arguments, NULL));
}

// The size of the grid determines what is written: two halves.
static void grids_side_by_side(void) {
    CUdeviceptr p = alloc(N);
    fill_blocks(make_nonblocking(), p, 8, 64);
    fill_blocks(make_nonblocking(), p + 512, 8, 64);
}

// One block too many.
static void one_block_too_many(void) {
    CUdeviceptr p = alloc(N);
    fill_blocks(make_nonblocking(), p, 9, 32);
    fill_blocks(make_nonblocking(), p + 256, 8, 32);
}

// Launched by a structure.
static void launched_with_a_configuration(void) {
    CUdeviceptr p = alloc(N);
    void *arguments[] = {&p};
    CUlaunchConfig how = {.gridDimX = 1,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 64,
                          .blockDimY = 1,
                          .blockDimZ = 1};
    how.hStream = make_nonblocking();
    CHECK(cuLaunchKernelEx(&how, kernel("fill_blocks"), arguments, NULL));
    reads(make_nonblocking(), p, 1);
}

// A kernel that touches nothing that is known.
static void kernel_without_accesses(void) {
    CUdeviceptr p = alloc(N);
    touches(make_nonblocking(), "unknown", NULL, 0);
    writes(make_nonblocking(), p, N);
}

// A kernel that writes what it reads does not race with itself.
static void kernel_in_place(void) {
    CUdeviceptr p = alloc(N);
    const cudasim_access both[] = {range(p, N, CUDASIM_READ), range(p, N, CUDASIM_WRITE)};
    touches(make_nonblocking(), "in place", both, 2);
}

// Its read races with another kernel's write, and its write with the read.
static void kernel_in_place_and_another(void) {
    CUdeviceptr p = alloc(N);
    const cudasim_access both[] = {range(p, N, CUDASIM_READ), range(p, N, CUDASIM_WRITE)};
    touches(make_nonblocking(), "in place", both, 2);
    reads(make_nonblocking(), p, N);
}

// Only the last of four accesses meets another kernel.
static void last_of_four_accesses(void) {
    CUdeviceptr p = alloc(4 * N);
    cudasim_access four[4];
    for (unsigned i = 0; i < 4; ++i)
        four[i] = range(p + i * N, 8, CUDASIM_READ);
    touches(make_nonblocking(), "four", four, 4);
    writes(make_nonblocking(), p + 3 * N + 7, 1);
}

// None of them does.
static void between_four_accesses(void) {
    CUdeviceptr p = alloc(4 * N);
    cudasim_access four[4];
    for (unsigned i = 0; i < 4; ++i)
        four[i] = range(p + i * N, 8, CUDASIM_WRITE);
    touches(make_nonblocking(), "four", four, 4);
    writes(make_nonblocking(), p + 3 * N + 8, N - 8);
}

const struct race_program programs_launches[] = {
    CORRECT(same_source),
    RACY(same_destination),
    RACY(destination_as_source),
    CORRECT(destination_as_source_in_one_stream),
    CORRECT(destination_as_source_after_an_event),
    CORRECT(arguments_changed_after_the_launch),
    CORRECT(grids_side_by_side),
    RACY(one_block_too_many),
    RACY(launched_with_a_configuration),
    CORRECT(kernel_without_accesses),
    CORRECT(kernel_in_place),
    RACY(kernel_in_place_and_another),
    RACY(last_of_four_accesses),
    CORRECT(between_four_accesses),
    END_OF_PROGRAMS,
};
