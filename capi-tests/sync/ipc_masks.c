/* Arrays with masks, and with fields, between two processes.
 * run: sim eager lazy random:7 threads; devices 2 */
#include "ipc_test.h"
#include <cai/unstable/ipc.h>

enum { HALF = BYTES / 2 };
static const int64_t bytes_shape[1] = {N}, row_shape[2] = {2, N / 2};

/* A mask of bytes over a buffer, on a stream of its own. */
static cai_array mask_of(CUdeviceptr buffer, cai_stream stream) {
    cai_array mask = array_of(buffer, stream);
    mask.shape = bytes_shape;
    memcpy(mask.typestr, "|b1", 4);
    return mask;
}

/* An array with an owner, which keeps the mask as well. */
static cai_array with_mask(CUdeviceptr buffer, cai_stream stream, const cai_array *mask) {
    cai_array borrowed = array_of(buffer, stream), array = CAI_ARRAY_INIT;
    borrowed.mask = mask;
    atomic_store(&freed, 0);
    OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
    return array;
}

static int is_filled(CUdeviceptr buffer, size_t size, unsigned char value, CUstream stream) {
    static unsigned char host[BYTES];
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(host, buffer, size));
    for (size_t i = 0; i < size; ++i) {
        if (host[i] != value) return 0;
    }
    return 1;
}

/* Reads the array and its mask in the order of the one event, which both have. */
PART(reads_masked) {
    cai_array array = import_from(from);
    const cai_array *mask = array.mask;
    CUdeviceptr out = new_buffer();
    CUstream stream = new_stream();
    ASSERT(mask != NULL && mask->owner == array.owner && mask->mask == NULL);
    ASSERT(mask->ndim == 1 && mask->shape[0] == N && mask->strides == NULL);
    ASSERT_TEXT("|b1", mask->typestr);
    ASSERT(mask->flags == 0 && mask->device.type == CAI_DEVICE_CUDA && mask->device.id == 0);
    ASSERT(array.stream == CAI_STREAM_UNKNOWN && mask->stream == CAI_STREAM_UNKNOWN);
    ASSERT(array.event != NULL && mask->event == array.event && mask->context == array.context);
    OK(cai_array_consume_begin(&array, as_value(stream), CAI_ACCESS_READ, error));
    copy(out, (CUdeviceptr)(uintptr_t)array.data, stream);
    ASSERT(holds(out, 1, stream));
    CU(cuMemcpyDtoDAsync(out, (CUdeviceptr)(uintptr_t)mask->data, N, stream));
    ASSERT(is_filled(out, N, 7, stream));
    cai_array_release(&array);
    tell(from, 'd');
    ASSERT(hear(from) == 'e');
}

/* The array's work and that of its mask are pending on two streams. */
static void masked(CUdeviceptr buffer, CUdeviceptr bits) {
    CUstream streams[2] = {new_stream(), new_stream()};
    cai_array mask = mask_of(bits, as_value(streams[1])), array;
    array = with_mask(buffer, as_value(streams[0]), &mask);
    start_peer("reads_masked");
    fill(buffer, 1, streams[0]);
    for (int i = 0; i < 8; ++i)
        CU(cuMemsetD8Async(bits, i < 7 ? 9 : 7, N, streams[1]));
    cai_owner *kept = export_to(peer_socket, &array);
    cai_array_release(&array);
    ASSERT(hear(peer_socket) == 'd' && freed == 0);
    cai_owner_release(kept);
    ASSERT(freed == 1);
    tell(peer_socket, 'e');
    end_peer();
}

CASE(a_mask_in_an_allocation_of_its_own) { masked(new_buffer(), new_buffer()); }

CASE(a_mask_in_the_same_allocation) {
    CUdeviceptr buffer;
    CU(cuMemAlloc(&buffer, 2 * BYTES));
    masked(buffer + BYTES, buffer + 16);
}

CASE(a_mask_in_the_same_pool) {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUdeviceptr buffer = pool_buffer(pool);
    masked(buffer, pool_buffer(pool));
}

CASE(a_mask_in_the_same_mapping) {
    CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    masked(buffer, buffer + BYTES);
}

CASE(a_mask_in_another_kind_of_memory) {
    masked(new_buffer(), mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

/* --- without another process: mapped memory can be opened where it came from */

static cai_array import_again(const unsigned char *bytes, size_t size, int fd) {
    cai_array array = CAI_ARRAY_INIT;
    OK(cai_unstable_ipc_import(bytes, size, fd, 0, &array, error));
    return array;
}

CASE(masks_of_masks) {
    static const int64_t rows[2] = {2, 1}, strides[2] = {-1, 0};
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_array chain[CAI_MAX_MASKS + 1], array = CAI_ARRAY_INIT, empty = CAI_ARRAY_INIT, found;
    const cai_array *mask;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept;
    size_t size;
    int fd, depth = 0;
    for (int i = CAI_MAX_MASKS; i >= 0; --i) {
        chain[i] = mask_of(buffer + BYTES + 100 * (unsigned)i, CAI_STREAM_NONE);
        chain[i].shape = i == 0 ? row_shape : rows;
        chain[i].ndim = 2;
        if (i > 0) chain[i].strides = strides;
        if (i % 2) chain[i].flags = CAI_ARRAY_READONLY;
        if (i < CAI_MAX_MASKS) chain[i].mask = &chain[i + 1];
    }
    OK(cai_array_create(&chain[0], NULL, NULL, &array, error));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    ASSERT(kept == array.owner);
    /* One allocation, and an array and its masks of two dimensions, all with strides but one. */
    ASSERT(size == 32 + 28 + 9 * 40 + 2 * 8 * (1 + 8 * 2));
    found = import_again(bytes, size, fd);
    ASSERT(found.stream == CAI_STREAM_NONE && found.event == NULL);
    for (mask = found.mask; mask != NULL; mask = mask->mask) {
        ++depth;
        ASSERT(mask->ndim == 2 && mask->shape[0] == 2 && mask->shape[1] == 1);
        ASSERT(mask->strides[0] == -1 && mask->strides[1] == 0);
        ASSERT((char *)mask->data - (char *)found.data == 100 * depth);
        ASSERT(mask->flags == (depth % 2 ? CAI_ARRAY_READONLY : 0));
        ASSERT(mask->stream == CAI_STREAM_NONE && mask->event == NULL);
    }
    ASSERT(depth == CAI_MAX_MASKS);
    cai_array_release(&found);
    /* A type of the second mask that does not exist. */
    bytes[32 + 28 + (40 + 2 * 8) + (40 + 4 * 8) + 17] = '?';
    found = empty;
    REFUSED(CAI_ERR_TYPESTR_KIND, "mask.mask.typestr",
            cai_unstable_ipc_import(bytes, size, fd, 0, &found, error));
    close(fd);
    cai_owner_release(kept);
    cai_array_release(&array);
}

/* The event is for all of them if the work of one is pending. */
CASE(only_a_mask_with_pending_work) {
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_array mask = mask_of(buffer + BYTES, CAI_STREAM_UNKNOWN), array, found;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    CUstream stream = new_stream();
    cai_owner *kept;
    size_t size;
    int fd;
    array = with_mask(buffer, CAI_STREAM_NONE, &mask);
    CU(cuMemsetD8Async(buffer + BYTES, 7, N, stream));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    ASSERT(kept != array.owner);
    found = import_again(bytes, size, fd);
    ASSERT(found.stream == CAI_STREAM_UNKNOWN && found.mask->stream == CAI_STREAM_UNKNOWN);
    OK(cai_array_synchronize(&found, CAI_ACCESS_READ, error));
    ASSERT(is_filled((CUdeviceptr)(uintptr_t)found.mask->data, N, 7, NULL));
    close(fd);
    cai_array_release(&found);
    cai_owner_release(kept);
    cai_array_release(&array);
    ASSERT(freed == 1);
}

/* The array's stream is not known, and that of its mask is. */
CASE(an_unknown_stream_and_a_known_one) {
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUstream streams[2] = {new_stream(), new_stream()};
    cai_array mask = mask_of(buffer + BYTES, as_value(streams[1])), array, found;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept;
    size_t size;
    int fd;
    array = with_mask(buffer, CAI_STREAM_UNKNOWN, &mask);
    fill(buffer, 6, streams[0]);
    CU(cuMemsetD8Async(buffer + BYTES, 7, N, streams[1]));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    found = import_again(bytes, size, fd);
    CU(cuEventSynchronize(found.event));
    ASSERT_CU(CUDA_SUCCESS, cuStreamQuery(streams[0]));
    ASSERT_CU(CUDA_SUCCESS, cuStreamQuery(streams[1]));
    close(fd);
    cai_array_release(&found);
    cai_owner_release(kept);
    cai_array_release(&array);
    ASSERT(freed == 1);
    CU(cuCtxSynchronize());
}

static int maps(void) {
    char line[4096];
    FILE *in = fopen("/proc/self/maps", "r");
    int count = 0;
    ASSERT(in != NULL);
    while (fgets(line, sizeof line, in) != NULL)
        ++count;
    fclose(in);
    return count;
}

/* The context that the memory was opened in ends before the array. */
CASE(a_context_that_was_destroyed) {
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_array mask = mask_of(buffer + BYTES, as_value(new_stream())), array, found;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    CUcontext own;
    cai_owner *kept;
    size_t size;
    int fd, before = 0;
    array = with_mask(buffer, CAI_STREAM_NONE, &mask);
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    for (int i = 0; i < 40; ++i) {
        own = second_context();
        found = import_again(bytes, size, fd);
        ASSERT(found.context == own);
        CU(cuCtxDestroy(own));
        CU(cuCtxSetCurrent(context[0]));
        cai_array_release(&found);
        if (i == 9) before = maps();
    }
    ASSERT(maps() < before + 20);
    close(fd);
    cai_owner_release(kept);
    cai_array_release(&array);
    ASSERT(freed == 1);
}

/* The array has no elements; its mask has one. */
CASE(a_mask_of_no_elements) {
    static const int64_t none[1] = {0}, one[1] = {1};
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_array mask = mask_of(buffer + 5, CAI_STREAM_NONE), array = CAI_ARRAY_INIT, found;
    cai_array empty = array_of(0, CAI_STREAM_NONE);
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept;
    size_t size;
    int fd;
    mask.shape = one;
    mask.stream = as_value(new_stream());
    empty.shape = none;
    empty.mask = &mask;
    OK(cai_array_create(&empty, NULL, NULL, &array, error));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    found = import_again(bytes, size, fd);
    ASSERT(found.data == NULL && found.stream == CAI_STREAM_NONE);
    ASSERT(found.mask->data != NULL && found.mask->stream == CAI_STREAM_UNKNOWN);
    close(fd);
    cai_array_release(&found);
    cai_owner_release(kept);
    /* Neither has. */
    mask = mask_of(0, CAI_STREAM_NONE);
    mask.shape = none;
    cai_array_release(&array);
    OK(cai_array_create(&empty, NULL, NULL, &array, error));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, NULL, &kept, error));
    found = import_again(bytes, size, -1);
    ASSERT(found.data == NULL && found.mask->data == NULL && found.mask->shape[0] == 0);
    cai_array_release(&found);
    cai_owner_release(kept);
    cai_array_release(&array);
}

static void refused(const cai_array *from, cai_status status, const char *field) {
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE] = {0};
    cai_array array = CAI_ARRAY_INIT;
    cai_owner *kept = NULL;
    size_t size = 7;
    int fd = -2;
    atomic_store(&freed, 0);
    OK(cai_array_create(from, &freed, count_destroyed, &array, error));
    REFUSED(status, field,
            cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    ASSERT(kept == NULL && fd == -2 && size == 7 && bytes[0] == 0 && freed == 0);
    cai_array_release(&array);
    ASSERT(freed == 1);
}

CASE(masks_that_cannot_be_exported) {
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_array array = array_of(buffer, CAI_STREAM_NONE), mask, inner;
    CUstream stream = new_stream();
    CUgraph graph;
    void *host;
    array.mask = &mask;
    mask = mask_of(mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CAI_STREAM_NONE);
    refused(&array, CAI_ERR_CONVERT_MASK, "mask.data");
    mask =
        mask_of(pool_buffer(new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)), CAI_STREAM_NONE);
    refused(&array, CAI_ERR_CONVERT_MASK, "mask.data");
    inner = mask;
    array.data = (void *)(uintptr_t)new_buffer();
    mask = mask_of(buffer, CAI_STREAM_NONE);
    mask.mask = &inner;
    refused(&array, CAI_ERR_CONVERT_MASK, "mask.mask.data");
    mask.mask = NULL;
    CU(cuMemAllocHost(&host, N));
    mask = mask_of((CUdeviceptr)(uintptr_t)host, CAI_STREAM_NONE);
    mask.device.type = CAI_DEVICE_CUDA_HOST;
    refused(&array, CAI_ERR_IPC_MEMORY, "mask.data");
    mask = mask_of(mapped_buffer(0), CAI_STREAM_NONE);
    refused(&array, CAI_ERR_IPC_MEMORY, "data");
    mask = mask_of(new_buffer() + BYTES - N + 1, CAI_STREAM_NONE);
    refused(&array, CAI_ERR_OUT_OF_ALLOCATION, "mask.data");
    mask = mask_of(new_buffer(), as_value(stream));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    refused(&array, CAI_ERR_CAPTURE_PRODUCER, "mask.stream");
    CU(cuStreamEndCapture(stream, &graph));
}

/* Two pools have two descriptors. */
CASE(a_mask_in_another_pool) {
    cai_array array, mask;
    array =
        array_of(pool_buffer(new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)), CAI_STREAM_NONE);
    mask =
        mask_of(pool_buffer(new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)), CAI_STREAM_NONE);
    array.mask = &mask;
    refused(&array, CAI_ERR_CONVERT_MASK, "mask.data");
}

/* --- fields */

static cai_array structured(CUdeviceptr buffer, const cai_descr *descr, const char *typestr) {
    static const int64_t one[1] = {1};
    cai_array array = array_of(buffer, CAI_STREAM_NONE);
    array.shape = one;
    strcpy(array.typestr, typestr);
    array.descr = descr;
    return array;
}

CASE(fields) {
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const char *const texts[] = {
        "[('x', '<f4'), ('', '|V4'), (('the \\'title\\'', 'm'), '<i4', (2, 3))]",
        "[('a', [('b', '>i2'), ('\\u00fc\\n', [('d', '|b1', (1,))])]), ('e', '<M8[25us]', (0,))]",
        "[]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        cai_array borrowed, array = CAI_ARRAY_INIT, found, mask = mask_of(buffer, CAI_STREAM_NONE);
        const cai_descr *descr;
        cai_owner *of_descr, *kept;
        unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
        char typestr[16];
        bool equal = false;
        int64_t itemsize;
        size_t size;
        int fd;
        OK(cai_descr_parse(texts[i], &descr, &of_descr, error));
        OK(cai_descr_itemsize(descr, &itemsize, error));
        /* Elements of no bytes are refused for every array. */
        if (itemsize == 0) {
            cai_owner_release(of_descr);
            continue;
        }
        snprintf(typestr, sizeof typestr, "|V%d", (int)itemsize);
        borrowed = structured(buffer, descr, typestr);
        mask.shape = borrowed.shape;
        borrowed.mask = &mask;
        OK(cai_array_create(&borrowed, NULL, NULL, &array, error));
        cai_owner_release(of_descr);
        OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
        found = import_again(bytes, size, fd);
        ASSERT(found.descr != NULL && found.descr != array.descr && found.mask != NULL);
        ASSERT(found.mask->descr == NULL);
        OK(cai_descr_equal(array.descr, found.descr, &equal, error));
        ASSERT(equal);
        /* Every byte of the text altered, and none of it left. */
        for (size_t at = size - strlen(texts[i]); at < size; ++at) {
            cai_array out = CAI_ARRAY_INIT;
            bytes[at] ^= 0x81;
            ASSERT(cai_unstable_ipc_import(bytes, size, fd, 0, &out, NULL) != CAI_OK);
            bytes[at] ^= 0x81;
        }
        close(fd);
        cai_array_release(&found);
        cai_owner_release(kept);
        cai_array_release(&array);
    }
}

CASE(fields_of_another_type_are_left_out) {
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_field rows[1];
    const cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 1, rows};
    cai_array borrowed, array = CAI_ARRAY_INIT, found;
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept;
    size_t size;
    int fd;
    memset(rows, 0, sizeof rows);
    rows[0].name = "";
    memcpy(rows[0].typestr, "<i4", 4);
    borrowed = structured(buffer, &descr, "<i4");
    OK(cai_array_create(&borrowed, NULL, NULL, &array, error));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    found = import_again(bytes, size, fd);
    ASSERT(found.descr == NULL);
    close(fd);
    cai_array_release(&found);
    cai_owner_release(kept);
    cai_array_release(&array);
}

CASE(fields_that_cannot_be_exported) {
    const CUdeviceptr buffer = new_buffer();
    static char name[CAI_UNSTABLE_IPC_FIELDS];
    cai_field inner[1], rows[1];
    const cai_descr nested = {sizeof(cai_descr), sizeof(cai_field), 1, inner};
    const cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 1, rows};
    const cai_array array = structured(buffer, &descr, "|V2");
    memset(inner, 0, sizeof inner);
    memset(rows, 0, sizeof rows);
    rows[0].name = "r";
    memcpy(rows[0].typestr, "<V2", 4);
    rows[0].dtype_code = CAI_DTYPE_BFLOAT16;
    refused(&array, CAI_ERR_CONVERT_TYPE, "descr[0].dtype_code");
    inner[0] = rows[0];
    rows[0].dtype_code = CAI_DTYPE_NONE;
    memset(rows[0].typestr, 0, sizeof rows[0].typestr);
    rows[0].nested = &nested;
    refused(&array, CAI_ERR_CONVERT_TYPE, "descr[0].nested[0].dtype_code");
    rows[0].nested = NULL;
    memcpy(rows[0].typestr, "<i2", 4);
    memset(name, 'n', sizeof name - 1);
    rows[0].name = name;
    refused(&array, CAI_ERR_CONVERT_TYPE, "descr");
    /* The longest name: the text has 13 characters more. */
    name[CAI_UNSTABLE_IPC_FIELDS - 13] = '\0';
    {
        cai_array owned = CAI_ARRAY_INIT;
        unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
        cai_owner *kept;
        OK(cai_array_create(&array, NULL, NULL, &owned, error));
        OK(cai_unstable_ipc_export(&owned, 0, bytes, sizeof bytes, NULL, NULL, &kept, error));
        cai_owner_release(kept);
        cai_array_release(&owned);
    }
    name[CAI_UNSTABLE_IPC_FIELDS - 13] = 'n';
    name[CAI_UNSTABLE_IPC_FIELDS - 12] = '\0';
    refused(&array, CAI_ERR_CONVERT_TYPE, "descr");
}

/* --- the largest array */

CASE(everything_fits) {
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUstream stream = new_stream();
    int64_t shape[CAI_MAX_NDIM], strides[CAI_MAX_NDIM];
    cai_array chain[CAI_MAX_MASKS + 1], array = CAI_ARRAY_INIT, found;
    cai_field rows[1];
    const cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 1, rows};
    static char name[CAI_UNSTABLE_IPC_FIELDS - 12];
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept;
    size_t size, asked;
    int fd;
    for (int i = 0; i < CAI_MAX_NDIM; ++i) {
        shape[i] = 1;
        strides[i] = INT64_MIN / 2;
    }
    memset(rows, 0, sizeof rows);
    memset(name, 'n', sizeof name - 1);
    rows[0].name = name;
    memcpy(rows[0].typestr, "<i2", 4);
    for (int i = CAI_MAX_MASKS; i >= 0; --i) {
        const CUdeviceptr memory = i == 0 ? buffer : new_buffer();
        chain[i] = mask_of(memory, as_value(stream));
        if (i == 0) chain[i] = structured(memory, &descr, "|V2");
        chain[i].shape = shape;
        chain[i].strides = strides;
        chain[i].ndim = CAI_MAX_NDIM;
        if (i < CAI_MAX_MASKS) chain[i].mask = &chain[i + 1];
    }
    OK(cai_array_create(&chain[0], NULL, NULL, &array, error));
    OK(cai_unstable_ipc_export(&array, 0, NULL, 0, &asked, NULL, NULL, error));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    ASSERT(asked == size && size == 32 + 64 + 9 * 28 + 8 * 64 + 9 * (40 + 1024) + 4096);
    cai_owner_release(kept);
    REFUSED(CAI_ERR_BUFFER_SIZE, "size",
            cai_unstable_ipc_export(&array, 0, bytes, size - 1, NULL, &fd, &kept, error));
    /* Plain memory cannot be opened in this process. What was opened before it is closed. */
    found = array;
    REFUSED(CAI_ERR_IPC_MEMORY, "bytes",
            cai_unstable_ipc_import(bytes, size, fd, 0, &found, error));
    ASSERT(found.data == array.data);
    close(fd);
    cai_array_release(&array);
}

/* --- altered bytes */

/* Every byte of an array with a mask and fields, altered in several ways, and every length. */
PART(is_attacked_with_masks) {
    static const unsigned char changes[] = {1, 2, 0x20, 0x80, 0xff};
    packet it;
    const int fd = receive_packet(from, &it);
    long taken = 0, expected = 1;
    for (size_t at = 0; at <= it.size; ++at) {
        for (size_t how = 0; how < sizeof changes; ++how) {
            cai_array array = CAI_ARRAY_INIT;
            cai_error why;
            if (at < it.size) it.bytes[at] ^= changes[how];
            cai_status status = cai_unstable_ipc_import(it.bytes, it.size, fd, 0, &array, &why);
            if (at < it.size) it.bytes[at] ^= changes[how];
            if (status == CAI_OK) {
                ++taken;
                ASSERT(array.mask != NULL && array.owner != NULL);
                ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_LAYOUT, NULL));
                cai_array_release(&array);
            } else {
                ASSERT(array.owner == NULL && why.code == status);
                ASSERT(status < 900 && status != CAI_ERR_DEVICE_LOST);
            }
        }
    }
    for (size_t size = 0; size < it.size; ++size) {
        cai_array array = CAI_ARRAY_INIT;
        ASSERT(cai_unstable_ipc_import(it.bytes, size, fd, 0, &array, NULL) != CAI_OK);
    }
    ASSERT(taken > expected);
    tell(from, 'd');
}

static void attacked(CUdeviceptr buffer, CUdeviceptr bits) {
    static const int64_t one[1] = {1};
    cai_field rows[2];
    const cai_descr descr = {sizeof(cai_descr), sizeof(cai_field), 2, rows};
    cai_array borrowed, array = CAI_ARRAY_INIT, mask = mask_of(bits, as_value(new_stream()));
    memset(rows, 0, sizeof rows);
    rows[0].name = "x";
    rows[1].name = "y";
    memcpy(rows[0].typestr, "<i4", 4);
    memcpy(rows[1].typestr, "<f4", 4);
    borrowed = structured(buffer, &descr, "|V8");
    mask.shape = one;
    borrowed.mask = &mask;
    atomic_store(&freed, 0);
    OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
    pass_to("is_attacked_with_masks", &array);
}

CASE(altered_bytes_of_two_allocations) { attacked(new_buffer(), new_buffer()); }
CASE(altered_bytes_of_one_mapping) {
    CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    attacked(buffer, buffer + HALF);
}
CASE(altered_bytes_of_one_pool) {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUdeviceptr buffer = pool_buffer(pool);
    attacked(buffer, pool_buffer(pool));
}

int main(int count, char **words) { return ipc_main(count, words); }
