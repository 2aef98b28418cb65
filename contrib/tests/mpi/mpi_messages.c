/*
 * Messages of cai/mpi.h from and to arrays of any layout, within one process: `mpi_messages` in
 * host memory, `mpi_messages device` in memory of a CUDA device; and between the ranks of
 * `mpiexec -n 3 mpi_messages ranks`.
 * run: by test_mpi_header.py
 */
#include <cai/mpi.h>
#include <cuda.h>
#include <pthread.h>

#include "status_asserts.h"

enum { SPACE = 8192, MIDDLE = SPACE / 2 };

enum { THREADS = 4 };

static int on_device;
static _Atomic int owners;
static CUcontext context_;
static CUstream streams[2 + 2 * THREADS];

static _Thread_local uint32_t state = 1;
static int64_t below(int64_t n) {
    state = state * 1664525u + 1013904223u;
    return (int64_t)(state >> 8) % n;
}

/* --- memory with an array in it, and what it contains on the host */

typedef struct {
    unsigned char *memory;
    unsigned char bytes[SPACE];
    int64_t shape[6], strides[6];
    cai_array array;
    CUstream stream;
} place;

static void gone(void *context) {
    (void)context;
    --owners;
}

/* Fills the memory; on a device the copy is pending. */
static void fill(place *it, int seed) {
    for (int i = 0; i < SPACE; ++i)
        it->bytes[i] = (unsigned char)((i * 7 + i / 256 + seed) % 251);
    if (on_device) {
        CU(cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)it->memory, it->bytes, SPACE, it->stream));
    } else {
        memcpy(it->memory, it->bytes, SPACE);
    }
}

static void read_back(place *it) {
    if (!on_device) {
        memcpy(it->bytes, it->memory, SPACE);
        return;
    }
    CU(cuMemcpyDtoHAsync(it->bytes, (CUdeviceptr)(uintptr_t)it->memory, SPACE, it->stream));
    CU(cuStreamSynchronize(it->stream));
}

static void open_place(place *it, int which) {
    memset(it, 0, sizeof *it);
    if (on_device) {
        CUdeviceptr memory;
        CU(cuMemAlloc(&memory, SPACE));
        it->memory = (unsigned char *)(uintptr_t)memory;
        it->stream = streams[which];
    } else {
        it->memory = (unsigned char *)malloc(SPACE);
        ASSERT(it->memory != NULL);
    }
}

static void close_place(place *it) {
    if (on_device) {
        CU(cuStreamSynchronize(it->stream));
        CU(cuMemFree((CUdeviceptr)(uintptr_t)it->memory));
    } else {
        free(it->memory);
    }
}

/* An array with an owner: elements of `typestr` from `offset` on. */
static void make(place *it, const char *typestr, int ndim, int64_t offset, int is_dense) {
    cai_array description = CAI_ARRAY_INIT;
    const cai_array init = CAI_ARRAY_INIT;
    int64_t count = 1;
    for (int i = 0; i < ndim; ++i)
        count *= it->shape[i];
    description.data = count == 0 ? NULL : it->memory + offset;
    description.shape = it->shape;
    description.strides = is_dense ? NULL : it->strides;
    description.ndim = ndim;
    memcpy(description.typestr, typestr, strlen(typestr) + 1);
    description.device.type = on_device ? CAI_DEVICE_CUDA : CAI_DEVICE_CPU;
    description.stream = on_device ? (cai_stream)(uintptr_t)it->stream : CAI_STREAM_NONE;
    it->array = init;
    OK(cai_array_create(&description, NULL, gone, &it->array, error));
    ++owners;
}

/* Address of element number `n` in C order, relative to the memory. */
static int64_t element(const place *it, int64_t n) {
    const cai_array *array = &it->array;
    int64_t strides[6] = {0}, at = (unsigned char *)array->data - it->memory;
    OK(cai_array_strides(array, strides, 6, error));
    for (int i = array->ndim - 1; i >= 0; --i) {
        at += n % array->shape[i] * strides[i];
        n /= array->shape[i];
    }
    return at;
}

/* Two places, what a message leaves in the second, and what becomes of it. */
typedef struct {
    place from, to;
    unsigned char expected[SPACE];
} pair;

static void open_pair(pair *it, int which) {
    open_place(&it->from, which);
    open_place(&it->to, which + 1);
}

static void fill_pair(pair *it, int seed, int other_seed, int64_t count, size_t itemsize) {
    fill(&it->from, seed);
    fill(&it->to, other_seed);
    memcpy(it->expected, it->to.bytes, SPACE);
    for (int64_t n = 0; n < count; ++n)
        memcpy(it->expected + element(&it->to, n), it->from.bytes + element(&it->from, n),
               itemsize);
}

static void check_pair(pair *it) {
    read_back(&it->to);
    ASSERT(memcmp(it->expected, it->to.bytes, SPACE) == 0);
}

static void close_pair(pair *it) {
    cai_array_release(&it->from.array);
    cai_array_release(&it->to.array);
    ASSERT(owners == 0);
    close_place(&it->from);
    close_place(&it->to);
}

static void exchange(const cai_array *from, const cai_array *to, uint32_t flags, int tag) {
    cai_mpi_request requests[2];
    OK(cai_mpi_irecv(to, 0, tag, MPI_COMM_SELF, flags, &requests[0], error));
    OK(cai_mpi_isend(from, 0, tag, MPI_COMM_SELF, flags, &requests[1], error));
    OK(cai_mpi_wait_all(2, requests, error));
    OK(cai_mpi_wait(&requests[0], NULL, error));
}

/* --- layouts */

static const char *const types[] = {"|u1", "<i2", "<f4", "<f8", "<c16", "<f2", "|V12", "|b1"};
static const int sizes[] = {1, 2, 4, 8, 16, 2, 12, 1};

/* Random strides without elements that share bytes: of a larger dense array in any order. */
static void random_layout(place *it, int ndim, const int64_t *shape, int itemsize) {
    int order[6] = {0, 1, 2, 3, 4, 5};
    int64_t pitch = itemsize;
    for (int i = ndim - 1; i > 0; --i) {
        const int other = (int)below(i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < ndim; ++i) {
        const int axis = order[i];
        it->shape[axis] = shape[axis];
        it->strides[axis] = below(2) == 0 ? -pitch : pitch;
        pitch *= shape[axis];
        if (below(2) == 0) pitch += itemsize;
    }
}

static void layouts(int rounds, int which) {
    pair two;
    place *const from = &two.from, *const to = &two.to;
    open_pair(&two, which);
    for (int round = 0; round < rounds; ++round) {
        const int kind = (int)below(8), itemsize = sizes[kind], ndim = (int)below(5);
        /* DIRECT: as if MPI accepted device memory, which the host can access in a simulation. */
        static const uint32_t ways[5] = {0, CAI_MPI_STAGE, CAI_MPI_PLAIN, CAI_MPI_DIRECT,
                                         CAI_MPI_CHECK};
        const uint32_t flags = ways[below(5)];
        int64_t shape[6], count = 1;
        for (int i = 0; i < ndim; ++i)
            count *= shape[i] = below(12) == 0 ? 0 : 1 + below(3);
        random_layout(from, ndim, shape, itemsize);
        make(from, types[kind], ndim, MIDDLE, below(4) == 0);
        random_layout(to, ndim, shape, itemsize);
        make(to, types[kind], ndim, MIDDLE, below(4) == 0);
        fill_pair(&two, round, round + 100, count, (size_t)itemsize);
        exchange(&from->array, &to->array, flags, which);
        check_pair(&two);
        cai_array_release(&from->array);
        cai_array_release(&to->array);
        ASSERT(which > 0 || owners == 0);
    }
    close_place(from);
    close_place(to);
}

static void *in_a_thread(void *which) {
    if (on_device) CU(cuCtxSetCurrent(context_));
    state = (uint32_t)(uintptr_t)which;
    layouts(30, (int)(intptr_t)which);
    return NULL;
}

static void threads(void) {
    pthread_t them[THREADS];
    for (int i = 0; i < THREADS; ++i)
        ASSERT(pthread_create(&them[i], NULL, in_a_thread, (void *)(intptr_t)(2 + 2 * i)) == 0);
    for (int i = 0; i < THREADS; ++i)
        ASSERT(pthread_join(them[i], NULL) == 0);
    ASSERT(owners == 0);
}

/* A message shorter than the array leaves the rest as it is. */
static void short_message(uint32_t flags) {
    pair two;
    place *const from = &two.from, *const to = &two.to;
    open_pair(&two, 0);
    from->shape[0] = 5;
    to->shape[0] = 9;
    to->strides[0] = -16;
    make(from, "<f8", 1, 0, 1);
    make(to, "<f8", 1, MIDDLE, 0);
    fill_pair(&two, 1, 2, 5, 8);
    exchange(&from->array, &to->array, flags, 5);
    check_pair(&two);
    /* One that is longer is an error of MPI's. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    cai_mpi_request sent = CAI_MPI_REQUEST_INIT;
    OK(cai_mpi_isend(&to->array, 0, 6, MPI_COMM_SELF, flags, &sent, error));
    REFUSED(CAI_ERR_MPI, "MPI_Wait",
            cai_mpi_recv(&from->array, 0, 6, MPI_COMM_SELF, flags, NULL, error));
    (void)cai_mpi_wait(&sent, NULL, NULL);
    close_pair(&two);
}

/* Requests that are prepared once: each message has the data of its start, although an event that
 * the array states was recorded before. */
static void prepared(uint32_t flags) {
    cai_mpi_request requests[2];
    CUevent event = NULL;
    pair two;
    place *const from = &two.from, *const to = &two.to;
    open_pair(&two, 0);
    from->shape[0] = to->shape[0] = 7;
    from->strides[0] = 24;
    to->strides[0] = -16;
    make(from, "<f8", 1, 0, 0);
    make(to, "<f8", 1, MIDDLE, 0);
    if (on_device) {
        CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CU(cuEventRecord(event, from->stream));
        from->array.flags = CAI_ARRAY_READONLY;
        from->array.event = event;
    }
    OK(cai_mpi_recv_init(&to->array, 0, 5, MPI_COMM_SELF, flags, &requests[0], error));
    OK(cai_mpi_send_init(&from->array, 0, 5, MPI_COMM_SELF, flags, &requests[1], error));
    cai_array kept[2] = {from->array, to->array};
    cai_array_release(&from->array);
    cai_array_release(&to->array);
    for (int message = 0; message < 3; ++message) {
        from->array = kept[0]; /* the requests hold the owners */
        to->array = kept[1];
        fill_pair(&two, message, 100, 7, 8);
        OK(cai_mpi_start_all(2, requests, error));
        OK(cai_mpi_wait_all(2, requests, error));
        check_pair(&two);
        ASSERT(owners == 2);
    }
    OK(cai_mpi_request_free(&requests[0], error));
    OK(cai_mpi_request_free(&requests[1], error));
    ASSERT(owners == 0);
    if (on_device) CU(cuEventDestroy(event));
    close_place(from);
    close_place(to);
}

/* Of an unknown stream, the event is all that is known: here of work in another context, which a
 * wait for the memory's own does not include. */
static void prepared_after_event(uint32_t flags) {
    cai_mpi_request requests[2];
    CUcontext other;
    CUevent event;
    pair two;
    place *const from = &two.from, *const to = &two.to;
    open_pair(&two, 0);
    from->shape[0] = to->shape[0] = 7;
    make(from, "<f8", 1, 0, 1);
    make(to, "<f8", 1, MIDDLE, 1);
#if CUDA_VERSION >= 13000
    CU(cuCtxCreate(&other, NULL, 0, 0));
#else
    CU(cuCtxCreate(&other, 0, 0));
#endif
    CU(cuStreamCreate(&from->stream, CU_STREAM_NON_BLOCKING));
    to->stream = from->stream;
    fill_pair(&two, 0, 100, 7, 8);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(event, from->stream));
    CU(cuCtxSetCurrent(context_));
    from->array.stream = to->array.stream = CAI_STREAM_UNKNOWN;
    from->array.event = to->array.event = event;
    OK(cai_mpi_recv_init(&to->array, 0, 5, MPI_COMM_SELF, flags, &requests[0], error));
    OK(cai_mpi_send_init(&from->array, 0, 5, MPI_COMM_SELF, flags, &requests[1], error));
    OK(cai_mpi_start(&requests[0], error));
    OK(cai_mpi_start(&requests[1], error));
    OK(cai_mpi_wait_all(2, requests, error));
    OK(cai_mpi_request_free(&requests[0], error));
    OK(cai_mpi_request_free(&requests[1], error));
    CU(cuCtxSetCurrent(other));
    check_pair(&two);
    close_pair(&two);
    CU(cuEventDestroy(event));
    CU(cuCtxDestroy(other));
    CU(cuCtxSetCurrent(context_));
}

/* Functions of MPI that this header does not wrap. */
static void reduction(void) {
    place it;
    open_place(&it, 0);
    it.shape[0] = 4;
    it.shape[1] = 3;
    it.strides[0] = 4;
    it.strides[1] = 32;
    make(&it, "<i4", 2, 0, 0);
    fill(&it, 0);
    cai_mpi_buffer buffer = CAI_MPI_BUFFER_INIT;
    OK(cai_mpi_begin(&it.array, CAI_ACCESS_READ | CAI_ACCESS_WRITE | CAI_MPI_PLAIN, &buffer,
                     error));
    ASSERT(buffer.datatype == MPI_INT32_T && buffer.count == 12 && buffer.nbytes == 48);
    int32_t sums[12];
    ASSERT(MPI_Allreduce(buffer.address, sums, buffer.count, buffer.datatype, MPI_BXOR,
                         MPI_COMM_SELF) == MPI_SUCCESS);
    for (int i = 0; i < 12; ++i)
        sums[i] = -sums[i];
    memcpy(buffer.address, sums, sizeof sums);
    OK(cai_mpi_end(&buffer, error));
    unsigned char before[SPACE];
    memcpy(before, it.bytes, SPACE);
    read_back(&it);
    for (int64_t n = 0; n < 12; ++n) {
        int32_t was, is;
        memcpy(&was, before + element(&it, n), 4);
        memcpy(&is, it.bytes + element(&it, n), 4);
        ASSERT(is == -was && is == sums[n]);
    }
    cai_array_release(&it.array);
    ASSERT(owners == 0);
    close_place(&it);
}

/* Elements with gaps from each rank, here one, to an array with other gaps; and MPI_Waitany. */
static void gather(void) {
    pair two;
    place *const from = &two.from, *const to = &two.to;
    open_pair(&two, 0);
    from->shape[0] = to->shape[0] = 7;
    from->strides[0] = 24;
    to->strides[0] = -16;
    make(from, "<f8", 1, 0, 0);
    make(to, "<f8", 1, MIDDLE, 0);
    for (int i = 0; i < 2; ++i) {
        fill_pair(&two, i, 2, 7, 8);
        if (i == 0) {
            cai_mpi_buffer mine, all;
            OK(cai_mpi_begin(&from->array, CAI_ACCESS_READ | CAI_MPI_PLAIN, &mine, error));
            OK(cai_mpi_begin(&to->array, CAI_ACCESS_WRITE | CAI_MPI_PLAIN, &all, error));
            ASSERT(MPI_Allgather(mine.address, mine.count, mine.datatype, all.address, all.count,
                                 all.datatype, MPI_COMM_SELF) == MPI_SUCCESS);
            OK(cai_mpi_end(&mine, error));
            OK(cai_mpi_end(&all, error));
        } else {
            cai_mpi_request requests[2];
            MPI_Request pending[2];
            OK(cai_mpi_irecv(&to->array, 0, 5, MPI_COMM_SELF, 0, &requests[0], error));
            OK(cai_mpi_isend(&from->array, 0, 5, MPI_COMM_SELF, 0, &requests[1], error));
            pending[0] = requests[0].request;
            pending[1] = requests[1].request;
            for (int done = 0; done < 2; ++done) {
                MPI_Status status;
                int index;
                ASSERT(MPI_Waitany(2, pending, &index, &status) == MPI_SUCCESS);
                OK(cai_mpi_finish(&requests[index], &status, error));
            }
        }
        check_pair(&two);
    }
    close_pair(&two);
}

/* A stream that the host cannot wait for is refused before a message is taken from MPI. */
static void captured(uint32_t flags) {
    place it;
    CUgraph graph;
    cai_mpi_request request;
    double sent[4] = {1, 2, 3, 4}, received[4] = {0};
    open_place(&it, 0);
    it.shape[0] = 4;
    make(&it, "<f8", 1, 0, 1);
    CU(cuStreamBeginCapture(it.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    REFUSED(CAI_ERR_CAPTURE_HOST, "stream",
            cai_mpi_irecv(&it.array, 0, 9, MPI_COMM_SELF, flags, &request, error));
    CU(cuStreamEndCapture(it.stream, &graph));
    CU(cuGraphDestroy(graph));
    ASSERT(MPI_Sendrecv(sent, 4, MPI_DOUBLE, 0, 9, received, 4, MPI_DOUBLE, 0, 9, MPI_COMM_SELF,
                        MPI_STATUS_IGNORE) == MPI_SUCCESS);
    ASSERT(memcmp(sent, received, sizeof sent) == 0);
    cai_array_release(&it.array);
    ASSERT(owners == 0);
    close_place(&it);
}

/* --- without memory */

static cai_array plain(const char *typestr, void *data, int ndim, const int64_t *shape) {
    cai_array array = valid_array();
    array.data = data;
    array.shape = shape;
    array.ndim = ndim;
    set_typestr(&array, typestr);
    return array;
}

static void datatypes(void) {
    const struct {
        const char *typestr;
        MPI_Datatype type;
        int bytes;
    } rows[] = {
        {"|b1", MPI_C_BOOL, 1},
        {"|i1", MPI_INT8_T, 1},
        {"<i2", MPI_INT16_T, 2},
        {"<i4", MPI_INT32_T, 4},
        {"<i8", MPI_INT64_T, 8},
        {"|u1", MPI_UINT8_T, 1},
        {"<u2", MPI_UINT16_T, 2},
        {"<u4", MPI_UINT32_T, 4},
        {"<u8", MPI_UINT64_T, 8},
        {"<f4", MPI_FLOAT, 4},
        {"<f8", MPI_DOUBLE, 8},
        {"<c8", MPI_C_FLOAT_COMPLEX, 8},
        {"<c16", MPI_C_DOUBLE_COMPLEX, 16},
        {"<M8[ns]", MPI_INT64_T, 8},
        {"<m8[s]", MPI_INT64_T, 8},
        {"<f2", MPI_BYTE, 2},
        {"<f16", MPI_BYTE, 16},
        {"<i16", MPI_BYTE, 16},
        {"<c32", MPI_BYTE, 32},
        {"|S5", MPI_BYTE, 5},
        {"<U2", MPI_BYTE, 8},
        {"|V3", MPI_BYTE, 3},
        {"|t8", MPI_BYTE, 1},
    };
    static unsigned char memory[256];
    const int64_t shape[1] = {3};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const cai_array array = plain(rows[i].typestr, memory, 1, shape);
        cai_mpi_buffer it = CAI_MPI_BUFFER_INIT;
        int size;
        OK(cai_mpi_begin(&array, CAI_ACCESS_READ, &it, error));
        ASSERT(it.element == rows[i].type && it.datatype == rows[i].type && it.address == memory);
        MPI_Type_size(it.element, &size);
        ASSERT(it.nbytes == 3 * rows[i].bytes && it.count * size == 3 * rows[i].bytes);
        cai_mpi_discard(&it);
        ASSERT(it.datatype == MPI_DATATYPE_NULL && it.address == NULL);
        cai_mpi_discard(&it);
    }
    cai_array bits = plain("<t1", memory, 1, shape);
    cai_mpi_buffer it = CAI_MPI_BUFFER_INIT;
    OK(cai_mpi_begin(&bits, CAI_ACCESS_WRITE, &it, error));
    ASSERT(it.count == 1 && it.datatype == MPI_BYTE);
    cai_mpi_discard(&it);
    bits = plain("<V2", memory, 1, shape);
    bits.dtype_code = CAI_DTYPE_BFLOAT16;
    OK(cai_mpi_begin(&bits, CAI_ACCESS_WRITE, &it, error));
    ASSERT(it.count == 6 && it.datatype == MPI_BYTE);
    cai_mpi_discard(&it);
}

static void one_large(int64_t count, int64_t stride, int64_t other, const char *typestr, int size) {
    static unsigned char memory[16];
    const int64_t shape[2] = {count, other}, strides[2] = {stride, 1 << 4};
    cai_array array = plain(typestr, memory, other > 1 ? 2 : 1, shape);
    cai_mpi_buffer it = CAI_MPI_BUFFER_INIT;
    MPI_Count bytes = 0, lower = 0, extent = 0;
    array.strides = strides;
    OK(cai_mpi_begin(&array, CAI_ACCESS_READ, &it, error));
    ASSERT(MPI_Type_size_x(it.datatype, &bytes) == MPI_SUCCESS);
    ASSERT(MPI_Type_get_true_extent_x(it.datatype, &lower, &extent) == MPI_SUCCESS);
    ASSERT(bytes * it.count == count * other * size);
    if (it.count == 1) {
        ASSERT(lower == (stride < 0 ? stride * (count - 1) : 0));
        ASSERT(extent == (stride < 0 ? -stride : stride) * (count - 1) + (other - 1) * 16 + size);
    } else {
        ASSERT(stride == size && other == 1);
    }
    cai_mpi_discard(&it);
}

/* Only the datatypes: there is not so much memory. */
static void large_counts(void) {
    const int64_t two = (int64_t)1 << 31;
    one_large(two - 1, 1, 1, "|u1", 1);
    one_large(two, 1, 1, "|u1", 1);
    one_large(two + 5, 1, 1, "|u1", 1);
    one_large(two + 5, 4, 1, "<f4", 4);
    one_large(two / 4, 12, 1, "|V12", 12);
    one_large(two + 5, 8, 1, "<f4", 4);
    one_large(3 * two, -8, 1, "<f4", 4);
    one_large(two + 7, 64, 3, "<f4", 4);
    one_large(two + 7, -64, 3, "|V3", 3);
}

static void refusals(void) {
    static unsigned char memory[256];
    const int64_t shape[2] = {3, 4}, repeated[2] = {0, 4}, windows[2] = {4, 4};
    const cai_array good = plain("<f4", memory, 2, shape), mask = plain("|b1", memory, 2, shape);
    cai_array array = good;
    cai_mpi_buffer it = CAI_MPI_BUFFER_INIT;
    const uint32_t out = CAI_ACCESS_READ, in = CAI_ACCESS_WRITE;
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_mpi_begin(NULL, out, &it, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_mpi_begin(&array, out, NULL, error));
    REFUSED(CAI_ERR_ARGUMENT, "flags", cai_mpi_begin(&array, 0, &it, error));
    REFUSED(CAI_ERR_ARGUMENT, "flags", cai_mpi_begin(&array, out | 4, &it, error));
    array.struct_size = 8;
    REFUSED(CAI_ERR_STRUCT_SIZE, "struct_size", cai_mpi_begin(&array, out, &it, error));
    array = good;
    array.mask = &mask;
    REFUSED(CAI_ERR_CONVERT_MASK, "mask", cai_mpi_begin(&array, out, &it, error));
    array = good;
    array.flags = CAI_ARRAY_READONLY;
    REFUSED(CAI_ERR_READONLY, "flags", cai_mpi_begin(&array, in, &it, error));
    REFUSED(CAI_ERR_READONLY, "flags", cai_mpi_begin(&array, in | CAI_MPI_STAGE, &it, error));
    OK(cai_mpi_begin(&array, out, &it, error));
    cai_mpi_discard(&it);
    array = good;
    array.strides = repeated;
    REFUSED(CAI_ERR_ARGUMENT, "strides", cai_mpi_begin(&array, in, &it, error));
    OK(cai_mpi_begin(&array, out, &it, error));
    cai_mpi_discard(&it);
    array.strides = windows;
    REFUSED(CAI_ERR_ARGUMENT, "strides", cai_mpi_begin(&array, in, &it, error));
    array = plain(">f4", memory, 2, shape);
    REFUSED(CAI_ERR_CONVERT_BYTE_ORDER, "typestr", cai_mpi_begin(&array, out, &it, error));
    array = plain("|O8", memory, 2, shape);
    REFUSED(CAI_ERR_CONVERT_TYPE, "typestr", cai_mpi_begin(&array, out, &it, error));
    array = good;
    array.device.type = CAI_DEVICE_OPENCL;
    REFUSED(CAI_ERR_CONVERT_DEVICE, "device.type",
            cai_mpi_begin(&array, out | CAI_MPI_DIRECT, &it, error));
    array.device.type = CAI_DEVICE_ROCM;
    REFUSED(CAI_ERR_CONVERT_DEVICE, "device.type", cai_mpi_begin(&array, out, &it, error));
    OK(cai_mpi_begin(&array, out | CAI_MPI_DIRECT, &it, error));
    ASSERT(it.address == memory);
    cai_mpi_discard(&it);
    array = good;
    array.ndim = -1;
    REFUSED(CAI_ERR_NDIM, "ndim", cai_mpi_begin(&array, out, &it, error));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    REFUSED(CAI_ERR_MPI, "MPI_Isend", cai_mpi_send(&good, 7, 0, MPI_COMM_SELF, 0, error));
}

/* --- between ranks, in host memory */

enum { RANKS = 3, ROWS = 5, COLUMNS = 4 };

static int rank;

/* Rows of a matrix with gaps, from `first` on. */
static cai_array rows_of(double *matrix, int64_t first, const int64_t *shape) {
    static const int64_t strides[2] = {COLUMNS * sizeof(double), sizeof(double)};
    cai_array array = plain("<f8", matrix + first * COLUMNS, 2, shape);
    array.strides = strides;
    if (shape[0] == 0) array.data = NULL;
    return array;
}

/* Each collective call takes part with pieces that have no elements, on some ranks or on all. */
static void empty_pieces(void) {
    static const int64_t shapes[RANKS][2] = {{2, 3}, {0, 3}, {3, 3}}, all[2] = {ROWS, 3};
    static const int counts[RANKS] = {6, 0, 9}, starts[RANKS] = {0, 6, 6};
    const uint32_t in = CAI_ACCESS_READ | CAI_MPI_PLAIN, out = CAI_ACCESS_WRITE | CAI_MPI_PLAIN;
    double mine[ROWS * COLUMNS], gathered[ROWS * COLUMNS], sums[ROWS * COLUMNS];
    cai_mpi_buffer piece, whole, none;
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        mine[i] = 100 * rank + i;
        gathered[i] = sums[i] = -1;
    }
    const cai_array part = rows_of(mine, 0, shapes[rank]), nothing = rows_of(mine, 0, shapes[1]);
    const cai_array target = rows_of(gathered, 0, all);
    for (int to_all = 0; to_all < 2; ++to_all) {
        OK(cai_mpi_begin(&part, in, &piece, error));
        ASSERT(piece.count == counts[rank] && piece.datatype == MPI_DOUBLE);
        OK(cai_mpi_begin(&target, out, &whole, error));
        if (to_all)
            MPI_Allgatherv(piece.address, piece.count, piece.datatype, whole.address, counts,
                           starts, whole.datatype, MPI_COMM_WORLD);
        else
            MPI_Gatherv(piece.address, piece.count, piece.datatype, whole.address, counts, starts,
                        whole.datatype, 2, MPI_COMM_WORLD);
        OK(cai_mpi_end(&piece, error));
        if (to_all || rank == 2) OK(cai_mpi_end(&whole, error));
        else cai_mpi_discard(&whole);
        for (int i = 0; i < ROWS * COLUMNS; ++i) {
            const int row = i / COLUMNS, column = i % COLUMNS;
            double expected = row < 2 ? i : 200 + i - 2 * COLUMNS;
            if (column == 3 || !(to_all || rank == 2)) expected = -1;
            ASSERT(gathered[i] >= expected && gathered[i] <= expected);
            gathered[i] = -1;
        }
        OK(cai_mpi_begin(&nothing, in, &none, error));
        ASSERT(none.count == 0 && none.address == NULL && none.datatype == MPI_DOUBLE);
        OK(cai_mpi_begin(&nothing, in | out, &whole, error));
        MPI_Allreduce(none.address, whole.address, none.count, none.datatype, MPI_SUM,
                      MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, whole.address, whole.count, whole.datatype, MPI_SUM,
                      MPI_COMM_WORLD);
        MPI_Bcast(whole.address, whole.count, whole.datatype, 1, MPI_COMM_WORLD);
        OK(cai_mpi_end(&none, error));
        OK(cai_mpi_end(&whole, error));
    }
    ASSERT(sums[0] < 0);
}

/* Pieces with gaps, of another number of rows for each pair of ranks, also none. */
static void all_to_all(void) {
    double mine[RANKS * ROWS * COLUMNS], theirs[RANKS * ROWS * COLUMNS];
    int64_t shapes[2][RANKS][2];
    cai_mpi_buffer pieces[2][RANKS];
    int counts[2][RANKS], starts[2][RANKS];
    MPI_Datatype each[2][RANKS];
    for (int i = 0; i < RANKS * ROWS * COLUMNS; ++i) {
        mine[i] = 1000 * rank + i;
        theirs[i] = -1;
    }
    for (int side = 0; side < 2; ++side)
        for (int other = 0; other < RANKS; ++other) {
            const int from = side == 0 ? rank : other, to = side == 0 ? other : rank;
            double *matrix = (side == 0 ? mine : theirs) + other * ROWS * COLUMNS;
            shapes[side][other][0] = (2 * from + to) % 3;
            shapes[side][other][1] = 3;
            const cai_array piece = rows_of(matrix, 1, shapes[side][other]);
            cai_mpi_buffer *it = &pieces[side][other];
            OK(cai_mpi_begin(&piece, side == 0 ? CAI_ACCESS_READ : CAI_ACCESS_WRITE, it, error));
            counts[side][other] = it->count;
            each[side][other] = it->datatype;
            starts[side][other] = 0;
            if (it->count > 0)
                starts[side][other] = (int)((char *)it->address - (char *)(side ? theirs : mine));
        }
    MPI_Alltoallw(mine, counts[0], starts[0], each[0], theirs, counts[1], starts[1], each[1],
                  MPI_COMM_WORLD);
    for (int other = 0; other < RANKS; ++other) {
        OK(cai_mpi_end(&pieces[0][other], error));
        OK(cai_mpi_end(&pieces[1][other], error));
        for (int i = 0; i < ROWS * COLUMNS; ++i) {
            const int row = i / COLUMNS;
            double expected = 1000 * other + rank * ROWS * COLUMNS + i;
            if (row < 1 || row > (2 * other + rank) % 3 || i % COLUMNS == 3) expected = -1;
            const double found = theirs[other * ROWS * COLUMNS + i];
            ASSERT(found >= expected && found <= expected);
        }
    }
}

/* A mask is an array of its own. If a rank passes one with the data, all ranks are refused. */
static void masked_pieces(void) {
    const int64_t shape[1] = {4};
    double data[4] = {rank + 0.5, rank, rank, rank}, gathered[4 * RANKS];
    unsigned char valid[4] = {1, 0, 1, (unsigned char)(rank % 2)}, all_valid[4 * RANKS];
    cai_array array = plain("<f8", data, 1, shape), mask = plain("|b1", valid, 1, shape);
    cai_mpi_buffer parts[2];
    cai_error why;
    if (rank == 1) array.mask = &mask;
    cai_status status = cai_mpi_begin(&array, CAI_ACCESS_READ | CAI_MPI_PLAIN, &parts[0], &why);
    ASSERT_STATUS(rank == 1 ? CAI_ERR_CONVERT_MASK : CAI_OK, status);
    ASSERT_STATUS(CAI_ERR_CONVERT_MASK, cai_mpi_agree(MPI_COMM_WORLD, status, &why));
    ASSERT(why.code == CAI_ERR_CONVERT_MASK);
    ASSERT_CONTAINS(why.message, rank == 1 ? "mask: found a mask"
                                           : "rank: found CAI_ERR_CONVERT_MASK on rank 1");
    cai_mpi_discard(&parts[0]);
    array.mask = NULL;
    status = cai_mpi_begin(&array, CAI_ACCESS_READ | CAI_MPI_PLAIN, &parts[0], &why);
    if (status == CAI_OK)
        status = cai_mpi_begin(&mask, CAI_ACCESS_READ | CAI_MPI_PLAIN, &parts[1], &why);
    OK(cai_mpi_agree(MPI_COMM_WORLD, status, error));
    MPI_Allgather(parts[0].address, parts[0].count, parts[0].datatype, gathered, parts[0].count,
                  parts[0].datatype, MPI_COMM_WORLD);
    MPI_Allgather(parts[1].address, parts[1].count, parts[1].datatype, all_valid, parts[1].count,
                  parts[1].datatype, MPI_COMM_WORLD);
    for (int i = 0; i < 2; ++i)
        OK(cai_mpi_end(&parts[i], error));
    for (int i = 0; i < RANKS; ++i)
        ASSERT((int)(2 * gathered[4 * i]) == 2 * i + 1 && all_valid[4 * i + 3] == i % 2 &&
               all_valid[4 * i] == 1 && all_valid[4 * i + 1] == 0);
}

static void agreement(void) {
    const cai_status rows[][RANKS] = {
        {CAI_ERR_NDIM, 0, 0},
        {0, 0, CAI_ERR_SHAPE_NULL},
        {0, CAI_ERR_MPI, CAI_ERR_NDIM},
        {0, CAI_ERR_MPI_MISMATCH, 0},
        {CAI_ERR_NO_MEMORY, CAI_ERR_NDIM, CAI_ERR_DRIVER},
    };
    const char *const texts[] = {"CAI_ERR_NDIM on rank 0", "CAI_ERR_SHAPE_NULL on rank 2",
                                 "CAI_ERR_MPI on rank 1", "CAI_ERR_MPI_MISMATCH on rank 1", ""};
    const int first[] = {0, 2, 1, 1, 0};
    OK(cai_mpi_agree(MPI_COMM_WORLD, CAI_OK, error));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const cai_status mine = rows[i][rank];
        cai_error why;
        cai_error_set(&why, mine, "own", "text");
        ASSERT_STATUS(mine != CAI_OK ? mine : rows[i][first[i]],
                      cai_mpi_agree(MPI_COMM_WORLD, mine, &why));
        if (mine != CAI_OK) ASSERT_TEXT("own: text", why.message);
        else ASSERT_CONTAINS(why.message, texts[i]);
    }
}

/* Rank 0 receives from any rank what the others state; one of them is wrong. The messages are
 * longer than MPI sends before the receiver is ready. */
static void checked_ranks(void) {
    enum { LONG = 100000 };
    const int64_t shape[1] = {LONG};
    double *data = (double *)calloc(LONG, sizeof(double));
    cai_array array = plain(rank == 2 ? "<i8" : "<f8", data, 1, shape);
    int wrong = 0;
    if (rank > 0) {
        OK(cai_mpi_send(&array, 0, rank, MPI_COMM_WORLD, CAI_MPI_CHECK, error));
        OK(cai_mpi_send(&array, 0, 9, MPI_COMM_WORLD, CAI_MPI_CHECK, error));
    }
    for (int message = 0; rank == 0 && message < 4; ++message) {
        cai_error why;
        MPI_Status status = {0};
        if (cai_mpi_recv(&array, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, CAI_MPI_CHECK,
                         &status, &why) != CAI_OK) {
            ASSERT(why.code == CAI_ERR_MPI_MISMATCH && status.MPI_SOURCE == 2);
            ASSERT_CONTAINS(why.message, "found \"<i8\" from rank 2");
            ++wrong;
        }
    }
    ASSERT(rank > 0 || wrong == 2);
    free(data);
}

int main(int count, char **words) {
    int level;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
    if (count > 1 && strcmp(words[1], "ranks") == 0) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        empty_pieces();
        all_to_all();
        masked_pieces();
        agreement();
        checked_ranks();
        MPI_Finalize();
        if (rank == 0) puts("passed");
        return 0;
    }
    on_device = count > 1 && strcmp(words[1], "device") == 0;
    if (on_device) {
        CUdevice device;
        CU(cuInit(0));
        CU(cuDeviceGet(&device, 0));
        CU(cuDevicePrimaryCtxRetain(&context_, device));
        CU(cuCtxSetCurrent(context_));
        for (size_t i = 0; i < sizeof streams / sizeof *streams; ++i)
            CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    } else {
        datatypes();
        large_counts();
        refusals();
    }
    layouts(on_device ? 300 : 3000, 0);
    if (level == MPI_THREAD_MULTIPLE) threads();
    short_message(0);
    short_message(CAI_MPI_STAGE);
    short_message(CAI_MPI_DIRECT);
    prepared(0);
    prepared(CAI_MPI_STAGE);
    prepared(CAI_MPI_DIRECT);
    prepared(CAI_MPI_CHECK);
    reduction();
    gather();
    if (on_device) {
        prepared_after_event(0);
        prepared_after_event(CAI_MPI_DIRECT);
        captured(0);
        captured(CAI_MPI_DIRECT);
    }
    MPI_Finalize();
    puts("passed");
    return 0;
}
