/*
 * Exports and imports while one call of the driver fails (SHIM): the functions return a status and
 * write nothing, give back what they had taken, and succeed when they are called again.
 * run: refuse each 2 999
 */
#include "ipc_test.h"

#include <dirent.h>
#include <cai/unstable/ipc.h>

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    ASSERT(folder != NULL);
    while (readdir(folder) != NULL)
        ++count;
    closedir(folder);
    return count;
}

/* A call that closes something has failed, so that it stays open. */
static int is_lost;

/* The status of a call of the library in which a call of the driver may fail. */
static cai_status faulty(cai_status status, int fault, const cai_error *why) {
    the_shim.arm(0);
    if (status == CAI_OK) {
        is_lost |= fault != 0;
        return status;
    }
    ASSERT(fault != 0 && why->code == status);
    /* The refusal of a call about memory is one of the memory. */
    if (status != CAI_ERR_IPC_MEMORY) ASSERT_STATUS(status_of(fault), status);
    ASSERT(why->driver_code == fault);
    return status;
}

#define FAULTY(call) (the_shim.arm(1), status = (call), faulty(status, the_shim.fired(), &why))

static void export_and_import(const cai_array *array, int imports) {
    static unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    const int files = open_files();
    cai_array out = CAI_ARRAY_INIT;
    cai_owner *kept = NULL;
    cai_status status;
    cai_error why;
    size_t size = 0;
    int fd = -2, exported;
    for (int i = 0; FAULTY(cai_unstable_ipc_export(array, 0, bytes, sizeof bytes, &size, &fd, &kept,
                                                   &why)) != CAI_OK;
         ++i) {
        ASSERT(i < 2 && size == 0 && fd == -2 && kept == NULL && bytes[0] == 0);
        ASSERT(open_files() == files);
    }
    ASSERT(kept != NULL && size > 0);
    exported = open_files();
    for (int i = 0;
         imports && FAULTY(cai_unstable_ipc_import(bytes, size, fd, 0, &out, &why)) != CAI_OK;
         ++i) {
        ASSERT(i < 2 && out.owner == NULL && out.data == NULL);
        ASSERT(open_files() == exported);
    }
    the_shim.arm(1);
    if (imports) {
        ASSERT(out.mask != NULL && out.mask->event == out.event && out.event != NULL);
        cai_array_release(&out);
    }
    cai_owner_release(kept);
    the_shim.arm(0);
    is_lost |= the_shim.fired() != 0;
    if (fd >= 0) close(fd);
    ASSERT(is_lost || open_files() == files);
}

static void faults(CUdeviceptr buffer, CUdeviceptr bits, int imports) {
    CUstream stream = new_stream();
    cai_array mask = array_of(bits, as_value(stream)), array = CAI_ARRAY_INIT;
    cai_array borrowed = array_of(buffer, as_value(stream));
    static unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept;
    int fd;
    memcpy(mask.typestr, "|b1", 4);
    borrowed.mask = &mask;
    atomic_store(&freed, 0);
    ASSERT_STATUS(CAI_OK, cai_array_create(&borrowed, &freed, count_destroyed, &array, NULL));
    fill(buffer, 1, stream);
    /* The simulated driver makes a file of memory that is exported for the first time. */
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, NULL, &fd, &kept, NULL));
    cai_owner_release(kept);
    if (fd >= 0) close(fd);
    export_and_import(&array, imports);
    ASSERT(freed == 0);
    cai_array_release(&array);
    ASSERT(freed == 1);
    CU(cuCtxSynchronize());
}

CASE(mapped_memory) {
    CUdeviceptr buffer = mapped_buffer(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    faults(buffer, buffer + BYTES, 1);
}

CASE(memory_of_a_pool) {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUdeviceptr buffer = pool_buffer(pool);
    faults(buffer, pool_buffer(pool), 1);
}

/* Opened by a process of its own only. */
CASE(plain_memory) { faults(new_buffer(), new_buffer(), 0); }

PART(imports) {
    packet it;
    cai_array out = CAI_ARRAY_INIT;
    cai_status status;
    cai_error why;
    receive_packet(from, &it);
    ASSERT_STATUS(CAI_OK, cai_unstable_ipc_import(it.bytes, it.size, -1, 0, &out, NULL));
    cai_array_release(&out);
    int files = open_files();
    for (int i = 0; FAULTY(cai_unstable_ipc_import(it.bytes, it.size, -1, 0, &out, &why)) != CAI_OK;
         ++i) {
        ASSERT(i < 2 && out.owner == NULL && out.data == NULL && open_files() == files);
    }
    the_shim.arm(1);
    cai_array_release(&out);
    the_shim.arm(0);
    tell(from, 'd');
}

CASE(plain_memory_in_another_process) {
    cai_array mask = array_of(new_buffer(), as_value(new_stream())), array = CAI_ARRAY_INIT;
    cai_array borrowed = array_of(new_buffer(), mask.stream);
    packet it = {0};
    cai_owner *kept = NULL;
    size_t size;
    memcpy(mask.typestr, "|b1", 4);
    borrowed.mask = &mask;
    ASSERT_STATUS(CAI_OK, cai_array_create(&borrowed, NULL, NULL, &array, NULL));
    ASSERT_STATUS(CAI_OK, cai_unstable_ipc_export(&array, 0, it.bytes, sizeof it.bytes, &size, NULL,
                                                  &kept, NULL));
    it.size = size;
    start_peer("imports");
    send_packet(peer_socket, &it, -1);
    ASSERT(hear(peer_socket) == 'd');
    end_peer();
    cai_owner_release(kept);
    cai_array_release(&array);
}

int main(int count, char **words) { return ipc_main(count, words); }
