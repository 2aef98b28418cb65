/*
 * A layer of a 3-d array of doubles from one side to the other, within one process: with cai/mpi.h,
 * and with datatypes made by hand, for every message or once. Every way runs in every round.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 41, EXCHANGES = 400, WAYS = 3, MOST = 66 };

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

static void by_hand(MPI_Datatype type) {
    MPI_Request requests[2];
    MPI_Irecv(first_of(edge + 1), 1, type, 0, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(first_of(1), 1, type, 0, 1, MPI_COMM_SELF, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void with_once(void) { by_hand(once); }

static void with_each(void) {
    MPI_Datatype type = layer_type();
    by_hand(type);
    MPI_Type_free(&type);
}

static void with_cai(void) {
    static const int64_t strides[3] = {sizeof cells[0], sizeof cells[0][0], sizeof(double)};
    cai_mpi_request requests[2] = {CAI_MPI_REQUEST_INIT, CAI_MPI_REQUEST_INIT};
    int64_t shape[3] = {edge, edge, edge};
    cai_array array = CAI_ARRAY_INIT;
    shape[axis] = 1;
    array.shape = shape;
    array.strides = strides;
    array.ndim = 3;
    memcpy(array.typestr, "<f8", sizeof("<f8"));
    array.device.type = CAI_DEVICE_CPU;
    array.stream = CAI_STREAM_NONE;
    array.data = first_of(edge + 1);
    if (cai_mpi_irecv(&array, 0, 1, MPI_COMM_SELF, 0, &requests[0], NULL) != CAI_OK) exit(1);
    array.data = first_of(1);
    if (cai_mpi_isend(&array, 0, 1, MPI_COMM_SELF, 0, &requests[1], NULL) != CAI_OK) exit(1);
    if (cai_mpi_wait_all(2, requests, NULL) != CAI_OK) exit(1);
}

int main(int count, char **words) {
    static void (*const ways[WAYS])(void) = {with_once, with_each, with_cai};
    static const char *const names[WAYS] = {
        "by hand, datatype committed once",
        "by hand, datatype for each message",
        "cai/mpi.h",
    };
    static const int edges[] = {8, 64};
    MPI_Init(&count, &words);
    printf("%-52s %9s %8s\n", "a layer sent and received, MPI in one process", "median ns",
           "ratio");
    for (int size = 0; size < 2; ++size)
        for (axis = 0; axis < 3; ++axis) {
            static double times[WAYS][ROUNDS];
            edge = edges[size];
            once = layer_type();
            for (int round = -1; round < ROUNDS; ++round)
                for (int way = 0; way < WAYS; ++way) {
                    const double start = now();
                    for (int i = 0; i < EXCHANGES; ++i)
                        ways[way]();
                    if (round >= 0) times[way][round] = (now() - start) / EXCHANGES;
                }
            MPI_Type_free(&once);
            for (int way = 0; way < WAYS; ++way) {
                char name[64];
                sort_times(times[way], ROUNDS);
                snprintf(name, sizeof name, "%d x %d across axis %d: %s", edge, edge, axis,
                         names[way]);
                printf("%-52s %9.0f %7.2fx\n", name, times[way][ROUNDS / 2],
                       times[way][ROUNDS / 2] / times[0][ROUNDS / 2]);
            }
        }
    MPI_Finalize();
    return 0;
}
