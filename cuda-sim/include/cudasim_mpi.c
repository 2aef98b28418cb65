/*
 * cudasim_mpi.c: reports the buffers of MPI calls to the race checker of cuda-sim, as accesses by
 * the host. Compile it with your MPI's compiler, into the program or a library for LD_PRELOAD:
 *
 *     mpicc -shared -fPIC cudasim_mpi.c -o libcudasim_mpi.so -ldl
 *
 * A send reads and a receive writes; nonblocking calls do so when they are started and when they
 * are completed. Buffers of derived datatypes count if these are contiguous or (h)vectors of
 * contiguous ones. Blocking sends and receives, MPI_Sendrecv, nonblocking ones with MPI_Wait,
 * Waitall, Waitany and Test, and the collective functions below are observed.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <cudasim.h>
#include <mpi.h>
#include <pthread.h>

static void accessed(const char *name, const void *buffer, size_t count, MPI_Datatype type,
                     uint32_t mode) {
    const cudasim_api *sim = cudasim_find();
    MPI_Aint lower, extent, true_lower, true_extent;
    int size, integers, addresses, types, combiner;
    if (sim == NULL || buffer == MPI_IN_PLACE || buffer == NULL || count == 0 ||
        PMPI_Type_size(type, &size) != MPI_SUCCESS || size == 0) {
        return;
    }
    PMPI_Type_get_extent(type, &lower, &extent);
    PMPI_Type_get_true_extent(type, &true_lower, &true_extent);
    const char *first = (const char *)buffer + true_lower;
    if (size == extent && size == true_extent) {
        sim->host_access(first, count * (size_t)size, mode, name);
        return;
    }
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if ((combiner != MPI_COMBINER_VECTOR && combiner != MPI_COMBINER_HVECTOR) || integers > 3 ||
        addresses > 1 || types != 1) {
        return;
    }
    int number[3];
    MPI_Aint address[1];
    MPI_Datatype element;
    PMPI_Type_get_contents(type, integers, addresses, types, number, address, &element);
    PMPI_Type_get_extent(element, &lower, &true_extent);
    MPI_Aint stride = combiner == MPI_COMBINER_VECTOR ? number[2] * true_extent : address[0];
    PMPI_Type_get_envelope(element, &integers, &addresses, &types, &combiner);
    for (size_t i = 0; i < count; ++i) {
        for (int block = 0; block < number[0]; ++block) {
            const char *at = (const char *)buffer + (MPI_Aint)i * extent + block * stride;
            accessed(name, at, (size_t)number[1], element, mode);
        }
    }
    if (combiner != MPI_COMBINER_NAMED) {
        PMPI_Type_free(&element);
    }
}

#define READS(buffer, count, type) accessed(__func__, buffer, (size_t)(count), type, CUDASIM_READ)
#define WRITES(buffer, count, type) accessed(__func__, buffer, (size_t)(count), type, CUDASIM_WRITE)

static int size_of(MPI_Comm comm) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

static int is_root(int root, MPI_Comm comm) {
    int rank = -1, inter = 0;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_rank(comm, &rank);
    return inter ? root == MPI_ROOT : rank == root;
}

/* Operations that are not complete. */
struct started {
    struct started *next;
    MPI_Request request;
    const char *name;
    const void *buffer;
    int count;
    MPI_Datatype type; /* a duplicate: the program may free its own */
    uint32_t mode;
};
static struct started *all_started;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int start(int result, MPI_Request request, const char *name, const void *buffer, int count,
                 MPI_Datatype type, uint32_t mode) {
    struct started *one = NULL;
    accessed(name, buffer, (size_t)count, type, mode);
    if (result == MPI_SUCCESS && cudasim_find() != NULL) one = malloc(sizeof *one);
    if (one != NULL && PMPI_Type_dup(type, &type) != MPI_SUCCESS) {
        free(one);
        one = NULL;
    }
    if (one != NULL) {
        pthread_mutex_lock(&lock);
        *one = (struct started){all_started, request, name, buffer, count, type, mode};
        all_started = one;
        pthread_mutex_unlock(&lock);
    }
    return result;
}

/* Records that requests, as they were before the call, are complete. */
static void complete(MPI_Request request) {
    struct started *done = NULL;
    if (request == MPI_REQUEST_NULL) return;
    pthread_mutex_lock(&lock);
    for (struct started **link = &all_started; *link != NULL;) {
        struct started *one = *link;
        if (one->request == request) {
            *link = one->next;
            one->next = done;
            done = one;
        } else {
            link = &one->next;
        }
    }
    pthread_mutex_unlock(&lock);
    while (done != NULL) {
        struct started *one = done;
        done = one->next;
        accessed(one->name, one->buffer, (size_t)one->count, one->type, one->mode);
        PMPI_Type_free(&one->type);
        free(one);
    }
}

#define SEND(name)                                                                    \
    int MPI_##name(const void *buffer, int count, MPI_Datatype type, int to, int tag, \
                   MPI_Comm comm) {                                                   \
        READS(buffer, count, type);                                                   \
        return PMPI_##name(buffer, count, type, to, tag, comm);                       \
    }
#define ISEND(name)                                                                   \
    int MPI_##name(const void *buffer, int count, MPI_Datatype type, int to, int tag, \
                   MPI_Comm comm, MPI_Request *request) {                             \
        int result = PMPI_##name(buffer, count, type, to, tag, comm, request);        \
        return start(result, *request, __func__, buffer, count, type, CUDASIM_READ);  \
    }
SEND(Send)
SEND(Ssend)
SEND(Rsend)
SEND(Bsend)
ISEND(Isend)
ISEND(Issend)
ISEND(Irsend)

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    int result = PMPI_Recv(buffer, count, type, from, tag, comm, status);
    WRITES(buffer, count, type);
    return result;
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    int result = PMPI_Irecv(buffer, count, type, from, tag, comm, request);
    return start(result, *request, __func__, buffer, count, type, CUDASIM_WRITE);
}

int MPI_Sendrecv(const void *sent, int count, MPI_Datatype type, int to, int tag, void *received,
                 int receive_count, MPI_Datatype receive_type, int from, int receive_tag,
                 MPI_Comm comm, MPI_Status *status) {
    READS(sent, count, type);
    int result = PMPI_Sendrecv(sent, count, type, to, tag, received, receive_count, receive_type,
                               from, receive_tag, comm, status);
    WRITES(received, receive_count, receive_type);
    return result;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Request before = *request;
    int result = PMPI_Wait(request, status);
    complete(before);
    return result;
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
    MPI_Request before = *request;
    int result = PMPI_Test(request, done, status);
    if (result == MPI_SUCCESS && *done) complete(before);
    return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    /* One after another, so that no memory is needed for what they were before. */
    for (int i = 0; i < count; ++i) {
        int result = MPI_Wait(&requests[i],
                              statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
        if (result != MPI_SUCCESS) return result;
    }
    return MPI_SUCCESS;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    MPI_Request *before = malloc(sizeof *before * (size_t)(count > 0 ? count : 1));
    for (int i = 0; before != NULL && i < count; ++i)
        before[i] = requests[i];
    int result = PMPI_Waitany(count, requests, index, status);
    if (before != NULL && result == MPI_SUCCESS && *index != MPI_UNDEFINED)
        complete(before[*index]);
    free(before);
    return result;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    int reads = is_root(root, comm);
    if (reads) READS(buffer, count, type);
    int result = PMPI_Bcast(buffer, count, type, root, comm);
    if (!reads) WRITES(buffer, count, type);
    return result;
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
    READS(from, count, type);
    int result = PMPI_Reduce(from, to, count, type, op, root, comm);
    if (is_root(root, comm)) WRITES(to, count, type);
    return result;
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
    READS(from, count, type);
    int result = PMPI_Allreduce(from, to, count, type, op, comm);
    WRITES(to, count, type);
    return result;
}

int MPI_Gather(const void *from, int count, MPI_Datatype type, void *to, int to_count,
               MPI_Datatype to_type, int root, MPI_Comm comm) {
    READS(from, count, type);
    int result = PMPI_Gather(from, count, type, to, to_count, to_type, root, comm);
    if (is_root(root, comm)) WRITES(to, (size_t)to_count * (size_t)size_of(comm), to_type);
    return result;
}

int MPI_Scatter(const void *from, int count, MPI_Datatype type, void *to, int to_count,
                MPI_Datatype to_type, int root, MPI_Comm comm) {
    if (is_root(root, comm)) READS(from, (size_t)count * (size_t)size_of(comm), type);
    int result = PMPI_Scatter(from, count, type, to, to_count, to_type, root, comm);
    WRITES(to, to_count, to_type);
    return result;
}

int MPI_Allgather(const void *from, int count, MPI_Datatype type, void *to, int to_count,
                  MPI_Datatype to_type, MPI_Comm comm) {
    READS(from, count, type);
    int result = PMPI_Allgather(from, count, type, to, to_count, to_type, comm);
    WRITES(to, (size_t)to_count * (size_t)size_of(comm), to_type);
    return result;
}

int MPI_Alltoall(const void *from, int count, MPI_Datatype type, void *to, int to_count,
                 MPI_Datatype to_type, MPI_Comm comm) {
    READS(from, (size_t)count * (size_t)size_of(comm), type);
    int result = PMPI_Alltoall(from, count, type, to, to_count, to_type, comm);
    WRITES(to, (size_t)to_count * (size_t)size_of(comm), to_type);
    return result;
}
