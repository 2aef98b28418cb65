/*
 * Ranks that fail together: none waits for a rank whose call failed before MPI was called. The
 * number is that of a rank whose array MPI does not accept.
 *
 *     mpicc mpi_agree.c $(pkg-config --cflags --libs cai) -o mpi_agree
 *     mpiexec -n 3 ./mpi_agree         prints "3 6"
 *     mpiexec -n 3 ./mpi_agree 1       prints "rank: found CAI_ERR_CONVERT_BYTE_ORDER on rank 1"
 */
#include <cai/mpi.h>
#include <stdlib.h>

/* Adds the arrays of all ranks, in place. Returns a failure on all ranks, or on none. */
static cai_status sum(const cai_array *array, cai_error *error) {
    const uint32_t flags = CAI_ACCESS_READ | CAI_ACCESS_WRITE | CAI_MPI_PLAIN;
    cai_mpi_buffer it = CAI_MPI_BUFFER_INIT;
    cai_status status = cai_mpi_begin(array, flags, &it, error);
    status = cai_mpi_agree(MPI_COMM_WORLD, status, error);
    if (status == CAI_OK)
        status = cai_mpi_failure(
            MPI_Allreduce(MPI_IN_PLACE, it.address, it.count, it.datatype, MPI_SUM, MPI_COMM_WORLD),
            "MPI_Allreduce", error);
    if (status == CAI_OK) status = cai_mpi_end(&it, error);
    cai_mpi_discard(&it); /* does nothing after the end */
    return cai_mpi_agree(MPI_COMM_WORLD, status, error);
}

int main(int count, char **words) {
    static const int64_t shape[1] = {2};
    double data[2] = {1, 2};
    cai_array array = CAI_ARRAY_INIT;
    cai_error error;
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    array.data = data;
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "<f8", sizeof("<f8"));
    if (count > 1 && atoi(words[1]) == rank) array.typestr[0] = '>';
    array.device.type = CAI_DEVICE_CPU;
    array.stream = CAI_STREAM_NONE;
    cai_status status = sum(&array, &error);
    if (rank == 0 && status == CAI_OK) printf("%g %g\n", data[0], data[1]);
    if (rank == 0 && status != CAI_OK) puts(error.message);
    MPI_Finalize();
    return status != CAI_OK;
}
