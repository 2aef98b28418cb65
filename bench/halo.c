/*
 * A layer of a 3-d array of doubles from one side to the other, within one process: with cai/mpi.h
 * and with datatypes made by hand, each prepared once or for every message.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/mpi.h>

#include <string.h>

enum { MOST = 66 };

static double cells[MOST][MOST][MOST];
static int edge; /* cells of the layer's sides */
static int axis; /* across the layer: 0 (rows in a plane), 1 (rows), 2 (single elements) */
static MPI_Datatype once;

static double *first_of(int index) {
    int at[3] = {1, 1, 1};
    at[axis] = index;
    return &cells[at[0]][at[1]][at[2]];
}

static MPI_Datatype layer_type(void) {
    const MPI_Aint pitches[3] = {sizeof cells[0], sizeof cells[0][0], sizeof(double)};
    const int outer = axis == 0 ? 1 : 0, inner = axis == 2 ? 1 : 2;
    MPI_Datatype row, layer;
    MPI_Type_create_hvector(edge, 1, pitches[inner], MPI_DOUBLE, &row);
    MPI_Type_create_hvector(edge, 1, pitches[outer], row, &layer);
    MPI_Type_free(&row);
    MPI_Type_commit(&layer);
    return layer;
}

static int by_hand(MPI_Datatype type) {
    MPI_Request requests[2];
    return MPI_Irecv(first_of(edge + 1), 1, type, 0, 1, MPI_COMM_SELF, &requests[0]) ||
           MPI_Isend(first_of(1), 1, type, 0, 1, MPI_COMM_SELF, &requests[1]) ||
           MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static int with_once(const void *with) { return (void)with, by_hand(once); }

static int with_each(const void *with) {
    MPI_Datatype type = layer_type();
    const int failed = by_hand(type);
    (void)with;
    MPI_Type_free(&type);
    return failed;
}

static int wrong;
static cai_mpi_request prepared[2];
static int64_t shape[3];

/* A layer, of which the requests hold nothing but the address of `shape`. */
static cai_array layer(int index) {
    static const int64_t strides[3] = {sizeof cells[0], sizeof cells[0][0], sizeof(double)};
    cai_array array = CAI_ARRAY_INIT;
    shape[0] = shape[1] = shape[2] = edge;
    shape[axis] = wrong ? -1 : 1;
    array.shape = shape;
    array.strides = strides;
    array.ndim = 3;
    memcpy(array.typestr, "<f8", sizeof("<f8"));
    array.device.type = CAI_DEVICE_CPU;
    array.stream = CAI_STREAM_NONE;
    array.data = first_of(index);
    return array;
}

static int with_cai(const void *with) {
    cai_mpi_request requests[2] = {CAI_MPI_REQUEST_INIT, CAI_MPI_REQUEST_INIT};
    cai_array array = layer(edge + 1);
    (void)with;
    if (cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, 0, &requests[0], NULL) != CAI_OK) return 1;
    array = layer(1);
    if (cai_mpi_isend(&array, 0, 1, MPI_COMM_SELF, 0, &requests[1], NULL) != CAI_OK) return 1;
    return cai_mpi_wait_all(2, requests, NULL) != CAI_OK;
}

/* Fails if the layer is wrong. */
static int prepare(void) {
    const cai_array to = layer(edge + 1), from = layer(1);
    return cai_mpi_recv_init(&to, 0, 1, MPI_COMM_SELF, 0, &prepared[0], NULL) != CAI_OK ||
           cai_mpi_send_init(&from, 0, 1, MPI_COMM_SELF, 0, &prepared[1], NULL) != CAI_OK;
}

static void forget(void) {
    (void)cai_mpi_request_free(&prepared[0], NULL);
    (void)cai_mpi_request_free(&prepared[1], NULL);
}

static int with_prepared(const void *with) {
    (void)with;
    return cai_mpi_start(&prepared[0], NULL) != CAI_OK ||
           cai_mpi_start(&prepared[1], NULL) != CAI_OK ||
           cai_mpi_wait_all(2, prepared, NULL) != CAI_OK;
}

/* A wrong layer is refused when it is prepared, and then nothing can be started. */
static void spoil(const bench_row *row, int now_wrong) {
    wrong = now_wrong;
    if (row->run != with_prepared) return;
    forget();
    if (prepare() != wrong) exit(1);
}

int main(int count, char **words) {
    static const int edges[] = {8, 64};
    char version[MPI_MAX_LIBRARY_VERSION_STRING], group[64], names[4][64];
    int length;
    MPI_Init(&count, &words);
    MPI_Get_library_version(version, &length);
    printf("with\t%.*s\n", (int)strcspn(version, ",\n"), version);
    snprintf(group, sizeof group, "a layer sent and received, %s",
             strncmp(version, "Open MPI", 8) == 0 ? "Open MPI" : "MPICH");
    for (int size = 0; size < 2; ++size)
        for (axis = 0; axis < 3; ++axis) {
            static const char *const ways[] = {"by hand: committed once",
                                               "by hand: for each message", "cai/mpi.h: prepared",
                                               "cai/mpi.h: for each message"};
            const bench_row rows[] = {{names[0], with_once, 0, NULL},
                                      {names[1], with_each, 0, NULL},
                                      {names[2], with_prepared, 1, NULL},
                                      {names[3], with_cai, 1, NULL}};
            edge = edges[size];
            for (int way = 0; way < 4; ++way)
                snprintf(names[way], sizeof names[way], "%d x %d across axis %d | %s", edge, edge,
                         axis, ways[way]);
            once = layer_type();
            BENCH(group, rows, spoil, NULL);
            MPI_Type_free(&once);
            forget();
        }
    MPI_Finalize();
    return 0;
}
