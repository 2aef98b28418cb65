/*
 * What cai/mpi.h does with wrong arguments, and when a call of MPI, an allocation or a copy fails:
 * every datatype is freed, and every reference is released. Within one process, in host memory.
 * run: by test_mpi_header.py
 */
#include <stdlib.h>

static void *allocate(size_t size);
#define malloc(size) allocate(size)
#include <cai/mpi.h>
#undef malloc

#include <stdio.h>

#include "status_asserts.h"

/* --- MPI, which fails at a call by its number */

static int calls, failing, datatypes, owners;

static int fails(void) { return ++calls == failing; }

static void *allocate(size_t size) { return fails() ? NULL : malloc(size); }

#define COUNTED(count, name, parameters, arguments)    \
    int name parameters {                              \
        int code;                                      \
        if (fails()) return MPI_ERR_OTHER;             \
        code = P##name arguments;                      \
        if (code == MPI_SUCCESS) datatypes += (count); \
        return code;                                   \
    }
COUNTED(1, MPI_Type_create_hvector,
        (int count, int block, MPI_Aint stride, MPI_Datatype old, MPI_Datatype *out),
        (count, block, stride, old, out))
COUNTED(1, MPI_Type_contiguous, (int count, MPI_Datatype old, MPI_Datatype *out), (count, old, out))
COUNTED(1, MPI_Type_create_resized,
        (MPI_Datatype old, MPI_Aint lower, MPI_Aint extent, MPI_Datatype *out),
        (old, lower, extent, out))
COUNTED(1, MPI_Type_create_struct,
        (int count, const int blocks[], const MPI_Aint at[], const MPI_Datatype types[],
         MPI_Datatype *out),
        (count, blocks, at, types, out))
COUNTED(0, MPI_Type_commit, (MPI_Datatype * type), (type))
COUNTED(0, MPI_Isend,
        (const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator,
         MPI_Request *out),
        (data, count, type, to, tag, communicator, out))
COUNTED(0, MPI_Irecv,
        (void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator,
         MPI_Request *out),
        (data, count, type, from, tag, communicator, out))
COUNTED(0, MPI_Get_elements_x, (const MPI_Status *status, MPI_Datatype type, MPI_Count *out),
        (status, type, out))
COUNTED(0, MPI_Type_size, (MPI_Datatype type, int *out), (type, out))
COUNTED(0, MPI_Test_cancelled, (const MPI_Status *status, int *out), (status, out))

int MPI_Type_free(MPI_Datatype *type) {
    --datatypes;
    return PMPI_Type_free(type);
}

static int unfinished; /* calls of MPI_Wait that fail and leave the message in MPI */

/* Otherwise, the message is done when the call fails: nothing of it remains in MPI. */
int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    if (unfinished > 0) return --unfinished, MPI_ERR_OTHER;
    const int code = PMPI_Wait(request, status);
    return fails() ? MPI_ERR_OTHER : code;
}

/* --- arrays */

static double memory[4096];
static const int64_t shape[3] = {2, 3, 4};
static const int64_t gaps[3] = {1024, -128, 16};

static void gone(void *context) {
    (void)context;
    --owners;
}

static cai_array plain(void) {
    cai_array array = valid_array();
    array.data = memory + 512;
    array.shape = shape;
    array.ndim = 3;
    set_typestr(&array, "<f8");
    return array;
}

static cai_array owned(double *data, const int64_t *strides) {
    cai_array description = plain(), array = CAI_ARRAY_INIT;
    description.data = data;
    description.strides = strides;
    OK(cai_array_create(&description, NULL, gone, &array, error));
    ++owners;
    return array;
}

/* --- failures of MPI and of allocations */

/* Ends the receive, or the send, whose other half has failed. Not every MPI cancels a send. */
static void end_the_other(cai_mpi_request *requests) {
    static char rest[2048];
    if (requests[0].request != MPI_REQUEST_NULL) PMPI_Cancel(&requests[0].request);
    else if (requests[1].request != MPI_REQUEST_NULL)
        PMPI_Recv(rest, sizeof rest, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

/* One message from an array to another, whose owners the caller releases while it is under way.
 * Returns the first failure. */
static cai_status exchange(uint32_t flags, cai_error *error) {
    cai_array from = owned(memory + 512, gaps), to = owned(memory + 2560, gaps);
    cai_mpi_request requests[2];
    memset(requests, 0xaa, sizeof requests);
    cai_status first = cai_mpi_irecv(&to, 0, 1, MPI_COMM_SELF, flags, &requests[0], error);
    cai_array_release(&to);
    cai_status status = cai_mpi_isend(&from, 0, 1, MPI_COMM_SELF, flags, &requests[1],
                                      first == CAI_OK ? error : NULL);
    cai_array_release(&from);
    if (first == CAI_OK) first = status;
    if (first != CAI_OK) end_the_other(requests);
    else ASSERT(owners == 2);
    status = cai_mpi_wait_all(2, requests, first == CAI_OK ? error : NULL);
    return first != CAI_OK ? first : status;
}

/* Two messages of the same with requests that are prepared once. */
static cai_status exchange_prepared(uint32_t flags, cai_error *error) {
    cai_array from = owned(memory + 512, gaps), to = owned(memory + 2560, gaps);
    cai_mpi_request requests[2];
    memset(requests, 0xaa, sizeof requests);
    cai_status first = cai_mpi_recv_init(&to, 0, 1, MPI_COMM_SELF, flags, &requests[0], error);
    cai_array_release(&to);
    cai_status status = cai_mpi_send_init(&from, 0, 1, MPI_COMM_SELF, flags, &requests[1],
                                          first == CAI_OK ? error : NULL);
    cai_array_release(&from);
    if (first == CAI_OK) first = status;
    for (int message = 0; message < 2 && first == CAI_OK; ++message) {
        ASSERT(owners == 2);
        first = cai_mpi_start_all(2, requests, error);
        if (first != CAI_OK) end_the_other(requests);
        status = cai_mpi_wait_all(2, requests, first == CAI_OK ? error : NULL);
        if (first == CAI_OK) first = status;
    }
    for (int i = 0; i < 2; ++i)
        ASSERT(cai_mpi_request_free(&requests[i], NULL) == CAI_OK);
    return first;
}

static void each_call_fails(cai_status (*run)(uint32_t, cai_error *), uint32_t flags, int least) {
    calls = failing = 0;
    OK(run(flags, error));
    ASSERT(owners == 0 && datatypes == 0);
    int last = calls;
    ASSERT(last >= least);
    for (int number = 1; number <= last; ++number) {
        cai_error why;
        calls = 0;
        failing = number;
        cai_status status = run(flags, &why);
        failing = 0;
        ASSERT(status == CAI_ERR_MPI || status == CAI_ERR_NO_MEMORY);
        ASSERT(why.code == status && why.message[0] != 0);
        ASSERT(owners == 0 && datatypes == 0);
    }
}

/* Types of more than 2^30 blocks, of which there is no memory: begin alone. */
static void each_large_type_fails(int64_t stride) {
    const int64_t many[2] = {(int64_t)3 << 30, 3}, strides[2] = {stride, 4};
    cai_array array = plain();
    cai_mpi_buffer it;
    array.ndim = 2;
    array.shape = many;
    array.strides = strides;
    array.data = memory;
    memcpy(array.typestr, "|i1", sizeof("|i1"));
    calls = failing = 0;
    OK(cai_mpi_begin(&array, CAI_ACCESS_READ, &it, error));
    ASSERT(datatypes > 0);
    cai_mpi_discard(&it);
    int last = calls;
    ASSERT(last > 4);
    for (failing = 1; failing <= last; ++failing) {
        calls = 0;
        ASSERT(cai_mpi_begin(&array, CAI_ACCESS_READ, &it, NULL) == CAI_ERR_MPI);
        ASSERT(datatypes == 0 && it.datatype == MPI_DATATYPE_NULL);
    }
    failing = 0;
    ASSERT(datatypes == 0);
}

/* --- arguments */

static void nulls(void) {
    const cai_array array = plain();
    cai_mpi_request it = CAI_MPI_REQUEST_INIT;
    const MPI_Comm self = MPI_COMM_SELF;
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_mpi_isend(&array, 0, 0, self, 0, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_mpi_irecv(&array, 0, 0, self, 0, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_mpi_send_init(&array, 0, 0, self, 0, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_mpi_recv_init(&array, 0, 0, self, 0, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_mpi_recv_init(NULL, 0, 0, self, 0, &it, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "requests", cai_mpi_start(NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "requests", cai_mpi_start_all(2, NULL, error));
    REFUSED(CAI_ERR_ARGUMENT, "count", cai_mpi_start_all(-1, &it, error));
    OK(cai_mpi_start_all(0, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_mpi_isend(NULL, 0, 0, self, 0, &it, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_mpi_send(NULL, 0, 0, self, 0, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_mpi_recv(NULL, 0, 0, self, 0, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "it", cai_mpi_wait(NULL, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "it", cai_mpi_end(NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "it", cai_mpi_finish(NULL, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "requests", cai_mpi_wait_all(1, NULL, error));
    REFUSED(CAI_ERR_ARGUMENT, "count", cai_mpi_wait_all(-1, &it, error));
    OK(cai_mpi_wait_all(0, NULL, error));
    cai_mpi_discard(NULL);
    /* Requests that are not in use. */
    OK(cai_mpi_wait(&it, NULL, error));
    OK(cai_mpi_finish(&it, NULL, error));
    OK(cai_mpi_end(&it.buffer, error));
    OK(cai_mpi_request_free(NULL, error));
    OK(cai_mpi_request_free(&it, error));
    REFUSED(CAI_ERR_ARGUMENT, "requests", cai_mpi_start(&it, error));
}

/* Requests that are not in the state that a call needs. */
static void states(void) {
    const cai_array array = plain();
    double data[24];
    cai_mpi_request it;
    MPI_Status status;
    int is_done = 0;
    OK(cai_mpi_recv_init(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_STAGE, &it, error));
    /* Not started: nothing is written back. */
    memory[512] = -1;
    OK(cai_mpi_wait(&it, NULL, error));
    OK(cai_mpi_finish(&it, NULL, error));
    ASSERT(memory[512] < 0);
    OK(cai_mpi_start(&it, error));
    REFUSED(CAI_ERR_ARGUMENT, "requests", cai_mpi_start(&it, error));
    REFUSED(CAI_ERR_ARGUMENT, "it", cai_mpi_request_free(&it, error));
    for (int i = 0; i < 24; ++i)
        data[i] = i;
    ASSERT(MPI_Send(data, 24, MPI_DOUBLE, 0, 1, MPI_COMM_SELF) == MPI_SUCCESS);
    while (!is_done)
        MPI_Test(&it.request, &is_done, &status);
    OK(cai_mpi_finish(&it, &status, error));
    ASSERT(memcmp(memory + 512, data, sizeof data) == 0);
    /* One that failed is started again, or discarded. */
    OK(cai_mpi_start(&it, error));
    MPI_Cancel(&it.request);
    OK(cai_mpi_wait(&it, NULL, error));
    OK(cai_mpi_start(&it, error));
    MPI_Cancel(&it.request);
    MPI_Wait(&it.request, &status);
    cai_mpi_discard(&it.buffer);
    REFUSED(CAI_ERR_ARGUMENT, "requests", cai_mpi_start(&it, error));
    OK(cai_mpi_request_free(&it, error));
    /* One for a single message cannot be started again. */
    OK(cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, 0, &it, error));
    REFUSED(CAI_ERR_ARGUMENT, "requests", cai_mpi_start(&it, error));
    REFUSED(CAI_ERR_ARGUMENT, "it", cai_mpi_request_free(&it, error));
    MPI_Cancel(&it.request);
    OK(cai_mpi_wait(&it, NULL, error));
    OK(cai_mpi_request_free(&it, error));
}

/* A receive that MPI keeps, as of any source when a process has ended, writes nothing later. */
static void kept_by_mpi(void) {
    for (int prepared = 0; prepared < 2; ++prepared) {
        cai_array array = owned(memory + 512, gaps);
        cai_mpi_request it;
        double data[24] = {0};
        if (prepared) {
            OK(cai_mpi_recv_init(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_STAGE, &it, error));
            OK(cai_mpi_start(&it, error));
        } else {
            OK(cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_STAGE, &it, error));
        }
        cai_array_release(&array);
        unfinished = 2; /* it cannot be cancelled either: the memory stays */
        REFUSED(CAI_ERR_MPI, "MPI_Wait", cai_mpi_wait(&it, NULL, error));
        ASSERT(it.request != MPI_REQUEST_NULL && it.buffer.stage != NULL && owners == 1);
        unfinished = 1;
        REFUSED(CAI_ERR_MPI, "MPI_Wait", cai_mpi_wait(&it, NULL, error));
        ASSERT(it.request == MPI_REQUEST_NULL && owners == prepared && it.is_idle == prepared);
        OK(cai_mpi_request_free(&it, error));
        ASSERT(owners == 0 && datatypes == 0);
        /* The next message is not its own. */
        PMPI_Sendrecv(memory, 24, MPI_DOUBLE, 0, 1, data, 24, MPI_DOUBLE, 0, 1, MPI_COMM_SELF,
                      MPI_STATUS_IGNORE);
        ASSERT(memcmp(data, memory, sizeof data) == 0);
    }
}

/* If one of several requests is not ready, or its stream cannot be waited for, none has started. */
static void start_together(void) {
    cai_array array = plain(), lost = plain();
    cai_mpi_request two[2];
    OK(cai_mpi_recv_init(&array, 0, 1, MPI_COMM_SELF, 0, &two[0], error));
    OK(cai_mpi_irecv(&array, 0, 2, MPI_COMM_SELF, 0, &two[1], error));
    REFUSED(CAI_ERR_ARGUMENT, "requests", cai_mpi_start_all(2, two, error));
    ASSERT(two[0].request == MPI_REQUEST_NULL && two[0].is_idle);
    MPI_Cancel(&two[1].request);
    OK(cai_mpi_wait(&two[1], NULL, error));
    lost.device.type = CAI_DEVICE_CUDA; /* CAI_CUDA_DRIVER names no file */
    lost.stream = 0x1000;
    OK(cai_mpi_recv_init(&lost, 0, 1, MPI_COMM_SELF, CAI_MPI_DIRECT, &two[1], error));
    REFUSED(CAI_ERR_NO_DRIVER, "driver", cai_mpi_start_all(2, two, error));
    ASSERT(two[0].request == MPI_REQUEST_NULL && two[0].is_idle && two[1].is_idle);
    for (int i = 0; i < 2; ++i)
        OK(cai_mpi_request_free(&two[i], error));
}

/* What `out` held does not matter, and after a failure there is nothing to wait for. */
static void outputs(void) {
    cai_array array = plain();
    cai_mpi_request it;
    for (int byte = 0; byte < 256; byte += 0xaa) {
        memset(&it, byte, sizeof it);
        ASSERT(cai_mpi_isend(NULL, 0, 0, MPI_COMM_SELF, 0, &it, NULL) == CAI_ERR_NULL_ARGUMENT);
        OK(cai_mpi_wait(&it, NULL, error));
        memset(&it, byte, sizeof it);
        ASSERT(cai_mpi_irecv(&array, 0, 0, MPI_COMM_SELF, 4, &it, NULL) == CAI_ERR_ARGUMENT);
        OK(cai_mpi_wait(&it, NULL, error));
        memset(&it, byte, sizeof it);
        OK(cai_mpi_begin(&array, CAI_ACCESS_READ, &it.buffer, error));
        OK(cai_mpi_end(&it.buffer, error));
        memset(&it, byte, sizeof it);
        array.struct_size = 7;
        ASSERT(cai_mpi_begin(&array, CAI_ACCESS_READ, &it.buffer, NULL) == CAI_ERR_STRUCT_SIZE);
        OK(cai_mpi_end(&it.buffer, error));
        array.struct_size = sizeof(cai_array);
    }
}

static void refusals(void) {
    cai_mpi_request it = CAI_MPI_REQUEST_INIT;
    cai_array array = plain();
    /* A message determines its access itself. */
    REFUSED(CAI_ERR_ARGUMENT, "flags",
            cai_mpi_send(&array, 0, 0, MPI_COMM_SELF, CAI_ACCESS_WRITE, error));
    REFUSED(CAI_ERR_ARGUMENT, "flags",
            cai_mpi_recv(&array, 0, 0, MPI_COMM_SELF, CAI_ACCESS_READ, NULL, error));
    /* A mask is refused by every function, also of an array without elements. */
    for (int round = 0; round < 2; ++round) {
        static const int64_t empty[3] = {2, 0, 4};
        cai_array mask = plain();
        set_typestr(&mask, "|b1");
        array.mask = &mask;
        if (round == 1) {
            array.shape = mask.shape = empty;
            array.data = mask.data = NULL;
        }
        REFUSED(CAI_ERR_CONVERT_MASK, "mask",
                cai_mpi_begin(&array, CAI_ACCESS_READ, &it.buffer, error));
        REFUSED(CAI_ERR_CONVERT_MASK, "mask",
                cai_mpi_isend(&array, 0, 0, MPI_COMM_SELF, 0, &it, error));
        REFUSED(CAI_ERR_CONVERT_MASK, "mask",
                cai_mpi_send_init(&array, 0, 0, MPI_COMM_SELF, 0, &it, error));
        REFUSED(CAI_ERR_CONVERT_MASK, "mask",
                cai_mpi_recv_init(&array, 0, 0, MPI_COMM_SELF, CAI_MPI_CHECK, &it, error));
    }
    array = plain();
    /* The statement of CAI_MPI_CHECK is no element of other functions of MPI. */
    REFUSED(CAI_ERR_ARGUMENT, "flags",
            cai_mpi_begin(&array, CAI_ACCESS_READ | CAI_MPI_CHECK, &it.buffer, error));
    /* Without elements as well, so that it does not depend on the shape. */
    array.flags = CAI_ARRAY_READONLY;
    static const int64_t none[3] = {2, 0, 4};
    array.shape = none;
    array.data = NULL;
    REFUSED(CAI_ERR_READONLY, "flags", cai_mpi_recv(&array, 0, 0, MPI_COMM_SELF, 0, NULL, error));
    /* Reductions accept no derived datatypes. */
    static const int64_t many[3] = {1 << 20, 1 << 10, 3};
    array = plain();
    array.shape = many;
    REFUSED(CAI_ERR_ARGUMENT, "flags",
            cai_mpi_begin(&array, CAI_ACCESS_READ | CAI_MPI_PLAIN, &it.buffer, error));
    /* Python objects, in fields of fields. */
    const cai_descr *descr;
    cai_owner *owner;
    OK(cai_descr_parse("[('a', '<i8'), ('b', [('c', '|O8')])]", &descr, &owner, error));
    array = plain();
    memcpy(array.typestr, "|V16", sizeof("|V16"));
    array.descr = descr;
    REFUSED(CAI_ERR_CONVERT_TYPE, "descr", cai_mpi_send(&array, 0, 0, MPI_COMM_SELF, 0, error));
    cai_owner_release(owner);
    OK(cai_descr_parse("[('a', '<i8'), ('b', '>f8')]", &descr, &owner, error));
    array.descr = descr;
    REFUSED(CAI_ERR_CONVERT_BYTE_ORDER, "descr[1].typestr",
            cai_mpi_send(&array, 0, 0, MPI_COMM_SELF, 0, error));
    cai_owner_release(owner);
    /* ROCm's memory on the host is memory of the host, but for copies. */
    array = plain();
    array.device.type = CAI_DEVICE_ROCM_HOST;
    OK(cai_mpi_begin(&array, CAI_ACCESS_READ, &it.buffer, error));
    ASSERT(it.buffer.address == array.data);
    cai_mpi_discard(&it.buffer);
    array.device.type = CAI_DEVICE_ROCM;
    for (uint32_t flags = 0; flags < 2; ++flags)
        REFUSED(CAI_ERR_CONVERT_DEVICE, "device.type",
                cai_mpi_send(&array, 0, 0, MPI_COMM_SELF,
                             flags ? CAI_MPI_STAGE | CAI_MPI_DIRECT : 0, error));
    /* CAI_CUDA_DRIVER names no file. */
    array.device.type = CAI_DEVICE_UNKNOWN;
    REFUSED(CAI_ERR_NO_DRIVER, "device.type", cai_mpi_send(&array, 0, 0, MPI_COMM_SELF, 0, error));
}

/* --- messages that are not as long as the array */

static void statuses(void) {
    cai_array array = plain();
    cai_mpi_request it;
    MPI_Status status;
    int is_done = 0;
    for (int i = 0; i < 24; ++i)
        memory[512 + i] = -1;
    OK(cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_STAGE, &it, error));
    MPI_Cancel(&it.request);
    OK(cai_mpi_wait(&it, NULL, error));
    ASSERT(memory[512] < 0);
#if defined(OPEN_MPI) /* MPICH aborts */
    OK(cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_STAGE, &it, error));
    ASSERT(MPI_Send("twelve bytes", 12, MPI_BYTE, 0, 1, MPI_COMM_SELF) == MPI_SUCCESS);
    REFUSED(CAI_ERR_MPI, "MPI_Get_elements", cai_mpi_wait(&it, NULL, error));
    ASSERT(memory[512] < 0 && memory[513] < 0);
#endif
    /* Without a status, how much was received is not known. */
    OK(cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_STAGE, &it, error));
    ASSERT(MPI_Send(memory, 3, MPI_DOUBLE, 0, 1, MPI_COMM_SELF) == MPI_SUCCESS);
    while (!is_done)
        MPI_Test(&it.request, &is_done, &status);
    REFUSED(CAI_ERR_NULL_ARGUMENT, "status", cai_mpi_finish(&it, MPI_STATUS_IGNORE, error));
    OK(cai_mpi_finish(&it, &status, error));
    ASSERT(memory[514] >= 0 && memory[515] < 0);
    OK(cai_mpi_recv(&array, MPI_PROC_NULL, 1, MPI_COMM_SELF, CAI_MPI_STAGE, &status, error));
    ASSERT(memory[515] < 0);
    ASSERT(datatypes == 0);
}

/* --- what a checked message states */

typedef struct {
    const char *name, *typestr;
    uint16_t code;
    int ndim;
    int64_t shape[3];
    uint32_t flags;
    const char *fields;
} side;

static cai_array of_side(const side *it, double *data, cai_owner **fields) {
    cai_array array = valid_array();
    const cai_descr *descr = NULL;
    int64_t count = 1;
    for (int i = 0; i < it->ndim; ++i)
        count *= it->shape[i];
    array.data = count > 0 ? data : NULL;
    array.shape = it->shape;
    array.ndim = it->ndim;
    array.dtype_code = it->code;
    set_typestr(&array, it->typestr);
    *fields = NULL;
    if (it->fields != NULL) OK(cai_descr_parse(it->fields, &descr, fields, error));
    array.descr = descr;
    return array;
}

/* The receiver's array does not change, whichever function receives, and all is released. */
static void checked_pair(const side *from, const side *to, const char *field, const char *text) {
    static double data[2][512];
    double before[512];
    cai_owner *fields[2];
    cai_array source = of_side(from, data[0], &fields[0]),
              target = of_side(to, data[1], &fields[1]);
    for (int way = 0; way < 3; ++way) {
        cai_mpi_request sent, received;
        cai_error why = {0};
        cai_status status;
        for (int i = 0; i < 512; ++i) {
            data[0][i] = i + 1;
            data[1][i] = before[i] = -1 - i;
        }
        OK(cai_mpi_isend(&source, 0, 7, MPI_COMM_SELF, from->flags, &sent, error));
        if (way == 0) {
            OK(cai_mpi_irecv(&target, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, to->flags,
                             &received, error));
            status = cai_mpi_wait(&received, NULL, &why);
            ASSERT(received.buffer.datatype == MPI_DATATYPE_NULL);
        } else if (way == 1) {
            status = cai_mpi_recv(&target, 0, 7, MPI_COMM_SELF, to->flags, NULL, &why);
        } else {
            OK(cai_mpi_recv_init(&target, 0, MPI_ANY_TAG, MPI_COMM_SELF, to->flags, &received,
                                 error));
            OK(cai_mpi_start(&received, error));
            status = cai_mpi_wait(&received, NULL, &why);
            ASSERT(received.is_idle);
            OK(cai_mpi_request_free(&received, error));
        }
        (void)cai_mpi_wait(&sent, NULL, NULL);
        if (field == NULL) {
            ASSERT_STATUS(CAI_OK, status);
            ASSERT(memcmp(data[0], data[1], 8) == 0 || target.data == NULL);
        } else {
            if (status != CAI_ERR_MPI_MISMATCH) FAIL("%d: %s", (int)status, why.message);
            ASSERT_TEXT(field, why.field);
            ASSERT_CONTAINS(why.message, text);
            ASSERT_CONTAINS(why.message, "from rank 0 with tag 7");
            ASSERT(memcmp(data[1], before, sizeof before) == 0);
        }
        ASSERT(datatypes == 0);
    }
    for (int i = 0; i < 2; ++i)
        cai_owner_release(fields[i]);
}

static void checks(void) {
    enum { C = CAI_MPI_CHECK };
    const char *ab = "[('a', '<i4'), ('b', '<i4')]", *ac = "[('a', '<i4'), ('c', '<i4')]",
               *abc = "[('a', '<i4'), ('b', '<i4'), ('c', '<i4', (0,))]",
               *nested = "[('a', [('a', '<i4'), ('b', '<i4')])]", *pair = "[('a', '<i4', (2,))]",
               *other_nested = "[('a', [('a', '<i4'), ('b', '<u4')])]",
               *same_nested = "[('a', [('a', '<i4')]), ('b', '<i4')]";
    char long_list[512] = "[('a', '<i4'), ('";
    memset(long_list + strlen(long_list), 'b', 300);
    strcat(long_list, "', '<i4')]");
/* Rows that differ in their types, in their fields, or in their shapes. */
#define TYPES(name, from, code, to, other_code, ...) \
    {{name, from, code, 1, {6}, C, NULL}, {"", to, other_code, 1, {6}, C, NULL}, __VA_ARGS__}
#define FIELDS(name, from, to, ...) \
    {{name, "|V8", 0, 1, {6}, C, from}, {"", "|V8", 0, 1, {6}, C, to}, __VA_ARGS__}
#define SHAPES(name, flags, from, to, ...) \
    {{name, "<f8", 0, from, flags, NULL}, {"", "<f8", 0, to, C, NULL}, __VA_ARGS__}
#define DIM(...) \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), { __VA_ARGS__ }
    const struct {
        side from, to;
        const char *field, *text;
    } rows[] = {
        SHAPES("same", C, DIM(3, 4), DIM(3, 4), NULL, NULL),
        {{"orders", "|u1", 0, 1, {24}, C, NULL}, {"", "<u1", 0, 1, {24}, C, NULL}, NULL, NULL},
        {{"other flags", "<f8", 0, 1, {3}, C, NULL},
         {"", "<f8", 0, 1, {3}, C | CAI_MPI_PLAIN | CAI_MPI_DIRECT, NULL},
         NULL,
         NULL},
        SHAPES("empty", C, DIM(3, 0), DIM(3, 0), NULL, NULL),
        {{"scalar", "<f8", 0, 0, {0}, C, NULL}, {"", "<f8", 0, 0, {0}, C, NULL}, NULL, NULL},
        TYPES("kind", "<f4", 0, "<i4", 0, "typestr",
              "found \"<f4\" from rank 0 with tag 7, expected \"<i4\""),
        TYPES("smaller", "<f4", 0, "<f8", 0, "typestr", "<f4"),
        TYPES("larger", "<f8", 0, "<f4", 0, "typestr", "<f8"),
        TYPES("unit", "<M8[s]", 0, "<M8[us]", 0, "typestr", "\"<M8[us]\""),
        TYPES("code", "<V1", CAI_DTYPE_FLOAT8_E4M3FN, "<V1", CAI_DTYPE_FLOAT8_E5M2, "dtype_code",
              "expected 12"),
        TYPES("no code", "<V2", 0, "<V2", CAI_DTYPE_BFLOAT16, "dtype_code", "found 0"),
        FIELDS("names", ab, ac, "descr[1].name",
               "found \"b\" from rank 0 with tag 7, expected \"c\""),
        FIELDS("nested", nested, ab, "descr[0].typestr",
               "found fields from rank 0 with tag 7, expected \"<i4\""),
        FIELDS("inside", nested, other_nested, "descr[0].nested[1].typestr",
               "found \"<i4\" from rank 0 with tag 7, expected \"<u4\""),
        FIELDS("after a list that is the same", same_nested,
               "[('a', [('a', '<i4')]), ('b', '<u4')]", "descr[1].typestr",
               "found \"<i4\" from rank 0 with tag 7, expected \"<u4\""),
        FIELDS("sub-array", pair, ab, "descr[0].shape",
               "found (2,) from rank 0 with tag 7, expected ()"),
        FIELDS("a field more", ab, abc, "descr[2]",
               "found none from rank 0 with tag 7, expected \"c\""),
        FIELDS("a field less", abc, ab, "descr[2]",
               "found \"c\" from rank 0 with tag 7, expected none"),
        FIELDS("field's unit", "[('a', '<M8[s]')]", "[('a', '<M8[ms]')]", "descr[0].typestr",
               "found \"<M8[s]\" from rank 0 with tag 7, expected \"<M8[ms]\""),
        FIELDS("a long list", long_list, ab, "descr",
               "found other fields from rank 0 with tag 7, expected the array's"),
        FIELDS("same fields", nested, nested, NULL, NULL),
        FIELDS("a row without a name", "[('', '|V8')]", NULL, NULL, NULL),
        FIELDS("a pair without a name", "[('', '<f4', (2,))]", NULL, "descr", "expected none"),
        FIELDS("no fields", NULL, ab, "descr", "found no fields"),
        SHAPES("axes", C, DIM(3, 4), DIM(4, 3), "shape",
               "found (3, 4) from rank 0 with tag 7, expected (4, 3)"),
        SHAPES("ndim", C, DIM(3, 4), DIM(12), "shape", "expected (12,)"),
        SHAPES("short", C, DIM(3), DIM(4), "shape", "(3,)"),
        SHAPES("long", C, DIM(400), DIM(4), "shape", "(400,)"),
        SHAPES("empty receiver", C, DIM(400), DIM(0), "shape", "(0,)"),
        SHAPES("receiver alone", 0, DIM(400), DIM(400), "flags", "CAI_MPI_CHECK"),
        SHAPES("receiver alone, few bytes", 0, DIM(3), DIM(3), "flags", "CAI_MPI_CHECK"),
        SHAPES("receiver alone, no bytes", 0, DIM(0), DIM(0), "flags", "CAI_MPI_CHECK"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        test_row = rows[i].from.name;
        checked_pair(&rows[i].from, &rows[i].to, rows[i].field, rows[i].text);
    }
    test_row = NULL;
}

/* Messages are compared with the arrays that received them, in whatever order they complete; none
 * is compared if there is none; a sender alone is MPI's to report; an extent is a number. */
static void checks_of_states(void) {
    static const int64_t five[1] = {5}, huge[64] = {INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN};
    const cai_array array = plain();
    cai_array row = plain(), wide = plain();
    cai_mpi_request sent[2], received[2];
    cai_error why;
    char text[CAI_PRIVATE_MPI_TEXT];
    row.ndim = 1;
    row.shape = five;
    row.data = memory;
    wide.data = memory + 1024;
    OK(cai_mpi_irecv(&wide, 0, 1, MPI_COMM_SELF, CAI_MPI_CHECK, &received[0], error));
    OK(cai_mpi_irecv(&row, 0, 1, MPI_COMM_SELF, CAI_MPI_CHECK, &received[1], error));
    OK(cai_mpi_isend(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_CHECK, &sent[0], error));
    OK(cai_mpi_isend(&row, 0, 1, MPI_COMM_SELF, CAI_MPI_CHECK, &sent[1], error));
    OK(cai_mpi_wait(&received[1], NULL, error));
    OK(cai_mpi_wait(&received[0], NULL, error));
    OK(cai_mpi_wait_all(2, sent, error));
    OK(cai_mpi_recv(&array, MPI_PROC_NULL, 1, MPI_COMM_SELF, CAI_MPI_CHECK, NULL, error));
    OK(cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_CHECK, &received[0], error));
    MPI_Cancel(&received[0].request);
    OK(cai_mpi_wait(&received[0], NULL, error));
    OK(cai_mpi_isend(&array, 0, 1, MPI_COMM_SELF, CAI_MPI_CHECK, &sent[0], error));
    REFUSED(CAI_ERR_MPI, "MPI_Wait", cai_mpi_recv(&wide, 0, 1, MPI_COMM_SELF, 0, NULL, error));
    (void)cai_mpi_wait(&sent[0], NULL, NULL);
    /* A prepared request does not take an earlier message's statement for that of a later one. */
    OK(cai_mpi_recv_init(&wide, 0, 1, MPI_COMM_SELF, CAI_MPI_CHECK, &received[0], error));
    for (int is_checked = 1; is_checked >= 0; --is_checked) {
        OK(cai_mpi_start(&received[0], error));
        OK(cai_mpi_isend(&array, 0, 1, MPI_COMM_SELF, is_checked ? CAI_MPI_CHECK : 0, &sent[0],
                         error));
        ASSERT_STATUS(is_checked ? CAI_OK : CAI_ERR_MPI_MISMATCH,
                      cai_mpi_wait(&received[0], NULL, &why));
        OK(cai_mpi_wait(&sent[0], NULL, error));
    }
    OK(cai_mpi_request_free(&received[0], error));
    for (int ndim = 0; ndim <= CAI_MAX_NDIM; ++ndim) {
        memset(text, 0x7f, sizeof text);
        cai_private_mpi_write_shape(ndim, huge, text);
        ASSERT(memchr(text, 0, sizeof text) != NULL);
    }
    ASSERT_CONTAINS(text, "(9223372036854775807, -9223372036854775808, ");
    ASSERT_CONTAINS(text, ", ...)");
    ASSERT(datatypes == 0);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    nulls();
    states();
    kept_by_mpi();
    outputs();
    refusals();
    statuses();
    start_together();
    checks();
    checks_of_states();
    each_call_fails(exchange, 0, 2 * 4 + 4);
    each_call_fails(exchange, CAI_MPI_STAGE, 7);
    each_call_fails(exchange, CAI_MPI_CHECK, 7);
    each_call_fails(exchange_prepared, CAI_MPI_CHECK, 2 + 2 * 5);
    each_call_fails(exchange_prepared, 0, 2 * 4 + 2 * 4);
    each_call_fails(exchange_prepared, CAI_MPI_STAGE, 2 + 2 * 5);
    each_large_type_fails(16);
    each_large_type_fails(-16);
    MPI_Finalize();
    puts("passed");
    return 0;
}
