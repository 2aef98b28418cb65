/*
 * Arrays between two processes: this one exports, and a child that it starts, this program again
 * with the name of a part, imports. They talk over a Unix socket, with file descriptors beside the
 * bytes.
 * run: sim eager lazy random:7 threads; devices 2
 */
#include "ipc_test.h"
#include <cai/unstable/ipc.h>

#include <sys/resource.h>

/* An array with an owner over part of a buffer: every second element, backwards. */
static cai_array owned(CUdeviceptr buffer, cai_stream stream) {
    static const int64_t shape[1] = {N / 2}, strides[1] = {-8};
    cai_array borrowed = array_of(buffer, stream), array = CAI_ARRAY_INIT;
    borrowed.shape = shape;
    borrowed.strides = strides;
    borrowed.data = (char *)borrowed.data + BYTES - 4;
    atomic_store(&freed, 0);
    OK(cai_array_create(&borrowed, &freed, count_destroyed, &array, error));
    return array;
}

/* Reads an imported array on a stream, and writes to it. */
PART(works) {
    cai_array array = import_from(from);
    CUstream stream = new_stream();
    CUdeviceptr lowest, out = new_buffer();
    ASSERT(array.ndim == 1 && array.shape[0] == N / 2 && array.strides[0] == -8);
    ASSERT(array.device.type == CAI_DEVICE_CUDA && array.device.id == 0);
    ASSERT(array.stream == CAI_STREAM_UNKNOWN && array.event != NULL && array.context != NULL);
    lowest = (CUdeviceptr)(uintptr_t)array.data + 4 - BYTES;
    OK(cai_array_consume_begin(&array, as_value(stream), CAI_ACCESS_READ | CAI_ACCESS_WRITE,
                               error));
    copy(out, lowest, stream);
    ASSERT(holds(out, 1, stream));
    fill(lowest, 2, stream);
    OK(cai_array_consume_end(&array, as_value(stream), CAI_ACCESS_READ | CAI_ACCESS_WRITE, error));
    CU(cuStreamSynchronize(stream));
    cai_array_release(&array);
    tell(from, 'd');
    ASSERT(hear(from) == 'e');
}

/* Exports memory with pending work, and sees what the other process wrote. */
static void exporter_works(CUdeviceptr buffer) {
    CUstream stream = new_stream();
    cai_array array = owned(buffer, as_value(stream));
    start_peer("works");
    fill(buffer, 1, stream);
    cai_owner *kept = export_to(peer_socket, &array);
    cai_array_release(&array);
    ASSERT(freed == 0);
    ASSERT(hear(peer_socket) == 'd');
    ASSERT(holds(buffer, 2, stream));
    ASSERT(freed == 0);
    cai_owner_release(kept);
    ASSERT(freed == 1);
    tell(peer_socket, 'e');
    end_peer();
}

/* --- kinds of memory */

CASE(plain_memory) { exporter_works(new_buffer()); }

CASE(plain_memory_inside_an_allocation) {
    CUdeviceptr buffer;
    CU(cuMemAlloc(&buffer, 3 * BYTES));
    exporter_works(buffer + BYTES);
}

CASE(memory_of_a_pool) {
    exporter_works(pool_buffer(new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
}

CASE(mapped_memory) { exporter_works(mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)); }

/* --- streams */

PART(reads) {
    cai_array array = import_from(from);
    CUdeviceptr out = new_buffer();
    CUstream stream = new_stream();
    const int has_event = hear(from) == 'e';
    ASSERT(array.stream == (has_event ? CAI_STREAM_UNKNOWN : CAI_STREAM_NONE));
    ASSERT((array.event != NULL) == has_event);
    ASSERT(array.flags == CAI_ARRAY_READONLY);
    REFUSED(CAI_ERR_READONLY, "flags",
            cai_array_consume_begin(&array, as_value(stream), CAI_ACCESS_WRITE, error));
    read_into(out, &array, stream);
    ASSERT(holds(out, 1, stream));
    cai_array_release(&array);
    tell(from, 'd');
}

static void exporter_is_read(cai_array array, char word) {
    array.flags = CAI_ARRAY_READONLY;
    OK(cai_owner_create(NULL, NULL, &array.owner, error));
    start_peer("reads");
    cai_owner *kept = export_to(peer_socket, &array);
    cai_array_release(&array);
    tell(peer_socket, word);
    ASSERT(hear(peer_socket) == 'd');
    cai_owner_release(kept);
    end_peer();
}

CASE(no_pending_work) {
    CUdeviceptr buffer = new_buffer();
    fill(buffer, 1, NULL);
    CU(cuCtxSynchronize());
    exporter_is_read(array_of(buffer, CAI_STREAM_NONE), 'n');
}

CASE(legacy_stream) {
    CUdeviceptr buffer = new_buffer();
    fill(buffer, 1, NULL);
    exporter_is_read(array_of(buffer, CAI_STREAM_LEGACY), 'e');
}

/* Of the memory's context or of the current one, in which the work is. */
CASE(legacy_stream_in_either_context) {
    CUdeviceptr buffer = new_buffer();
    second_context();
    fill(buffer, 1, CU_STREAM_LEGACY);
    exporter_is_read(array_of(buffer, CAI_STREAM_LEGACY), 'e');
}

CASE(unknown_stream_with_an_event) {
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    cai_array array = array_of(buffer, CAI_STREAM_UNKNOWN);
    array.event = new_event();
    fill(buffer, 1, stream);
    CU(cuEventRecord(array.event, stream));
    exporter_is_read(array, 'e');
}

CASE(unknown_stream) {
    CUdeviceptr buffer = new_buffer();
    fill(buffer, 1, new_stream());
    exporter_is_read(array_of(buffer, CAI_STREAM_UNKNOWN), 'e');
}

CASE(a_capture_is_refused_and_stays_intact) {
    CUstream stream = new_stream();
    CUgraph graph;
    cai_array array = owned(new_buffer(), as_value(stream));
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept = NULL;
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    REFUSED(CAI_ERR_CAPTURE_PRODUCER, "stream",
            cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, NULL, NULL, &kept, error));
    ASSERT(kept == NULL);
    CU(cuStreamEndCapture(stream, &graph));
    cai_array_release(&array);
    ASSERT(freed == 1);
}

/* --- arrays without elements */

CASE(no_elements) {
    static const int64_t shape[2] = {3, 0};
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_array array = array_of(0, as_value(new_stream())), found = CAI_ARRAY_INIT;
    cai_owner *kept = NULL;
    size_t size = 0;
    int fd = 7;
    array.shape = shape;
    array.ndim = 2;
    OK(cai_owner_create(&freed, count_destroyed, &array.owner, error));
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    ASSERT(fd == -1 && kept == array.owner);
    OK(cai_unstable_ipc_import(bytes, size, -1, 0, &found, error));
    ASSERT(found.data == NULL && found.ndim == 2 && found.shape[0] == 3 && found.shape[1] == 0);
    ASSERT(found.stream == CAI_STREAM_NONE);
    cai_array_release(&found);
    cai_owner_release(kept);
    /* A type that only its code describes. */
    memcpy(array.typestr, "<V2", 4);
    array.dtype_code = CAI_DTYPE_BFLOAT16;
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, NULL, &kept, error));
    OK(cai_unstable_ipc_import(bytes, size, -1, 0, &found, error));
    ASSERT(found.dtype_code == CAI_DTYPE_BFLOAT16 && strcmp(found.typestr, "<V2") == 0);
    cai_array_release(&found);
    cai_owner_release(kept);
    cai_array_release(&array);
    ASSERT(freed == 1);
}

/* --- what is refused */

static void refused(cai_array array, cai_status status, const char *field) {
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept = NULL;
    int fd = -2;
    if (array.owner == NULL && status != CAI_ERR_BORROWED)
        OK(cai_owner_create(NULL, NULL, &array.owner, error));
    REFUSED(status, field,
            cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, NULL, &fd, &kept, error));
    ASSERT(kept == NULL && fd == -2);
    if (array.owner != NULL) cai_array_release(&array);
}

CASE(what_cannot_be_exported) {
    const CUdeviceptr buffer = new_buffer();
    const cai_array good = array_of(buffer, CAI_STREAM_NONE);
    cai_array array = good;
    CUdeviceptr other;
    void *host;
    refused(array, CAI_ERR_BORROWED, "owner");
    // Also where only the size is asked for.
    size_t size = 0;
    ASSERT_STATUS(CAI_ERR_BORROWED,
                  cai_unstable_ipc_export(&array, 0, NULL, 0, &size, NULL, NULL, NULL));
    array = good;
    array.device.type = CAI_DEVICE_CPU;
    refused(array, CAI_ERR_CONVERT_DEVICE, "device.type");
    CU(cuMemAllocManaged(&other, BYTES, CU_MEM_ATTACH_GLOBAL));
    refused(array_of(other, CAI_STREAM_NONE), CAI_ERR_IPC_MEMORY, "data");
    CU(cuMemAllocHost(&host, BYTES));
    refused(array_of((CUdeviceptr)(uintptr_t)host, CAI_STREAM_NONE), CAI_ERR_IPC_MEMORY, "data");
    refused(array_of((CUdeviceptr)(uintptr_t)&array, CAI_STREAM_NONE), CAI_ERR_IPC_MEMORY, "data");
    refused(array_of(pool_buffer(new_pool(0)), CAI_STREAM_NONE), CAI_ERR_IPC_MEMORY, "data");
    refused(array_of(mapped_buffer(0), CAI_STREAM_NONE), CAI_ERR_IPC_MEMORY, "data");
    refused(array_of(buffer + 4, CAI_STREAM_NONE), CAI_ERR_OUT_OF_ALLOCATION, "data");
    array = owned(buffer, CAI_STREAM_NONE);
    array.data = (char *)array.data - 8;
    refused(array, CAI_ERR_OUT_OF_ALLOCATION, "data");
}

CASE(arguments) {
    cai_array array = owned(new_buffer(), CAI_STREAM_NONE), out = CAI_ARRAY_INIT;
    cai_array mapped =
        owned(mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CAI_STREAM_NONE);
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE + 1] = {0};
    cai_owner *kept = NULL;
    size_t size = 0, same = 0;
    int fd;
    OK(cai_unstable_ipc_export(&array, 0, NULL, 0, &size, NULL, NULL, error));
    ASSERT(size > 100 && size <= CAI_UNSTABLE_IPC_SIZE);
    REFUSED(CAI_ERR_BUFFER_SIZE, "size",
            cai_unstable_ipc_export(&array, 0, bytes, size - 1, NULL, NULL, &kept, error));
    REFUSED(CAI_ERR_NEWER_CALLER, "flags",
            cai_unstable_ipc_export(&array, 1, bytes, size, NULL, NULL, &kept, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out_owner",
            cai_unstable_ipc_export(&array, 0, bytes, size, NULL, NULL, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "buffer",
            cai_unstable_ipc_export(&array, 0, NULL, size, NULL, NULL, &kept, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out_fd",
            cai_unstable_ipc_export(&mapped, 0, bytes, sizeof bytes, NULL, NULL, &kept, error));
    ASSERT(kept == NULL && bytes[0] == 0);
    OK(cai_unstable_ipc_export(&mapped, 0, NULL, 0, &same, NULL, NULL, error));
    OK(cai_unstable_ipc_export(&mapped, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    ASSERT(same == size);
    REFUSED(CAI_ERR_ARGUMENT, "fd", cai_unstable_ipc_import(bytes, size, -1, 0, &out, error));
    REFUSED(CAI_ERR_NEWER_CALLER, "flags",
            cai_unstable_ipc_import(bytes, size, fd, 2, &out, error));
    REFUSED(CAI_ERR_IPC_BYTES, "size",
            cai_unstable_ipc_import(bytes, size - 1, fd, 0, &out, error));
    REFUSED(CAI_ERR_IPC_BYTES, "size",
            cai_unstable_ipc_import(bytes, size + 1, fd, 0, &out, error));
    REFUSED(CAI_ERR_IPC_BYTES, "size",
            cai_unstable_ipc_import(bytes, sizeof bytes, fd, 0, &out, error));
    /* Mapped memory can be opened where it came from. */
    OK(cai_unstable_ipc_import(bytes, size, fd, 0, &out, error));
    ASSERT(out.data != mapped.data);
    cai_array_release(&out);
    close(fd);
    cai_owner_release(kept);
    /* Plain memory cannot. */
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, NULL, &kept, error));
    REFUSED(CAI_ERR_IPC_MEMORY, "bytes", cai_unstable_ipc_import(bytes, size, -1, 0, &out, error));
    ASSERT(out.owner == NULL);
    cai_owner_release(kept);
    cai_array_release(&array);
    cai_array_release(&mapped);
    ASSERT(freed == 2);
}

/* Whatever code the driver returns then. */
CASE(no_free_descriptor) {
    const struct rlimit few = {64, 64};
    cai_array array = owned(new_buffer(), as_value(new_stream()));
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept = NULL;
    uint64_t channel = 0;
    ASSERT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (dup(0) >= 0) {
    }
    REFUSED(CAI_ERR_IPC_SYSTEM, "fd",
            cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, NULL, NULL, &kept, error));
    ASSERT(kept == NULL);
    REFUSED(CAI_ERR_IPC_SYSTEM, "channel", cai_unstable_channel_create(0, 0, &channel, error));
    cai_array_release(&array);
    ASSERT(freed == 1);
}

/* --- altered bytes */

/* The places are those of the form's documentation. */
enum { HEAD = 32, EVENT = 64, ALLOCATION = HEAD + EVENT };

/* Lines of /proc/self/maps, and open descriptors. */
static int count_of(const char *path, int lines) {
    char text[4096];
    FILE *in = fopen(path, "r");
    int count = 0;
    ASSERT(in != NULL && lines);
    while (fgets(text, sizeof text, in) != NULL)
        ++count;
    fclose(in);
    return count;
}

static void try_bytes(const unsigned char *bytes, size_t size, int fd, long taken[2]) {
    cai_array array = CAI_ARRAY_INIT;
    cai_error why;
    const cai_status status = cai_unstable_ipc_import(bytes, size, fd, 0, &array, &why);
    ++taken[status == CAI_OK];
    if (status != CAI_OK) {
        ASSERT(array.owner == NULL && why.code == status);
        ASSERT(status < 900 && status != CAI_ERR_DEVICE_LOST);
        return;
    }
    {
        const cai_status found =
            cai_array_validate(&array, CAI_CHECK_LAYOUT | CAI_CHECK_DEVICE, NULL);
        /* An altered UUID may be that of another device than the current one. */
        ASSERT(found == CAI_OK || (found == CAI_ERR_NOT_ACCESSIBLE && array.device.id == 1));
    }
    cai_array_release(&array);
}

/* Every byte altered in several ways, and every length. */
PART(is_attacked) {
    static const unsigned char changes[] = {1, 2, 0x10, 0x80, 0xff};
    packet it;
    const int fd = receive_packet(from, &it);
    long taken[2] = {0, 0};
    size_t at;
    try_bytes(it.bytes, it.size, fd, taken);
    ASSERT(taken[1] == 1);
    int before = count_of("/proc/self/maps", 1);
    for (size_t size = 0; size < it.size; ++size)
        try_bytes(it.bytes, size, fd, taken);
    ASSERT(taken[1] == 1);
    for (at = 0; at < it.size; ++at) {
        for (size_t how = 0; how < sizeof changes; ++how) {
            it.bytes[at] ^= changes[how];
            try_bytes(it.bytes, it.size, fd, taken);
            it.bytes[at] ^= changes[how];
        }
    }
    ASSERT(taken[0] > 700);
    /* An allocation that is said to be larger, and an array behind the end of the true one. */
    at = it.size - 2 * 8 - 40 + 32;
    it.bytes[ALLOCATION + 20 + 5] ^= 1;
    it.bytes[at + 4] ^= 1;
    {
        const long before_both = taken[1];
        try_bytes(it.bytes, it.size, fd, taken);
        ASSERT(taken[1] == before_both);
    }
    it.bytes[ALLOCATION + 20 + 5] ^= 1;
    it.bytes[at + 4] ^= 1;
    try_bytes(it.bytes, it.size, -1, taken);
    try_bytes(it.bytes, it.size, STDERR_FILENO, taken);
    ASSERT(count_of("/proc/self/maps", 1) <= before + 8);
    tell(from, 'd');
}

static void attacked(CUdeviceptr buffer) {
    CUstream stream = new_stream();
    cai_array array = owned(buffer, as_value(stream));
    pass_to("is_attacked", &array);
}

/* Each rule of the form, broken alone. */
static void broken(const unsigned char *good, size_t size, int fd, size_t at, unsigned char value,
                   cai_status status) {
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_array out = CAI_ARRAY_INIT;
    ASSERT(size <= sizeof bytes && at < size && good[at] != value);
    memcpy(bytes, good, size);
    bytes[at] = value;
    ASSERT_STATUS(status, cai_unstable_ipc_import(bytes, size, fd, 0, &out, NULL));
    ASSERT(out.owner == NULL);
}

CASE(rules_of_the_form) {
    static const int64_t none[1] = {0};
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_array array = owned(buffer, CAI_STREAM_NONE), empty = array_of(0, CAI_STREAM_NONE);
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept, *other;
    size_t size, at;
    int fd;
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    /* Without an event, and without a handle. */
    at = HEAD + 28;
    ASSERT(size == at + 40 + 2 * 8);
    broken(bytes, size, fd, 0, 'D', CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 8, 1, CAI_ERR_IPC_VERSION);
    broken(bytes, size, fd, 12, (unsigned char)(bytes[12] + 1), CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 16, 1, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 16, 2, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 20, 2, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 20, 10, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 24, 0, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 24, 2, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 24, 10, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, 28, 1, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, HEAD, 0, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, HEAD, 4, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, HEAD + 4, (unsigned char)(bytes[HEAD + 4] + 1), CAI_ERR_IPC_DEVICE);
    broken(bytes, size, fd, at, 0, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, at, 2, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, at + 4, 2 | 4, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, at + 8, 65, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, at + 14, 1, CAI_ERR_IPC_BYTES);
    broken(bytes, size, fd, at + 16, 'x', CAI_ERR_TYPESTR_ORDER);
    /* The bytes contradict themselves: that is seen before the descriptor is missed. */
    broken(bytes, size, -1, at + 38, 1, CAI_ERR_OUT_OF_ALLOCATION);
    broken(bytes, size, -1, at + 39, 0xff, CAI_ERR_OUT_OF_ALLOCATION);
    OK(cai_owner_create(NULL, NULL, &empty.owner, error));
    empty.shape = none;
    OK(cai_unstable_ipc_export(&empty, 0, bytes, sizeof bytes, &size, NULL, &other, error));
    ASSERT(size == HEAD + 40 + 8);
    broken(bytes, size, -1, HEAD, 1, CAI_ERR_IPC_BYTES);
    broken(bytes, size, -1, HEAD + 40, 1, CAI_ERR_IPC_BYTES);
    broken(bytes, size, -1, 28, 8, CAI_ERR_IPC_BYTES);
    broken(bytes, size, -1, 29, 0x20, CAI_ERR_IPC_BYTES);
    cai_owner_release(other);
    cai_array_release(&empty);
    close(fd);
    cai_owner_release(kept);
    cai_array_release(&array);
    ASSERT(freed == 1);
}

static void assembled(const unsigned char *head, size_t size, const unsigned char *rest,
                      size_t more, int fd) {
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_array out = CAI_ARRAY_INIT;
    memcpy(bytes, head, size);
    memcpy(bytes + size, rest, more);
    bytes[12] = (unsigned char)(size + more);
    ASSERT(size + more < 256);
    ASSERT_STATUS(CAI_ERR_IPC_BYTES,
                  cai_unstable_ipc_import(bytes, size + more, fd, 0, &out, NULL));
    ASSERT(out.owner == NULL);
}

CASE(parts_without_use) {
    static const int64_t none[1] = {0};
    const CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cai_array array = owned(buffer, CAI_STREAM_NONE), empty = array_of(0, CAI_STREAM_NONE);
    unsigned char bytes[CAI_UNSTABLE_IPC_SIZE], head[HEAD + EVENT];
    cai_owner *kept, *other;
    size_t size;
    int fd;
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, &size, &fd, &kept, error));
    /* A byte behind the end, which the length covers. */
    assembled(bytes, HEAD, bytes + HEAD, size - HEAD + 1, fd);
    /* The array is in the first of two allocations, and then in the second. */
    memcpy(head, bytes, HEAD + 28);
    head[20] = 2;
    assembled(head, HEAD + 28, bytes + HEAD, size - HEAD, fd);
    bytes[HEAD + 28] = 2;
    assembled(head, HEAD + 28, bytes + HEAD, size - HEAD, fd);
    /* Neither an allocation nor an array. */
    head[20] = head[24] = 0;
    assembled(head, HEAD, bytes, 0, fd);
    /* An event, and no memory. */
    OK(cai_owner_create(NULL, NULL, &empty.owner, error));
    empty.shape = none;
    OK(cai_unstable_ipc_export(&empty, 0, bytes, sizeof bytes, &size, NULL, &other, error));
    memset(head, 0, sizeof head);
    memcpy(head, bytes, HEAD);
    head[16] = 1;
    assembled(head, sizeof head, bytes + HEAD, size - HEAD, -1);
    cai_owner_release(other);
    cai_array_release(&empty);
    close(fd);
    cai_owner_release(kept);
    cai_array_release(&array);
    ASSERT(freed == 1);
}

CASE(altered_bytes_of_plain_memory) { attacked(new_buffer()); }
CASE(altered_bytes_of_a_pool) {
    attacked(pool_buffer(new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
}
CASE(altered_bytes_of_mapped_memory) {
    attacked(mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

/* --- a process that is killed */

PART(waits_to_be_killed) {
    cai_array array = import_from(from);
    ASSERT(array.owner != NULL);
    tell(from, 'd');
    pause();
}

CASE(the_importer_is_killed) {
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    cai_array array = owned(buffer, as_value(stream));
    int status;
    fill(buffer, 3, stream);
    start_peer("waits_to_be_killed");
    cai_owner *kept = export_to(peer_socket, &array);
    ASSERT(hear(peer_socket) == 'd');
    ASSERT(kill(peer, SIGKILL) == 0 && waitpid(peer, &status, 0) == peer);
    ASSERT(hear(peer_socket) == 0);
    ASSERT(holds(buffer, 3, stream));
    cai_owner_release(kept);
    cai_array_release(&array);
    ASSERT(freed == 1);
    CU(cuMemFree(buffer));
}

PART(exports) {
    const int to = from;
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    cai_array array = owned(buffer, as_value(stream));
    fill(buffer, 4, stream);
    ASSERT(export_to(to, &array) != NULL);
    pause();
}

CASE(the_exporter_is_killed) {
    CUdeviceptr own = new_buffer();
    CUstream stream = new_stream();
    cai_array array, again = CAI_ARRAY_INIT;
    packet it;
    int status;
    fill(own, 5, stream);
    start_peer("exports");
    ASSERT(receive_packet(peer_socket, &it) == -1);
    OK(cai_unstable_ipc_import(it.bytes, it.size, -1, 0, &again, error));
    array = again;
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    ASSERT(kill(peer, SIGKILL) == 0 && waitpid(peer, &status, 0) == peer);
    ASSERT(hear(peer_socket) == 0);
    /* Its bytes open nothing any more. */
    {
        const cai_array init = CAI_ARRAY_INIT;
        cai_array out = init;
        cai_error why;
        ASSERT_STATUS(CAI_ERR_IPC_MEMORY,
                      cai_unstable_ipc_import(it.bytes, it.size, -1, 0, &out, &why));
    }
    cai_array_release(&array);
    ASSERT(holds(own, 5, stream));
    CU(cuMemFree(own));
}

int main(int count, char **words) { return ipc_main(count, words); }
