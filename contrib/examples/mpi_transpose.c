/*
 * Rank 0 sends a matrix in Fortran order, and rank 1 receives it in C order. It prints 0 3 6:
 *
 *     mpicc mpi_transpose.c $(pkg-config --cflags --libs cai) -o mpi_transpose
 *     mpiexec -n 2 ./mpi_transpose
 *
 * examples-c/mpi_halo.c is a larger program, also with device memory.
 */
#include <cai/mpi.h>
#include <stdio.h>

int main(int count, char **words) {
    static double data[12];
    static const int64_t shape[2] = {3, 4}, fortran[2] = {8, 24};
    cai_array matrix = CAI_ARRAY_INIT;
    cai_mpi_request request = CAI_MPI_REQUEST_INIT;
    cai_status status = CAI_OK;
    cai_error error;
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    matrix.data = data;
    matrix.shape = shape;
    matrix.ndim = 2;
    memcpy(matrix.typestr, "<f8", sizeof("<f8"));
    matrix.device.type = CAI_DEVICE_CPU; /* or CAI_DEVICE_CUDA, and device.id */
    matrix.stream = CAI_STREAM_NONE;     /* or the stream with pending work */
    if (rank == 0) {
        for (int i = 0; i < 12; ++i)
            data[i] = i;
        matrix.strides = fortran;
        status = cai_mpi_isend(&matrix, 1, 0, MPI_COMM_WORLD, 0, &request, &error);
    } else if (rank == 1) {
        status = cai_mpi_irecv(&matrix, 0, 0, MPI_COMM_WORLD, 0, &request, &error);
    }
    /* Between start and wait, the array's memory belongs to the message. */
    if (status == CAI_OK) status = cai_mpi_wait(&request, NULL, &error);
    if (rank == 1) printf("%g %g %g\n", data[0], data[1], data[2]); /* 0 3 6 */
    if (status != CAI_OK) {
        fprintf(stderr, "%s\n", error.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
