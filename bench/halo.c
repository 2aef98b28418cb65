/*
 * A layer of a 3-d array of doubles from one side to the other, within one process: with cai/mpi.h,
 * and with datatypes made by hand, for every message or once.
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

static int with_cai(const void *with) {
    static const int64_t strides[3] = {sizeof cells[0], sizeof cells[0][0], sizeof(double)};
    cai_mpi_request requests[2] = {CAI_MPI_REQUEST_INIT, CAI_MPI_REQUEST_INIT};
    int64_t shape[3] = {edge, edge, edge};
    cai_array array = CAI_ARRAY_INIT;
    (void)with;
    shape[axis] = wrong ? -1 : 1;
    array.shape = shape;
    array.strides = strides;
    array.ndim = 3;
    memcpy(array.typestr, "<f8", sizeof("<f8"));
    array.device.type = CAI_DEVICE_CPU;
    array.stream = CAI_STREAM_NONE;
    array.data = first_of(edge + 1);
    if (cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, 0, &requests[0], NULL) != CAI_OK) return 1;
    array.data = first_of(1);
    if (cai_mpi_isend(&array, 0, 1, MPI_COMM_SELF, 0, &requests[1], NULL) != CAI_OK) return 1;
    return cai_mpi_wait_all(2, requests, NULL) != CAI_OK;
}

static void spoil(const bench_row *row, int now_wrong) { (void)row, wrong = now_wrong; }

int main(int count, char **words) {
    static const int edges[] = {8, 64};
    char version[MPI_MAX_LIBRARY_VERSION_STRING], group[64], names[3][64];
    int length;
    MPI_Init(&count, &words);
    MPI_Get_library_version(version, &length);
    printf("with\t%.*s\n", (int)strcspn(version, ",\n"), version);
    snprintf(group, sizeof group, "a layer sent and received, %s",
             strncmp(version, "Open MPI", 8) == 0 ? "Open MPI" : "MPICH");
    for (int size = 0; size < 2; ++size)
        for (axis = 0; axis < 3; ++axis) {
            static const char *const ways[] = {"committed once", "for each message", "cai/mpi.h"};
            const bench_row rows[] = {{names[0], with_once, 0, NULL},
                                      {names[1], with_each, 0, NULL},
                                      {names[2], with_cai, 1, NULL}};
            edge = edges[size];
            for (int way = 0; way < 3; ++way)
                snprintf(names[way], sizeof names[way], "%d x %d across axis %d | %s", edge, edge,
                         axis, ways[way]);
            once = layer_type();
            BENCH(group, rows, spoil, NULL);
            MPI_Type_free(&once);
        }
    MPI_Finalize();
    return 0;
}
