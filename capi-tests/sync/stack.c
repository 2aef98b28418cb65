/*
 * How much stack each function of the library takes, and the release thread: prints "NAME BYTES".
 * Each runs on a thread whose stack has been painted. What the driver's functions take is included,
 * and a frame of this program.
 * run: by tests/python/test_sync.py
 */
#include "sync_test.h"

#include <sys/mman.h>
#include <cai/unstable/arrow.h>
#include <cai/unstable/copy.h>
#include <cai/unstable/ipc.h>
#include <cai/unstable/json.h>
#include <cai/unstable/many.h>
#include <cai/unstable/release.h>
#include <cai/unstable/slice.h>

enum { SIZE = 1024 * 1024, PAINT = 0xa5 };

static unsigned char *painted(void) {
    unsigned char *stack =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(stack != MAP_FAILED);
    memset(stack, PAINT, SIZE);
    return stack;
}

static size_t used(const unsigned char *stack) {
    size_t unused = 0;
    while (unused < SIZE && stack[unused] == PAINT)
        ++unused;
    ASSERT(unused > 0);
    return SIZE - unused;
}

/* The release thread, whose function is the library's. */
static unsigned char *release_stack;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    pthread_attr_t with_stack;
    Dl_info of_function;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    if (dladdr(*(void **)&run, &of_function) != 0 &&
        strstr(of_function.dli_fname, "/libcai.so") != NULL) {
        ASSERT(attributes == NULL && release_stack == NULL);
        release_stack = painted();
        ASSERT(pthread_attr_init(&with_stack) == 0);
        ASSERT(pthread_attr_setstack(&with_stack, release_stack, SIZE) == 0);
        attributes = &with_stack;
    }
    return create(thread, attributes, run, argument);
}

static void *run_body(void *body) {
    (*(void (**)(void))body)();
    return NULL;
}

static size_t used_by(void (*body)(void)) {
    unsigned char *stack = painted();
    pthread_attr_t attributes;
    pthread_t thread;
    ASSERT(pthread_attr_init(&attributes) == 0);
    ASSERT(pthread_attr_setstack(&attributes, stack, SIZE) == 0);
    ASSERT(pthread_create(&thread, &attributes, run_body, &body) == 0);
    ASSERT(pthread_join(thread, NULL) == 0);
    size_t bytes = used(stack);
    munmap(stack, SIZE);
    return bytes;
}

/* --- what the functions work on: of one dimension, of all, with fields and masks, and refused */

static cai_array arrays[4];
static const cai_array *each;
static cai_stream mine;
static cai_error error_of_all, *error = &error_of_all;
static atomic_int destroyed, deferred;
static char text[65536];
static int host[N];
static const cai_descr *descr;
static const cai_field *field;

static void make_arrays(void) {
    static int64_t all[CAI_MAX_NDIM];
    static cai_array masks[CAI_MAX_MASKS];
    static char typestr[512];
    cai_owner *kept;
    const CUstream theirs = new_stream();
    arrays[0] = array_of(new_buffer(), as_value(theirs));
    for (int i = 0; i < 3; ++i)
        arrays[i + 1] = arrays[0];
    for (int i = 0; i < CAI_MAX_NDIM; ++i)
        all[i] = i < CAI_MAX_NDIM - 1 ? 1 : N;
    arrays[1].shape = all;
    arrays[1].ndim = CAI_MAX_NDIM;
    for (int i = 0; i < CAI_MAX_DESCR_DEPTH; ++i)
        strcat(typestr, "[('field', ");
    strcat(typestr, "'<i4'");
    for (int i = 0; i < CAI_MAX_DESCR_DEPTH; ++i)
        strcat(typestr, ")]");
    ASSERT_STATUS(CAI_OK, cai_descr_parse(typestr, &descr, &kept, error));
    field = descr->fields;
    memcpy(arrays[2].typestr, "|V4", 4);
    arrays[2].descr = descr;
    for (int i = 0; i < CAI_MAX_MASKS; ++i) {
        masks[i] = arrays[0];
        memcpy(masks[i].typestr, "|b1", 4);
        masks[i].mask = i > 0 ? &masks[i - 1] : NULL;
    }
    arrays[2].mask = &masks[CAI_MAX_MASKS - 1];
    arrays[3].ndim = CAI_MAX_NDIM + 1;
    arrays[3].stream = 0;
    mine = as_value(new_stream());
}

/* Calls a function with all of them. The first one is accepted. */
#define EACH(call)                                          \
    do {                                                    \
        for (each = arrays; each < arrays + 4; ++each) {    \
            const cai_status status_ = (call);              \
            ASSERT(each > arrays || status_ == CAI_OK);     \
            ASSERT(each < arrays + 3 || status_ != CAI_OK); \
        }                                                   \
    } while (0)

static cai_owner *new_owner(atomic_int *count) {
    cai_owner *owner = NULL;
    ASSERT_STATUS(CAI_OK, cai_owner_create(count, count_destroyed, &owner, error));
    return owner;
}

static void release_owner(void *owner) { cai_owner_release(owner); }

/* An owner that holds another one, and so on: deeper than they are destroyed inside one another. */
static cai_owner *chain(void) {
    cai_owner *owner = new_owner(&destroyed);
    for (int i = 0; i < 200; ++i)
        ASSERT_STATUS(CAI_OK, cai_owner_create(owner, release_owner, &owner, error));
    return owner;
}

static cai_array owned(cai_owner *owner) {
    cai_array array = arrays[0];
    array.owner = owner;
    return array;
}

static cai_status released(cai_status status, cai_array *array) {
    cai_array_release(array);
    return status;
}

/* --- the functions */

#define FUNCTION(name)                                               \
    static void run_##name(void);                                    \
    __attribute__((constructor)) static void register_##name(void) { \
        static test_case self = {#name, run_##name, NULL};           \
        self.next = all_cases;                                       \
        all_cases = &self;                                           \
    }                                                                \
    static void run_##name(void)

FUNCTION(cai_abi_version) { ASSERT(cai_abi_version() != 0); }
FUNCTION(cai_version) { ASSERT(cai_version() != NULL); }
FUNCTION(cai_status_name) { ASSERT(cai_status_name(CAI_ERR_NDIM) != NULL); }
FUNCTION(cai_status_message) { ASSERT(cai_status_message(CAI_ERR_NDIM) != NULL); }
FUNCTION(cai_error_set) { cai_error_set(error, CAI_ERR_NDIM, "ndim", "wrong"); }
FUNCTION(cai_array_init) {
    cai_array array;
    ASSERT(cai_array_init(&array, sizeof array) == CAI_OK);
}
FUNCTION(cai_import_options_init) {
    cai_import_options options;
    ASSERT(cai_import_options_init(&options, sizeof options) == CAI_OK);
}
FUNCTION(cai_export_options_init) {
    cai_export_options options;
    ASSERT(cai_export_options_init(&options, sizeof options) == CAI_OK);
}
FUNCTION(cai_array_validate) { EACH(cai_array_validate(each, CAI_CHECK_LAYOUT, error)); }
FUNCTION(cai_array_layout) {
    static cai_layout out;
    EACH(cai_array_layout(each, &out, error));
}
FUNCTION(cai_array_strides) {
    static int64_t strides[CAI_MAX_NDIM];
    EACH(cai_array_strides(each, strides, CAI_MAX_NDIM, error));
}
FUNCTION(cai_layout_strides) {
    static int64_t strides[CAI_MAX_NDIM];
    cai_layout_strides('C', arrays[1].shape, CAI_MAX_NDIM, 4, strides, error);
    cai_layout_strides('?', arrays[1].shape, CAI_MAX_NDIM, 4, strides, error);
}
FUNCTION(cai_array_may_overlap) {
    bool out;
    EACH(cai_array_may_overlap(each, &arrays[1], &out, error));
}
FUNCTION(cai_array_dtype) {
    cai_dtype out;
    for (each = arrays; each < arrays + 4; ++each)
        cai_array_dtype(each, &out, error);
}
FUNCTION(cai_dtype_parse) {
    cai_dtype out;
    cai_dtype_parse("<M8[25ns]", &out, error);
    cai_dtype_parse("<M8[25", &out, error);
}
FUNCTION(cai_dtype_format) {
    cai_dtype dtype;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse("<M8[25ns]", &dtype, error));
    cai_dtype_format(&dtype, text, sizeof text, NULL, error);
    cai_dtype_format(&dtype, text, 1, NULL, error);
}
FUNCTION(cai_dtype_equal) {
    cai_dtype dtype;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse("<f8", &dtype, error));
    ASSERT(cai_dtype_equal(&dtype, &dtype));
}
FUNCTION(cai_dtype_is_native) {
    cai_dtype dtype;
    ASSERT_STATUS(CAI_OK, cai_dtype_parse("<f8", &dtype, error));
    ASSERT(cai_dtype_is_native(&dtype));
}
FUNCTION(cai_field_dtype) {
    cai_dtype out;
    cai_field_dtype(field, &out, error);
}
FUNCTION(cai_field_nbytes) {
    int64_t out;
    ASSERT_STATUS(CAI_OK, cai_field_nbytes(field, &out, error));
}
FUNCTION(cai_descr_itemsize) {
    int64_t out;
    ASSERT_STATUS(CAI_OK, cai_descr_itemsize(descr, &out, error));
}
FUNCTION(cai_descr_equal) {
    bool out;
    ASSERT_STATUS(CAI_OK, cai_descr_equal(descr, descr, &out, error));
}
FUNCTION(cai_descr_find) {
    const cai_field *out;
    int64_t offset;
    ASSERT_STATUS(CAI_OK, cai_descr_find(descr, "field", &out, &offset, error));
    ASSERT(cai_descr_find(descr, "none", &out, &offset, error) != CAI_OK);
}
FUNCTION(cai_descr_format) {
    ASSERT_STATUS(CAI_OK, cai_descr_format(descr, text, sizeof text, NULL, error));
}
FUNCTION(cai_descr_parse) {
    const cai_descr *out;
    cai_owner *owner;
    ASSERT_STATUS(CAI_OK, cai_descr_format(descr, text, sizeof text, NULL, error));
    ASSERT_STATUS(CAI_OK, cai_descr_parse(text, &out, &owner, error));
    cai_owner_release(owner);
    ASSERT(cai_descr_parse("[('field', '<i4'", &out, &owner, error) != CAI_OK);
}
FUNCTION(cai_owner_create) { cai_owner_release(new_owner(&destroyed)); }
FUNCTION(cai_owner_retain) {
    cai_owner *owner = new_owner(&destroyed);
    ASSERT_STATUS(CAI_OK, cai_owner_retain(owner, error));
    cai_owner_release(owner);
    cai_owner_release(owner);
}
FUNCTION(cai_owner_release) { cai_owner_release(chain()); }
FUNCTION(cai_array_release) {
    cai_array array = owned(chain());
    cai_array_release(&array);
}
FUNCTION(cai_array_retain) {
    cai_array array = owned(new_owner(&destroyed));
    ASSERT_STATUS(CAI_OK, cai_array_retain(&array, error));
    cai_owner_release(array.owner);
    cai_array_release(&array);
    ASSERT(cai_array_retain(&arrays[0], error) == CAI_ERR_BORROWED);
}
FUNCTION(cai_array_share) {
    cai_array array = owned(new_owner(&destroyed)), out = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, released(cai_array_share(&array, &out, error), &out));
    cai_array_release(&array);
}
FUNCTION(cai_array_create) {
    cai_array out = CAI_ARRAY_INIT;
    EACH(released(cai_array_create(each, NULL, NULL, &out, error), &out));
}
FUNCTION(cai_array_attach) {
    cai_array array = owned(new_owner(&destroyed));
    ASSERT_STATUS(CAI_OK, cai_array_attach(&array, &destroyed, count_destroyed, error));
    cai_array_release(&array);
}
FUNCTION(cai_unstable_array_slice) {
    cai_array given = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    for (each = arrays; each < arrays + 3; ++each) {
        ASSERT_STATUS(CAI_OK, cai_array_create(each, NULL, NULL, &given, error));
        released(cai_unstable_array_slice(&given, each->ndim - 1, 1, 3, 2, &out, error), &out);
        ASSERT_STATUS(CAI_ERR_ARGUMENT, cai_unstable_array_slice(&given, -1, 0, 1, 1, &out, error));
        cai_array_release(&given);
    }
}
FUNCTION(cai_unstable_array_to_json) {
    EACH(cai_unstable_array_to_json(each, text, sizeof text, NULL, error));
}
FUNCTION(cai_unstable_array_copy_to_host) {
    cai_array out = CAI_ARRAY_INIT;
    EACH(released(cai_unstable_array_copy_to_host(each, mine, 0, host, sizeof host, &out, error),
                  &out));
    EACH(released(cai_unstable_array_copy_to_host(each, mine, 0, NULL, 0, &out, error), &out));
}
FUNCTION(cai_unstable_array_copy_from_host) {
    EACH(cai_unstable_array_copy_from_host(each, mine, 0, host, sizeof host, error));
}
FUNCTION(cai_unstable_array_bytes) {
    void *address;
    int64_t nbytes;
    EACH(cai_unstable_array_bytes(each, mine, NULL, CAI_ACCESS_READ, &address, &nbytes, error));
}

/* An export and the import of what it made. */
#define THERE_AND_BACK(to, from, tensor)                                                 \
    do {                                                                                 \
        struct tensor *made = NULL;                                                      \
        cai_array given = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;                          \
        for (each = arrays; each < arrays + 3; ++each) {                                 \
            ASSERT_STATUS(CAI_OK, cai_array_create(each, NULL, NULL, &given, error));    \
            if (to(&given, 0, &made, error) == CAI_OK)                                   \
                ASSERT_STATUS(CAI_OK, released(from(made, mine, 0, &out, error), &out)); \
            else ASSERT(each > arrays);                                                  \
            cai_array_release(&given);                                                   \
        }                                                                                \
    } while (0)

FUNCTION(cai_array_to_dlpack) {
    THERE_AND_BACK(cai_array_to_dlpack, cai_array_from_dlpack, DLManagedTensorVersioned);
}
FUNCTION(cai_array_from_dlpack) { run_cai_array_to_dlpack(); }
FUNCTION(cai_array_to_dlpack_unversioned) {
    THERE_AND_BACK(cai_array_to_dlpack_unversioned, cai_array_from_dlpack_unversioned,
                   DLManagedTensor);
}
FUNCTION(cai_array_from_dlpack_unversioned) { run_cai_array_to_dlpack_unversioned(); }
FUNCTION(cai_unstable_array_to_arrow) {
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    cai_array given = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    for (each = arrays; each < arrays + 3; ++each) {
        ASSERT_STATUS(CAI_OK, cai_array_create(each, NULL, NULL, &given, error));
        if (cai_unstable_array_to_arrow(&given, 0, &values, &schema, error) == CAI_OK) {
            const cai_status status = cai_unstable_array_from_arrow(&values, &schema, &out, error);
            ASSERT(each > arrays || status == CAI_OK);
            if (status != CAI_OK) values.array.release(&values.array);
            schema.release(&schema);
            cai_array_release(&out);
        } else {
            ASSERT(each > arrays);
        }
        cai_array_release(&given);
    }
}
FUNCTION(cai_unstable_array_from_arrow) { run_cai_unstable_array_to_arrow(); }
FUNCTION(cai_unstable_arrays_to_arrow) {
    struct ArrowDeviceArray batch;
    struct ArrowSchema schema;
    const char *const names[2] = {"x", "y"};
    cai_array given = CAI_ARRAY_INIT, x = CAI_ARRAY_INIT, y = CAI_ARRAY_INIT;
    const cai_array *const both[2] = {&given, &given};
    cai_array *const places[2] = {&x, &y};
    ASSERT_STATUS(CAI_OK, cai_array_create(arrays, NULL, NULL, &given, error));
    ASSERT_STATUS(CAI_OK, cai_unstable_arrays_to_arrow(both, names, 2, 0, &batch, &schema, error));
    ASSERT_STATUS(CAI_OK, cai_unstable_arrays_from_arrow(&batch, &schema, 2, places, error));
    schema.release(&schema);
    cai_array_release(&x);
    cai_array_release(&y);
    cai_array_release(&given);
}
FUNCTION(cai_unstable_arrays_from_arrow) { run_cai_unstable_arrays_to_arrow(); }
FUNCTION(cai_driver_info_get) {
    static cai_driver_info out;
    cai_driver_info_get(&out, error);
}
FUNCTION(cai_pointer_info_get) {
    static cai_pointer_info out;
    cai_pointer_info_get(arrays[0].data, &out, error);
}
FUNCTION(cai_unstable_ipc_export) {
    cai_owner *owner;
    size_t size;
    int32_t fd;
    cai_array given = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_array_create(&arrays[0], NULL, NULL, &given, error));
    ASSERT_STATUS(CAI_OK,
                  cai_unstable_ipc_export(&given, 0, text, sizeof text, &size, &fd, &owner, error));
    released(cai_unstable_ipc_import(text, size, fd, 0, &out, error), &out);
    cai_owner_release(owner);
    cai_array_release(&given);
}
FUNCTION(cai_unstable_ipc_import) { run_cai_unstable_ipc_export(); }
/* Two channels of one process, up to where the memory would be opened. */
FUNCTION(cai_unstable_channel_create) {
    uint64_t from, to, made, left;
    size_t size;
    int32_t fd;
    cai_array given = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_create(8, 0, &from, error));
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_create(8, 0, &to, error));
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_fd(from, &fd, error));
    ASSERT_STATUS(CAI_OK, cai_array_create(&arrays[0], NULL, NULL, &given, error));
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_export(from, 0, &given, text, sizeof text, &size,
                                                      &made, error));
    cai_array_release(&given);
    while (cai_unstable_channel_import(to, text, size, &out, error) == CAI_ERR_IPC_PENDING)
        ASSERT_STATUS(CAI_OK, cai_unstable_channel_poll(from, NULL, error));
    /* Memory is not opened in the process that it is of. */
    cai_array_release(&out);
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_withdraw(from, made, error));
    do {
        ASSERT_STATUS(CAI_OK, cai_unstable_channel_poll(to, NULL, error));
        ASSERT_STATUS(CAI_OK, cai_unstable_channel_poll(from, &left, error));
    } while (left > 0);
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_release(to, error));
    ASSERT_STATUS(CAI_OK, cai_unstable_channel_release(from, error));
}
FUNCTION(cai_unstable_channel_export) { run_cai_unstable_channel_create(); }
FUNCTION(cai_unstable_channel_fd) { run_cai_unstable_channel_create(); }
FUNCTION(cai_unstable_channel_import) { run_cai_unstable_channel_create(); }
FUNCTION(cai_unstable_channel_poll) { run_cai_unstable_channel_create(); }
FUNCTION(cai_unstable_channel_release) { run_cai_unstable_channel_create(); }
FUNCTION(cai_unstable_channel_withdraw) { run_cai_unstable_channel_create(); }
FUNCTION(cai_array_consume_begin) {
    EACH(cai_array_consume_begin(each, mine, CAI_ACCESS_READ, error));
    EACH(cai_array_consume_end(each, mine, CAI_ACCESS_READ, error));
}
FUNCTION(cai_array_consume_end) { run_cai_array_consume_begin(); }
FUNCTION(cai_unstable_arrays_consume_begin) {
    EACH(cai_unstable_arrays_consume_begin(&each, 1, mine, CAI_ACCESS_READ, error));
    EACH(cai_unstable_arrays_consume_end(&each, 1, mine, CAI_ACCESS_READ, error));
}
FUNCTION(cai_unstable_arrays_consume_end) { run_cai_unstable_arrays_consume_begin(); }
FUNCTION(cai_unstable_arrays_synchronize) {
    EACH(cai_unstable_arrays_synchronize(&each, 1, CAI_ACCESS_READ, error));
}
FUNCTION(cai_array_synchronize) { EACH(cai_array_synchronize(each, CAI_ACCESS_READ, error)); }
FUNCTION(cai_unstable_array_identify) {
    cai_array array;
    EACH((array = *each, cai_unstable_array_identify(&array, error)));
}
FUNCTION(cai_array_produce) {
    cai_array array;
    EACH((array = *each, cai_array_produce(&array, &each->stream, 1, mine, 0, error)));
}
FUNCTION(cai_owner_release_after) {
    ASSERT_STATUS(CAI_OK, cai_owner_release_after(new_owner(&deferred), mine, error));
}
FUNCTION(cai_array_release_after) {
    cai_array array = owned(new_owner(&deferred));
    ASSERT_STATUS(CAI_OK, cai_array_release_after(&array, mine, error));
}
FUNCTION(cai_unstable_array_release_in_order) {
    cai_array array = owned(new_owner(&deferred));
    cai_unstable_array_release_in_order(&array);
}
FUNCTION(cai_sync_policy_get) {
    uint32_t out;
    ASSERT_STATUS(CAI_OK, cai_sync_policy_get(&out, error));
}
FUNCTION(cai_sync_policy_set) {
    uint32_t policy;
    ASSERT_STATUS(CAI_OK, cai_sync_policy_get(&policy, error));
    ASSERT_STATUS(CAI_OK, cai_sync_policy_set(policy, error));
}

/* --- */

static void nothing(void) {}

static int are_three(void *number) { return atomic_load((atomic_int *)number) == 3; }

int main(void) {
    const size_t by_a_thread = used_by(nothing);
    set_up();
    make_arrays();
    for (const test_case *it = all_cases; it != NULL; it = it->next)
        printf("%s %zu\n", it->name, used_by(it->run) - by_a_thread);
    ASSERT(comes_true(are_three, &deferred) && release_stack != NULL);
    usleep(100000); /* it has destroyed the last one, and waits for more */
    printf("thread %zu\n", used(release_stack) - by_a_thread);
    return 0;
}
